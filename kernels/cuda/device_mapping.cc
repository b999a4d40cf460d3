// Implements DeviceMapping and EventMapping for CUDA.
#include "kernels/cuda/device_mapping.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "kernels/cuda/check.h"

namespace quantd::cuda {
namespace {

// Devices that backends have opened. No other device is used, because using a
// device allocates memory on it.
std::mutex served_mutex;
std::vector<int> served;

// A device that backends have opened, which accesses the memory. `of_peer`: the
// memory belongs to another GPU.
struct Place {
  int ordinal = -1;
  bool of_peer = false;
  std::string name() const { return fmt::format("cuda:{}", ordinal); }
};

using Uuid = std::array<std::byte, 16>;

// The ordinal of a GPU, or -1.
int FindGpu(const Uuid& uuid) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) count = 0;
  int found = -1;
  for (int i = 0; i < count && found < 0; ++i) {
    cudaDeviceProp properties;
    static_assert(sizeof(properties.uuid) == sizeof(uuid));
    if (cudaGetDeviceProperties(&properties, i) == cudaSuccess &&
        std::memcmp(&properties.uuid, uuid.data(), sizeof(uuid)) == 0) {
      found = i;
    }
  }
  cudaGetLastError();  // clears the error, which only means "not found"
  return found;
}

std::optional<Place> FindServed(const Uuid& uuid) {
  const int gpu = FindGpu(uuid);
  const std::lock_guard lock(served_mutex);
  if (gpu < 0 || std::find(served.begin(), served.end(), gpu) == served.end()) {
    return std::nullopt;
  }
  return Place{gpu, false};
}

// Finds an opened device that can access the memory of a GPU that no backend
// has opened.
std::optional<Place> FindPeer(const Uuid& uuid) {
  const int gpu = FindGpu(uuid);
  if (gpu < 0) return std::nullopt;
  const std::lock_guard lock(served_mutex);
  for (const int candidate : served) {
    int may = 0;
    if (cudaDeviceCanAccessPeer(&may, candidate, gpu) != cudaSuccess) {
      cudaGetLastError();
    } else if (may != 0) {
      return Place{candidate, true};
    }
  }
  return std::nullopt;
}

// Looks up a function of the driver. The runtime has no equivalents, and a
// program that links with the driver does not start on machines without one.
template <typename Function>
Function Driver(const char* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found;
  const cudaError_t error = cudaGetDriverEntryPointByVersion(
      name, &function, 12000, cudaEnableDefault, &found);
  cudaGetLastError();  // clears the error, which only means "not found"
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
  IpcMapping(std::byte* data, size_t size, const Place& place)
      : DeviceMapping(data, size, place.name(), place.of_peer),
        ordinal_(place.ordinal) {}
  ~IpcMapping() override {
    // Errors are ignored: a driver that shuts down also ends the mapping.
    if (cudaSetDevice(ordinal_) != cudaSuccess ||
        cudaIpcCloseMemHandle(data()) != cudaSuccess) {
      cudaGetLastError();
    }
  }

 private:
  const int ordinal_;
};

