#include "client/memory/cuda_driver.h"

#include <dlfcn.h>

#include <array>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "fmt/format.h"

namespace quantd::client {

// Types and constants of the driver's ABI. With them, building needs no CUDA.
namespace cu {

using Result = int;
using Device = int;
using Address = unsigned long long;
using Context = struct ContextOf*;
using Memory = unsigned long long;  // for cuMemCreate
using Event = struct EventOf*;

constexpr Result kSuccess = 0;
constexpr Result kInvalidValue = 1;
constexpr Result kOutOfMemory = 2;
enum Attribute {
  kContext = 1,
  kMemoryType = 2,
  kBufferId = 7,
  kIsManaged = 8,
  kDeviceOrdinal = 9,
  kIsIpcCapable = 10,
  kRangeStart = 11,
  kRangeSize = 12,
  kHandleTypes = 14,
};
constexpr unsigned kOfDevice = 2;    // the memory type "device"
constexpr int kPosixDescriptor = 1;  // the handle type "file descriptor"

struct IpcHandle {
  std::array<std::byte, 64> bytes;
};
struct Uuid {
  std::array<std::byte, 16> bytes;
};

}  // namespace cu

namespace {

absl::Status NoGpu(int ordinal) {
  return absl::NotFoundError(fmt::format("there is no GPU {}", ordinal));
}

}  // namespace

struct CudaDriver::Functions {
  cu::Result (*init)(unsigned);
  cu::Result (*count)(int*);
  cu::Result (*device)(cu::Device*, int);
  cu::Result (*uuid)(cu::Uuid*, cu::Device);
  cu::Result (*retain)(cu::Context*, cu::Device);
  cu::Result (*push)(cu::Context);
  cu::Result (*pop)(cu::Context*);
  cu::Result (*attribute)(void*, cu::Attribute, cu::Address);
  cu::Result (*allocate)(cu::Address*, size_t);
  cu::Result (*free)(cu::Address);
  cu::Result (*ipc)(cu::IpcHandle*, cu::Address);
  cu::Result (*event_ipc)(cu::IpcHandle*, cu::Event);
  cu::Result (*retain_memory)(cu::Memory*, void*);
  cu::Result (*export_memory)(void*, cu::Memory, int, unsigned long long);
  cu::Result (*release_memory)(cu::Memory);

  template <typename T>
  bool Ask(cu::Attribute what, const void* address, T* answer) const {
    return attribute(answer, what, reinterpret_cast<cu::Address>(address)) ==
           cu::kSuccess;
  }
  // Makes a GPU's primary context current on this thread. The caller pops it.
  absl::Status Enter(int ordinal) const {
    cu::Device gpu = 0;
    cu::Context context = nullptr;
    if (device(&gpu, ordinal) != cu::kSuccess) return NoGpu(ordinal);
    // Never released, because other libraries of the process use it, too.
    if (retain(&context, gpu) == cu::kSuccess &&
        push(context) == cu::kSuccess) {
      return absl::OkStatus();
    }
    return absl::ResourceExhaustedError(
        fmt::format("GPU {} cannot be used", ordinal));
  }
};

absl::StatusOr<const CudaDriver*> CudaDriver::Get() {
  static const auto driver = Load();
  return driver;
}

absl::StatusOr<const CudaDriver*> CudaDriver::Load() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return absl::UnimplementedError(
        "GPU memory: this machine has no CUDA driver");
  }
  static Functions f;
  bool all = true;
  const auto find = [&](const char* name, auto* function) {
    void* const found = dlsym(library, name);
    all &= found != nullptr;
    *function =
        reinterpret_cast<std::remove_pointer_t<decltype(function)>>(found);
  };
  find("cuInit", &f.init);
  find("cuDeviceGetCount", &f.count);
  find("cuDeviceGet", &f.device);
  find("cuDeviceGetUuid_v2", &f.uuid);
  find("cuDevicePrimaryCtxRetain", &f.retain);
  find("cuCtxPushCurrent_v2", &f.push);
  find("cuCtxPopCurrent_v2", &f.pop);
  find("cuPointerGetAttribute", &f.attribute);
  find("cuMemAlloc_v2", &f.allocate);
  find("cuMemFree_v2", &f.free);
  find("cuIpcGetMemHandle", &f.ipc);
  find("cuIpcGetEventHandle", &f.event_ipc);
  find("cuMemRetainAllocationHandle", &f.retain_memory);
  find("cuMemExportToShareableHandle", &f.export_memory);
  find("cuMemRelease", &f.release_memory);
  if (!all) {
    return absl::UnimplementedError("GPU memory: the CUDA driver is too old");
  }
  int devices = 0;
  if (f.init(0) != cu::kSuccess || f.count(&devices) != cu::kSuccess ||
      devices == 0) {
    return absl::UnimplementedError("GPU memory: this machine has no GPU");
  }
  return new CudaDriver(&f);
}

