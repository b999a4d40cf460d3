#include "kernels/cuda/device.h"

#include <cstring>

#include "fmt/format.h"
#include "kernels/arith/codec.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/queue.h"

namespace quantd::cuda {
namespace {

void* AllocatePinned(size_t bytes) {
  void* p = nullptr;
  if (cudaHostAlloc(&p, bytes, cudaHostAllocPortable) != cudaSuccess) {
    cudaGetLastError();
    return nullptr;
  }
  return p;
}
void* AllocateDevice(size_t bytes) {
  void* p = nullptr;
  if (cudaMalloc(&p, bytes) != cudaSuccess) {
    cudaGetLastError();
    return nullptr;
  }
  return p;
}
// Errors are ignored: a faulted context or an unloaded driver has already
// released the memory.
void ReleasePinned(void* p, size_t) {
  cudaFreeHost(p);
  cudaGetLastError();
}
void ReleaseDevice(void* p, size_t) {
  cudaFree(p);
  cudaGetLastError();
}

// Encodes the matrix in `dtype`. All entries are +-n^-1/2.
std::vector<std::byte> EncodeMatrix(const std::vector<float>& matrix,
                                    DType dtype) {
  const size_t size = SizeOf(dtype);
  std::vector<std::byte> bytes(matrix.size() * size);
  for (size_t i = 0; i < matrix.size(); ++i) {
    const uint32_t bits = dtype == DType::kF32 ? Scalar::Bits(matrix[i])
                          : dtype == DType::kBF16
                              ? EncodeBf16<Scalar>(matrix[i])
                              : EncodeF16<Scalar>(matrix[i]);
    std::memcpy(&bytes[i * size], &bits, size);  // little endian
  }
  return bytes;
}

}  // namespace

BlockSource PinnedSource() { return {AllocatePinned, ReleasePinned}; }
BlockSource DeviceSource() { return {AllocateDevice, ReleaseDevice}; }

absl::Status Slot::Create() {
  for (cudaStream_t* made : {&stream, &in, &out}) {
    QUANTD_CUDA_RETURN(cudaStreamCreateWithFlags(made, cudaStreamNonBlocking),
                       "create a stream");
  }
  QUANTD_CUDA_RETURN(cudaEventCreateWithFlags(&passed, cudaEventDisableTiming),
                     "create an event");
  for (cudaEvent_t& mark : marks) {
    // With this flag a waiting thread blocks instead of spinning.
    QUANTD_CUDA_RETURN(cudaEventCreateWithFlags(&mark, cudaEventBlockingSync),
                       "create an event");
  }
  void* p = nullptr;
  QUANTD_CUDA_RETURN(cudaMalloc(&p, sizeof(Findings)), "allocate");
  findings = static_cast<Findings*>(p);
  QUANTD_CUDA_RETURN(cudaMalloc(&p, sizeof(*tickets)), "allocate");
  tickets = static_cast<uint32_t*>(p);
  QUANTD_CUDA_RETURN(cudaMemsetAsync(tickets, 0, sizeof(*tickets), stream),
                     "zero");
  QUANTD_CUDA_RETURN(cudaHostAlloc(&p, sizeof(Findings), cudaHostAllocPortable),
                     "allocate pinned memory");
  findings_host = static_cast<Findings*>(p);
  return absl::OkStatus();
}

Slot::~Slot() {
  // Errors are ignored: see ReleasePinned.
  for (cudaEvent_t mark : marks) {
    if (mark != nullptr) cudaEventDestroy(mark);
  }
  if (passed != nullptr) cudaEventDestroy(passed);
  for (cudaStream_t made : {stream, in, out}) {
    if (made != nullptr) cudaStreamDestroy(made);
  }
  if (tickets != nullptr) cudaFree(tickets);
  if (findings != nullptr) cudaFree(findings);
  if (findings_host != nullptr) cudaFreeHost(findings_host);
  cudaGetLastError();
}

Device::Lease::~Lease() {
  if (slot_ == nullptr) return;
  // Errors are ignored: later calls return a sticky error again.
  if (device_->Enter().ok()) {
    for (cudaStream_t stream : {slot_->in, slot_->stream, slot_->out}) {
      cudaStreamSynchronize(stream);
    }
    cudaGetLastError();
  }
  absl::MutexLock lock(&device_->mutex_);
  device_->free_.push_back(slot_);
}

std::string Device::WhyNot(int ordinal) {
  int count = 0;
  cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    cudaGetLastError();
    return fmt::format("no CUDA device: {}", error != cudaSuccess
                                                 ? cudaGetErrorString(error)
                                                 : "the driver shows none");
  }
  if (ordinal >= count) {
    return fmt::format("no device cuda:{}: there {} {}", ordinal,
                       count == 1 ? "is" : "are", count);
  }
  error = cudaSetDevice(ordinal);
  if (error == cudaSuccess) error = FindKernels();
  if (error == cudaSuccess) return "";
  cudaGetLastError();
  return fmt::format("cuda:{} cannot be used: {}", ordinal,
                     cudaGetErrorString(error));
}