absl::StatusOr<std::unique_ptr<DeviceMapping>> OpenIpc(
    const DeviceHandle& handle, size_t size, const Place& place) {
  cudaIpcMemHandle_t ipc;
  static_assert(sizeof(ipc) == sizeof(handle.ipc));
  std::memcpy(&ipc, handle.ipc.data(), sizeof(ipc));
  void* data = nullptr;
  const cudaError_t error =
      cudaIpcOpenMemHandle(&data, ipc, cudaIpcMemLazyEnablePeerAccess);
  if (error != cudaSuccess) {
    cudaGetLastError();  // clears the error, which is returned to the client
    return NotOpened(cudaGetErrorString(error));
  }
  auto mapping =
      std::make_unique<IpcMapping>(static_cast<std::byte*>(data), size, place);
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

// Memory that the client has allocated by cuMemCreate, mapped into this
// process.
class ImportedMapping : public DeviceMapping {
 public:
  ImportedMapping(CUdeviceptr data, size_t size, const Place& place)
      : DeviceMapping(reinterpret_cast<std::byte*>(data), size, place.name(),
                      place.of_peer),
        ordinal_(place.ordinal) {}
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
    const DeviceHandle& handle, size_t size, const Place& place) {
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
    return NotOpened("the descriptor is not one of exported memory");
  }
  CUdeviceptr address = 0;
  CUresult result = reserve(&address, size, 0, 0, 0);
  if (result != CUDA_SUCCESS) {
    release(memory);
    return NotOpened("no addresses for it");
  }
  // This fails if `size` is larger than the allocation.
  result = map(address, size, 0, memory, 0);
  release(memory);  // the mapping keeps the memory alive
  if (result != CUDA_SUCCESS) {
    free(address, size);
    return OtherSize(size, 0);
  }
  CUmemAccessDesc how = {};
  how.location = {CU_MEM_LOCATION_TYPE_DEVICE, {place.ordinal}};
  how.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  if (access(address, size, &how, 1) != CUDA_SUCCESS) {
    unmap(address, size);
    free(address, size);
    return NotOpened("the GPU has no access to it");
  }
  return std::make_unique<ImportedMapping>(address, size, place);
}

class IpcEvent : public EventMapping {
 public:
  IpcEvent(cudaEvent_t event, const Place& place)
      : EventMapping(place.name()), event_(event), ordinal_(place.ordinal) {}
  ~IpcEvent() override {
    // Errors are ignored: a driver that shuts down also ends the event.
    if (cudaSetDevice(ordinal_) != cudaSuccess ||
        cudaEventDestroy(event_) != cudaSuccess) {
      cudaGetLastError();
    }
  }

  bool Passed() const override {
    // Without this, CUDA would initialise device 0 on a thread that has no
    // current device.
    cudaSetDevice(ordinal_);
    const cudaError_t state = cudaEventQuery(event_);
    if (state == cudaErrorNotReady) return false;
    // Clears the error. If the device has faulted, a job returns that error,
    // too.
    if (state != cudaSuccess) cudaGetLastError();
    return true;
  }
  void* native() const override { return event_; }

 private:
  const cudaEvent_t event_;
  const int ordinal_;
};

}  // namespace

Served::Served(int ordinal) : ordinal_(ordinal) {
  const std::lock_guard lock(served_mutex);
  served.push_back(ordinal);
}

Served::~Served() {
  const std::lock_guard lock(served_mutex);
  served.erase(std::find(served.begin(), served.end(), ordinal_));
}

absl::StatusOr<std::unique_ptr<DeviceMapping>> OpenMapping(
    const DeviceHandle& handle, size_t size) {
  auto place = FindServed(handle.uuid);
  if (!place) place = FindPeer(handle.uuid);
  if (!place) {
    return absl::NotFoundError(
        "memory of a GPU: expected a GPU that this server works with or a peer "
        "of one, got another GPU");
  }
  QUANTD_CUDA_RETURN(cudaSetDevice(place->ordinal), "open memory");
  return handle.descriptor >= 0 ? OpenImported(handle, size, *place)
                                : OpenIpc(handle, size, *place);
}

absl::StatusOr<std::unique_ptr<EventMapping>> OpenEvent(
    const DeviceHandle& handle) {
  const auto place = FindServed(handle.uuid);
  if (!place) {
    return absl::NotFoundError(
        "an event of a GPU: expected a GPU that this server works with, got "
        "another GPU");
  }
  QUANTD_CUDA_RETURN(cudaSetDevice(place->ordinal), "open an event");
  cudaIpcEventHandle_t ipc;
  static_assert(sizeof(ipc) == sizeof(handle.ipc));
  std::memcpy(&ipc, handle.ipc.data(), sizeof(ipc));
  cudaEvent_t event = nullptr;
  if (const cudaError_t error = cudaIpcOpenEventHandle(&event, ipc);
      error != cudaSuccess) {
    cudaGetLastError();  // clears the error, which is returned to the client
    return absl::InvalidArgumentError(fmt::format(
        "an event of a GPU: cannot open it: {}", cudaGetErrorString(error)));
  }
  return std::make_unique<IpcEvent>(event, *place);
}

}  // namespace quantd::cuda