absl::StatusOr<CudaAllocation> CudaDriver::Find(const void* address) const {
  unsigned type = 0;
  unsigned managed = 0;
  cu::Address start = 0;
  CudaAllocation found;
  size_t size = 0;
  if (!f_->Ask(cu::kMemoryType, address, &type) || type != cu::kOfDevice ||
      (f_->Ask(cu::kIsManaged, address, &managed) && managed != 0) ||
      !f_->Ask(cu::kRangeStart, address, &start) ||
      !f_->Ask(cu::kRangeSize, address, &size) ||
      !f_->Ask(cu::kBufferId, address, &found.id)) {
    return absl::InvalidArgumentError(
        fmt::format("pointer: expected GPU memory, got {}", fmt::ptr(address)));
  }
  found.bytes = {reinterpret_cast<std::byte*>(start), size};
  return found;
}

std::optional<uint64_t> CudaDriver::IdAt(const void* address) const {
  uint64_t id = 0;
  if (!f_->Ask(cu::kBufferId, address, &id)) return std::nullopt;
  return id;
}

bool CudaDriver::IsThere(const CudaAllocation& allocation) const {
  return IdAt(allocation.bytes.data()) == allocation.id;
}

absl::StatusOr<CudaDriver::Exported> CudaDriver::Export(
    const CudaAllocation& allocation) const {
  const void* const data = allocation.bytes.data();
  const auto failed = [](std::string_view why) {
    return absl::InvalidArgumentError(
        fmt::format("pointer: expected memory that CUDA can share with other "
                    "processes, got {}",
                    why));
  };
  int ordinal = 0;
  cu::Device device = 0;
  cu::Uuid uuid;
  if (!f_->Ask(cu::kDeviceOrdinal, data, &ordinal) ||
      f_->device(&device, ordinal) != cu::kSuccess ||
      f_->uuid(&uuid, device) != cu::kSuccess) {
    return failed("memory of an unknown GPU");
  }
  Exported made;
  made.offer.size = allocation.bytes.size();
  made.offer.uuid = uuid.bytes;
  unsigned ipc_capable = 0;
  unsigned handle_types = 0;
  f_->Ask(cu::kIsIpcCapable, data, &ipc_capable);
  f_->Ask(cu::kHandleTypes, data, &handle_types);
  if (ipc_capable == 0 && (handle_types & cu::kPosixDescriptor) != 0) {
    cu::Memory memory = 0;
    if (f_->retain_memory(&memory, allocation.bytes.data()) != cu::kSuccess) {
      return failed("a part of an allocation");
    }
    const cu::Result result =
        f_->export_memory(&made.descriptor, memory, cu::kPosixDescriptor, 0);
    f_->release_memory(memory);
    if (result != cu::kSuccess) return failed("memory that cannot be exported");
    made.offer.kind = wire::RegionKind::kCudaDescriptor;
    return made;
  }
  cu::Context context = nullptr;
  if (!f_->Ask(cu::kContext, data, &context) ||
      f_->push(context) != cu::kSuccess) {
    return failed("memory without a context, perhaps of a pool");
  }
  cu::IpcHandle handle;
  const cu::Result result =
      f_->ipc(&handle, reinterpret_cast<cu::Address>(data));
  f_->pop(&context);
  if (result != cu::kSuccess) return failed("memory of a pool");
  made.offer.kind = wire::RegionKind::kCudaIpc;
  made.offer.ipc = handle.bytes;
  return made;
}

absl::StatusOr<wire::Offer> CudaDriver::ExportEvent(int ordinal,
                                                    void* event) const {
  wire::Offer offer;
  offer.kind = wire::RegionKind::kCudaEvent;
  cu::Device device = 0;
  cu::Uuid uuid;
  if (f_->device(&device, ordinal) != cu::kSuccess ||
      f_->uuid(&uuid, device) != cu::kSuccess) {
    return NoGpu(ordinal);
  }
  if (absl::Status s = f_->Enter(ordinal); !s.ok()) return s;
  cu::IpcHandle handle;
  const cu::Result result =
      event == nullptr ? cu::kInvalidValue
                       : f_->event_ipc(&handle, static_cast<cu::Event>(event));
  cu::Context context = nullptr;
  f_->pop(&context);
  if (result != cu::kSuccess) {
    return absl::InvalidArgumentError(
        "event: expected a CUDA event made with cudaEventInterprocess, got "
        "another event");
  }
  offer.uuid = uuid.bytes;
  offer.ipc = handle.bytes;
  return offer;
}

absl::StatusOr<CudaAllocation> CudaDriver::Allocate(int ordinal,
                                                    size_t bytes) const {
  if (absl::Status s = f_->Enter(ordinal); !s.ok()) return s;
  cu::Context context = nullptr;
  cu::Address address = 0;
  const cu::Result result = f_->allocate(&address, bytes);
  f_->pop(&context);
  if (result != cu::kSuccess) {
    return absl::ResourceExhaustedError(
        result == cu::kOutOfMemory
            ? fmt::format("no memory for {} bytes on GPU {}", bytes, ordinal)
            : fmt::format("GPU {} cannot allocate memory", ordinal));
  }
  return Find(reinterpret_cast<const void*>(address));
}

void CudaDriver::Free(const CudaAllocation& allocation) const {
  const void* const data = allocation.bytes.data();
  cu::Context context = nullptr;
  if (!IsThere(allocation) || !f_->Ask(cu::kContext, data, &context) ||
      f_->push(context) != cu::kSuccess) {
    return;
  }
  f_->free(reinterpret_cast<cu::Address>(data));
  f_->pop(&context);
}

}  // namespace quantd::client