absl::StatusOr<std::unique_ptr<Device>> Device::Open(int ordinal, int slots,
                                                     size_t memory_limit) {
  if (std::string reason = WhyNot(ordinal); !reason.empty()) {
    return absl::NotFoundError(reason);
  }
  auto device = std::unique_ptr<Device>(new Device(ordinal, slots));
  if (absl::Status s = device->Enter(); !s.ok()) return s;
  cudaDeviceProp prop;
  QUANTD_CUDA_RETURN(cudaGetDeviceProperties(&prop, ordinal),
                     "read device properties");
  int shared_bytes = 0;
  QUANTD_CUDA_RETURN(
      FindAttribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, &shared_bytes),
      "read device properties");
  device->properties_ = {prop.name, prop.major, prop.minor,
                         prop.multiProcessorCount,
                         SharedMemoryFor(shared_bytes)};
  device->pinned_ = BlockPool::Create(PinnedSource(), memory_limit);
  device->memory_ = BlockPool::Create(DeviceSource(), memory_limit);
  device->table_pinned_ = BlockPool::Create(PinnedSource(), memory_limit);
  device->table_memory_ = BlockPool::Create(DeviceSource(), memory_limit);
  device->rht_memory_ = BlockPool::Create(DeviceSource(), kRhtBytes);
  if (absl::Status s = device->TakeSlot().status(); !s.ok()) return s;
  return device;
}

absl::Status Device::Enter() const {
  return CudaStatus(cudaSetDevice(ordinal_), "select the device");
}

absl::StatusOr<Device::Lease> Device::TakeSlot() {
  Lease lease;
  absl::MutexLock lock(&mutex_);
  if (free_.empty()) {
    if (slots_.size() >= static_cast<size_t>(most_slots_)) return lease;
    if (absl::Status s = Enter(); !s.ok()) return s;
    auto slot = std::make_unique<Slot>();
    if (absl::Status s = slot->Create(); !s.ok()) return s;
    free_.push_back(slot.get());
    slots_.push_back(std::move(slot));
  }
  lease.device_ = this;
  lease.slot_ = free_.back();
  free_.pop_back();
  return lease;
}

absl::StatusOr<std::shared_ptr<const CachedRht>> Device::GetRht(
    const SignMask& mask, int dimension, DType dtype, const Lease& lease) {
  const RhtKey key = {mask.words, dimension, dtype};
  absl::MutexLock lock(&rht_mutex_);
  if (const auto it = rhts_.find(key); it != rhts_.end()) {
    ++rht_hits_;
    return it->second;
  }
  ++rht_misses_;
  // Jobs own the rotations that they use, so clearing the cache is safe.
  if (rhts_.size() >= kMaxRhts) rhts_.clear();
  absl::StatusOr<std::shared_ptr<const CachedRht>> made =
      MakeRht(mask, dimension, dtype, lease);
  if (absl::IsResourceExhausted(made.status()) && !rhts_.empty()) {
    rhts_.clear();
    made = MakeRht(mask, dimension, dtype, lease);
  }
  if (made.ok()) rhts_[key] = *made;
  return made;
}

absl::StatusOr<std::shared_ptr<const CachedRht>> Device::MakeRht(
    const SignMask& mask, int dimension, DType dtype, const Lease& lease) {
  const std::vector<float> matrix = RhtMatrix(mask, dimension);
  // Column 0 of H is all ones, so column 0 of R is the scaled signs.
  std::vector<float> signs(dimension);
  for (int i = 0; i < dimension; ++i) signs[i] = matrix[i * dimension];
  const size_t signs_bytes = dimension * sizeof(float);
  std::vector<std::byte> bytes = EncodeMatrix(matrix, dtype);
  bytes.insert(bytes.begin(), signs_bytes, std::byte{});
  std::memcpy(bytes.data(), signs.data(), signs_bytes);

  absl::StatusOr<Block> memory = rht_memory_->Take(bytes.size());
  if (!memory.ok()) return memory.status();
  QUANTD_CUDA_RETURN(cudaMemcpyAsync(memory->data(), bytes.data(), bytes.size(),
                                     cudaMemcpyHostToDevice, lease->stream),
                     "upload a rotation");
  // Waits, because other streams may read a rotation once it is in the cache.
  QUANTD_CUDA_RETURN(cudaStreamSynchronize(lease->stream), "upload a rotation");
  auto rht = std::make_shared<CachedRht>();
  rht->signs = reinterpret_cast<const float*>(memory->data());
  rht->matrix = memory->data() + signs_bytes;
  rht->memory = *std::move(memory);
  return rht;
}

absl::Status Device::HealthAfter(absl::Status status, const Lease& lease) {
  if (status.ok() || absl::IsInvalidArgument(status)) return status;
  // A fault is sticky: every later call returns it.
  const cudaError_t now = cudaStreamQuery(lease->stream);
  cudaGetLastError();
  if (now == cudaSuccess || now == cudaErrorNotReady) return status;
  absl::MutexLock lock(&mutex_);
  if (fault_.ok()) {
    fault_ = absl::UnavailableError(
        fmt::format("cuda:{} is out of service: {} ({})", ordinal_,
                    cudaGetErrorString(now), cudaGetErrorName(now)));
  }
  return fault_;
}

absl::Status Device::Health() const {
  absl::MutexLock lock(&mutex_);
  return fault_;
}

}  // namespace quantd::cuda
