// CUDA's runtime for one emulated device, whose memory is the host's. All that
// is queued is done at once.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "tests/emulation/copies.h"

namespace emulation {
namespace {

constexpr size_t kAlignment = 256;
constexpr size_t kMemory = size_t{8} << 30;

// What was allocated, by its first byte.
struct Allocation {
  size_t bytes;
  cudaMemoryType type;
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
  // What nobody wrote is not what anybody expects.
  if (type == cudaMemoryTypeDevice) std::memset(made, 0x5B, bytes);
  const std::lock_guard lock(mutex);
  allocations[static_cast<std::byte*>(made)] = {bytes, type};
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

struct Event {
  std::chrono::steady_clock::time_point at = {};
};

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
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  return device == 0 ? cudaSuccess : cudaErrorInvalidDevice;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int) {
  *p = {};
  std::strcpy(p->name, "emulated device");
  p->major = QUANTD_EMULATED_ARCH / 100;
  p->minor = QUANTD_EMULATED_ARCH / 10 % 10;
  p->multiProcessorCount = 4;
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
      *value = 4;
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
  auto at =
      emulation::allocations.upper_bound(static_cast<const std::byte*>(p));
  if (at == emulation::allocations.begin()) return cudaSuccess;
  --at;
  if (static_cast<const std::byte*>(p) >= at->first + at->second.bytes) {
    return cudaSuccess;
  }
  a->type = at->second.type;
  a->devicePointer = const_cast<void*>(p);
  if (a->type == cudaMemoryTypeDevice) a->hostPointer = nullptr;
  return cudaSuccess;
}
cudaError_t cudaIpcOpenMemHandle(void**, cudaIpcMemHandle_t, unsigned) {
  return cudaErrorNotSupported;
}
cudaError_t cudaIpcCloseMemHandle(void*) { return cudaErrorNotSupported; }
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t*, void*) {
  return cudaErrorNotSupported;
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
cudaError_t cudaMemset(void* to, int value, size_t bytes) {
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

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = reinterpret_cast<cudaStream_t>(new char);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete reinterpret_cast<char*>(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaStreamQuery(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) {
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = reinterpret_cast<cudaEvent_t>(new emulation::Event);
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete reinterpret_cast<emulation::Event*>(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
  reinterpret_cast<emulation::Event*>(event)->at =
      std::chrono::steady_clock::now();
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t from, cudaEvent_t to) {
  const std::chrono::duration<float, std::milli> took =
      reinterpret_cast<emulation::Event*>(to)->at -
      reinterpret_cast<emulation::Event*>(from)->at;
  *ms = took.count();
  return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPointByVersion(
    const char* name, void** function, unsigned, unsigned long long,
    cudaDriverEntryPointQueryResult* found) {
  const bool known = std::strcmp(name, "cuTensorMapEncodeTiled") == 0 &&
                     QUANTD_EMULATED_ARCH >= 900;
  *function =
      known ? reinterpret_cast<void*>(&emulation::EncodeTensorMap) : nullptr;
  *found =
      known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

}  // extern "C"
