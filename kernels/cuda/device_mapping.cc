// CUDA memory of other processes: DeviceMapping.
#include "kernels/cuda/device_mapping.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstring>
#include <mutex>
#include <vector>

#include "fmt/format.h"
#include "kernels/cuda/check.h"

namespace quantd::cuda {
namespace {

// Devices that backends have opened: no other is touched, for to open one takes
// memory there.
std::mutex served_mutex;
std::vector<int> served;

// The driver's functions: the runtime has none of its own, and linking with the
// driver would tie the program to machines that have one.
template <typename Function>
Function Driver(const char* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found;
  const cudaError_t error = cudaGetDriverEntryPointByVersion(
      name, &function, 12000, cudaEnableDefault, &found);
  cudaGetLastError();  // an answer, not a fault
  return error == cudaSuccess && found == cudaDriverEntryPointSuccess
             ? reinterpret_cast<Function>(function)
             : nullptr;
}
#define QUANTD_DRIVER(name) Driver<decltype(&name)>(#name)

absl::Status NotOpened(std::string_view why) {
  return absl::InvalidArgumentError(
      fmt::format("memory of a GPU: cannot open it: {}", why));
}

absl::Status OtherSize(size_t offered, size_t size) {
  return absl::OutOfRangeError(
      fmt::format("memory of a GPU: expected {} bytes as offered, the driver "
                  "says {}",
                  offered, size));
}

class IpcMapping : public DeviceMapping {
 public:
  IpcMapping(std::byte* data, size_t size, int ordinal)
      : DeviceMapping(data, size, fmt::format("cuda:{}", ordinal)),
        ordinal_(ordinal) {}
  ~IpcMapping() override {
    // The driver may be on its way out, and the mapping with it.
    if (cudaSetDevice(ordinal_) != cudaSuccess ||
        cudaIpcCloseMemHandle(data()) != cudaSuccess) {
      cudaGetLastError();
    }
  }

 private:
  const int ordinal_;
};

absl::StatusOr<std::unique_ptr<DeviceMapping>> OpenIpc(
    const DeviceHandle& handle, size_t size, int ordinal) {
  cudaIpcMemHandle_t ipc;
  static_assert(sizeof(ipc) == sizeof(handle.ipc));
  std::memcpy(&ipc, handle.ipc.data(), sizeof(ipc));
  void* data = nullptr;
  const cudaError_t error =
      cudaIpcOpenMemHandle(&data, ipc, cudaIpcMemLazyEnablePeerAccess);
  if (error != cudaSuccess) {
    cudaGetLastError();  // the client's, and told to it
    return NotOpened(cudaGetErrorString(error));
  }
  auto mapping = std::make_unique<IpcMapping>(static_cast<std::byte*>(data),
                                              size, ordinal);
  static const auto range = QUANTD_DRIVER(cuMemGetAddressRange);
  CUdeviceptr base = 0;
  size_t whole = 0;
  if (range == nullptr ||
      range(&base, &whole, reinterpret_cast<CUdeviceptr>(data)) !=
          CUDA_SUCCESS) {
    return NotOpened("its size is not known");
  }
  if (base != reinterpret_cast<CUdeviceptr>(data) || whole != size) {
    return OtherSize(size, whole);
  }
  return mapping;
}

// Memory of cuMemCreate, at an address of its own.
class ImportedMapping : public DeviceMapping {
 public:
  ImportedMapping(CUdeviceptr data, size_t size, int ordinal)
      : DeviceMapping(reinterpret_cast<std::byte*>(data), size,
                      fmt::format("cuda:{}", ordinal)),
        ordinal_(ordinal) {}
  ~ImportedMapping() override {
    static const auto unmap = QUANTD_DRIVER(cuMemUnmap);
    static const auto release = QUANTD_DRIVER(cuMemAddressFree);
    const auto address = reinterpret_cast<CUdeviceptr>(data());
    if (cudaSetDevice(ordinal_) != cudaSuccess) return;
    if (unmap(address, size()) == CUDA_SUCCESS) release(address, size());
  }

 private:
  const int ordinal_;
};

absl::StatusOr<std::unique_ptr<DeviceMapping>> OpenImported(
    const DeviceHandle& handle, size_t size, int ordinal) {
  static const auto import = QUANTD_DRIVER(cuMemImportFromShareableHandle);
  static const auto reserve = QUANTD_DRIVER(cuMemAddressReserve);
  static const auto map = QUANTD_DRIVER(cuMemMap);
  static const auto access = QUANTD_DRIVER(cuMemSetAccess);
  static const auto unmap = QUANTD_DRIVER(cuMemUnmap);
  static const auto free = QUANTD_DRIVER(cuMemAddressFree);
  static const auto release = QUANTD_DRIVER(cuMemRelease);
  for (const void* f : {reinterpret_cast<const void*>(import),
                        reinterpret_cast<const void*>(reserve),
                        reinterpret_cast<const void*>(map),
                        reinterpret_cast<const void*>(access),
                        reinterpret_cast<const void*>(unmap),
                        reinterpret_cast<const void*>(free),
                        reinterpret_cast<const void*>(release)}) {
    if (f == nullptr) return NotOpened("the driver does not know such memory");
  }
  CUmemGenericAllocationHandle memory = 0;
  auto* const descriptor =
      reinterpret_cast<void*>(static_cast<intptr_t>(handle.descriptor));
  if (import(&memory, descriptor, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) !=
      CUDA_SUCCESS) {
    return NotOpened("the descriptor is of no exported memory");
  }
  CUdeviceptr address = 0;
  CUresult result = reserve(&address, size, 0, 0, 0);
  if (result != CUDA_SUCCESS) {
    release(memory);
    return NotOpened("no addresses for it");
  }
  // More than there is cannot be mapped.
  result = map(address, size, 0, memory, 0);
  release(memory);  // the mapping keeps it
  if (result != CUDA_SUCCESS) {
    free(address, size);
    return OtherSize(size, 0);
  }
  CUmemAccessDesc how = {};
  how.location = {CU_MEM_LOCATION_TYPE_DEVICE, {ordinal}};
  how.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  if (access(address, size, &how, 1) != CUDA_SUCCESS) {
    unmap(address, size);
    free(address, size);
    return NotOpened("the GPU has no access to it");
  }
  return std::make_unique<ImportedMapping>(address, size, ordinal);
}

}  // namespace

void Serve(int ordinal) {
  const std::lock_guard lock(served_mutex);
  served.push_back(ordinal);
}

absl::StatusOr<std::unique_ptr<DeviceMapping>> OpenMapping(
    const DeviceHandle& handle, size_t size) {
  int ordinal = -1;
  {
    const std::lock_guard lock(served_mutex);
    for (const int candidate : served) {
      cudaDeviceProp properties;
      if (cudaGetDeviceProperties(&properties, candidate) != cudaSuccess) {
        cudaGetLastError();
        continue;
      }
      static_assert(sizeof(properties.uuid) == sizeof(handle.uuid));
      if (std::memcmp(&properties.uuid, handle.uuid.data(),
                      sizeof(handle.uuid)) == 0) {
        ordinal = candidate;
      }
    }
  }
  if (ordinal < 0) {
    return absl::NotFoundError(
        "memory of a GPU: expected one that this server works with, got "
        "another one's");
  }
  QUANTD_CUDA_RETURN(cudaSetDevice(ordinal), "open memory");
  return handle.descriptor >= 0 ? OpenImported(handle, size, ordinal)
                                : OpenIpc(handle, size, ordinal);
}

}  // namespace quantd::cuda
