// CUDA's runtime for emulated devices, whose memory is host memory. Queued work
// is done at once. Handles for other processes are valid in this process.
#include "tests/emulation/runtime.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "tests/emulation/copies.h"
#include "tests/emulation/streams.h"

namespace emulation {
namespace {

constexpr size_t kAlignment = 256;
constexpr size_t kMemory = size_t{8} << 30;

std::atomic<int> devices = 1;
std::atomic<bool> peers = true;
thread_local int device_of_thread = 0;

// Reads QUANTD_EMULATION_MULTIPROCESSORS. If there are few, a CTA has many
// tiles.
int Multiprocessors() {
  static const char* const count =
      std::getenv("QUANTD_EMULATION_MULTIPROCESSORS");
  return count != nullptr ? std::max(1, std::atoi(count)) : 4;
}

// An allocation. `allocations` maps its first byte to it.
struct Allocation {
  size_t bytes;
  cudaMemoryType type;
  int device;
};
std::mutex mutex;
std::map<const std::byte*, Allocation> allocations;

cudaError_t Allocate(void** p, size_t bytes, cudaMemoryType type) {
  *p = nullptr;
  if (bytes == 0) return cudaSuccess;
  if (bytes > kMemory) return cudaErrorMemoryAllocation;
  void* made = std::aligned_alloc(
      kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  if (made == nullptr) return cudaErrorMemoryAllocation;
  // Fills new memory with a pattern, so that reads of unwritten bytes show.
  if (type == cudaMemoryTypeDevice) std::memset(made, 0x5B, bytes);
  const std::lock_guard lock(mutex);
  allocations[static_cast<std::byte*>(made)] = {bytes, type, device_of_thread};
  *p = made;
  return cudaSuccess;
}
cudaError_t Free(void* p) {
  if (p == nullptr) return cudaSuccess;
  {
    const std::lock_guard lock(mutex);
    if (allocations.erase(static_cast<std::byte*>(p)) == 0) {
      return cudaErrorInvalidValue;
    }
  }
  std::free(p);
  return cudaSuccess;
}

// The allocation that contains an address, or nullptr.
const std::pair<const std::byte* const, Allocation>* Find(const void* p) {
  auto at = allocations.upper_bound(static_cast<const std::byte*>(p));
  if (at == allocations.begin()) return nullptr;
  --at;
  const bool inside =
      static_cast<const std::byte*>(p) < at->first + at->second.bytes;
  return inside ? &*at : nullptr;
}

// A handle holds the kind of an object and its address in this process.
constexpr char kOfMemory[8] = "memory";
constexpr char kOfEvent[8] = "event";
template <typename Handle>
void FillHandle(const char (&kind)[8], const void* of, Handle* handle) {
  std::memset(handle, 0, sizeof(*handle));
  std::memcpy(handle->reserved, kind, sizeof(kind));
  std::memcpy(handle->reserved + sizeof(kind), &of, sizeof(of));
}
template <typename Handle>
void* ReadHandle(const char (&kind)[8], const Handle& handle) {
  void* of = nullptr;
  if (std::memcmp(handle.reserved, kind, sizeof(kind)) == 0) {
    std::memcpy(&of, handle.reserved + sizeof(kind), sizeof(of));
  }
  return of;
}
// States of events that have handles.
std::vector<std::shared_ptr<EventState>> exported;

CUresult AddressRange(CUdeviceptr* base, size_t* bytes, CUdeviceptr p) {
  const std::lock_guard lock(mutex);
  const auto* const found = Find(reinterpret_cast<const void*>(p));
  if (found == nullptr) return CUDA_ERROR_NOT_FOUND;
  *base = reinterpret_cast<CUdeviceptr>(found->first);
  *bytes = found->second.bytes;
  return CUDA_SUCCESS;
}

CUresult EncodeTensorMap(CUtensorMap* map, CUtensorMapDataType type,
                         cuuint32_t rank, void* data, const cuuint64_t* sizes,
                         const cuuint64_t* pitch, const cuuint32_t* box,
                         const cuuint32_t*, CUtensorMapInterleave,
                         CUtensorMapSwizzle swizzle, CUtensorMapL2promotion,
                         CUtensorMapFloatOOBfill) {
  const uint32_t bytes = type == CU_TENSOR_MAP_DATA_TYPE_UINT32 ? 4 : 2;
  if (rank != 2 || swizzle != CU_TENSOR_MAP_SWIZZLE_128B ||
      box[0] * bytes != 128 || pitch[0] % 16 != 0 ||
      reinterpret_cast<uintptr_t>(data) % 16 != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const TensorMapFields fields = {static_cast<const std::byte*>(data),
                                  sizes[0],
                                  sizes[1],
                                  pitch[0],
                                  bytes,
                                  box[0],
                                  box[1]};
  static_assert(sizeof(fields) <= sizeof(*map));
  std::memcpy(map, &fields, sizeof(fields));
  return CUDA_SUCCESS;
}

}  // namespace

void SetDevices(int count, bool may) {
  devices = count;
  peers = may;
}

}  // namespace emulation

extern "C" {

cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaSuccess ? "no error" : "an error of the emulation";
}
const char* cudaGetErrorName(cudaError_t) { return "emulation"; }

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  *attributes = {};
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = emulation::devices;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = emulation::device_of_thread;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= emulation::devices) return cudaErrorInvalidDevice;
  emulation::device_of_thread = device;
  return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* may, int device, int peer) {
  *may = device != peer && emulation::peers ? 1 : 0;
  return std::max(device, peer) < emulation::devices ? cudaSuccess
                                                     : cudaErrorInvalidDevice;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int device) {
  *p = {};
  std::strcpy(p->name, "emulated device");
  p->uuid.bytes[0] = 'e';
  p->uuid.bytes[15] = static_cast<char>(device);
  p->major = QUANTD_EMULATED_ARCH / 100;
  p->minor = QUANTD_EMULATED_ARCH / 10 % 10;
  p->multiProcessorCount = emulation::Multiprocessors();
  p->totalGlobalMem = emulation::kMemory;
  p->l2CacheSize = 1 << 20;
  p->canMapHostMemory = 1;
  p->unifiedAddressing = 1;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
      *value = QUANTD_EMULATED_ARCH / 100;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = QUANTD_EMULATED_ARCH / 10 % 10;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = QUANTD_EMULATED_SHARED_KIB << 10;
      break;
    case cudaDevAttrMultiProcessorCount:
      *value = emulation::Multiprocessors();
      break;
    default:
      *value = 0;
  }
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** p, size_t bytes) {
  return emulation::Allocate(p, bytes, cudaMemoryTypeDevice);
}
cudaError_t cudaHostAlloc(void** p, size_t bytes, unsigned) {
  return emulation::Allocate(p, bytes, cudaMemoryTypeHost);
}
cudaError_t cudaMallocHost(void** p, size_t bytes) {
  return emulation::Allocate(p, bytes, cudaMemoryTypeHost);
}
cudaError_t cudaFree(void* p) { return emulation::Free(p); }
cudaError_t cudaFreeHost(void* p) { return emulation::Free(p); }
cudaError_t cudaHostRegister(void*, size_t, unsigned) {
  return cudaErrorNotSupported;
}
cudaError_t cudaHostUnregister(void*) { return cudaErrorNotSupported; }
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *free = *total = emulation::kMemory;
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* a, const void* p) {
  *a = {};
  a->type = cudaMemoryTypeUnregistered;
  a->hostPointer = const_cast<void*>(p);
  const std::lock_guard lock(emulation::mutex);
  const auto* const found = emulation::Find(p);
  if (found == nullptr) return cudaSuccess;
  a->type = found->second.type;
  a->device = found->second.device;
  a->devicePointer = const_cast<void*>(p);
  if (a->type == cudaMemoryTypeDevice) a->hostPointer = nullptr;
  return cudaSuccess;
}
cudaError_t cudaIpcOpenMemHandle(void** p, cudaIpcMemHandle_t handle,
                                 unsigned) {
  *p = emulation::ReadHandle(emulation::kOfMemory, handle);
  const std::lock_guard lock(emulation::mutex);
  const auto* const found = emulation::Find(*p);
  if (found == nullptr) return cudaErrorInvalidValue;
  const bool reaches =
      found->second.device == emulation::device_of_thread || emulation::peers;
  return reaches ? cudaSuccess : cudaErrorMapBufferObjectFailed;
}
cudaError_t cudaIpcCloseMemHandle(void*) { return cudaSuccess; }
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* p) {
  emulation::FillHandle(emulation::kOfMemory, p, handle);
  return cudaSuccess;
}
cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t* handle,
                                  cudaEvent_t event) {
  const auto& state = reinterpret_cast<emulation::Event*>(event)->state;
  constexpr unsigned kNeeded = cudaEventInterprocess | cudaEventDisableTiming;
  if ((state->flags & kNeeded) != kNeeded) return cudaErrorInvalidValue;
  const std::lock_guard lock(emulation::mutex);
  emulation::exported.push_back(state);
  emulation::FillHandle(emulation::kOfEvent, state.get(), handle);
  return cudaSuccess;
}
cudaError_t cudaIpcOpenEventHandle(cudaEvent_t* event,
                                   cudaIpcEventHandle_t handle) {
  const void* const of = emulation::ReadHandle(emulation::kOfEvent, handle);
  const std::lock_guard lock(emulation::mutex);
  for (const auto& state : emulation::exported) {
    if (state.get() != of) continue;
    *event = reinterpret_cast<cudaEvent_t>(new emulation::Event(state));
    return cudaSuccess;
  }
  return cudaErrorInvalidValue;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes,
                            cudaMemcpyKind, cudaStream_t) {
  std::memmove(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes,
                       cudaMemcpyKind) {
  std::memmove(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t) {
  std::memset(to, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemset2DAsync(void* to, size_t pitch, int value, size_t width,
                              size_t height, cudaStream_t) {
  for (size_t i = 0; i < height; ++i) {
    std::memset(static_cast<std::byte*>(to) + i * pitch, value, width);
  }
  return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPointByVersion(
    const char* name, void** function, unsigned, unsigned long long,
    cudaDriverEntryPointQueryResult* found) {
  *function = nullptr;
  if (std::strcmp(name, "cuTensorMapEncodeTiled") == 0 &&
      QUANTD_EMULATED_ARCH >= 900) {
    *function = reinterpret_cast<void*>(&emulation::EncodeTensorMap);
  } else if (std::strcmp(name, "cuMemGetAddressRange") == 0) {
    *function = reinterpret_cast<void*>(&emulation::AddressRange);
  }
  const bool known = *function != nullptr;
  *found =
      known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

}  // extern "C"
