#include "tests/bench/gpu_bench_job.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "kernels/cuda/check.h"

namespace quantd::bench {

void Check(cudaError_t error, const std::string& step) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", step.c_str(), cudaGetErrorString(error));
  std::exit(1);
}

Memory::Memory(size_t bytes) : size_(bytes) {
  void* p = nullptr;
  Check(cudaMalloc(&p, std::max<size_t>(bytes, 1)), "cudaMalloc");
  data_ = static_cast<std::byte*>(p);
}

Memory::~Memory() {
  if (data_ != nullptr) cudaFree(data_);
}

DeviceJob::DeviceJob(const Plan& plan, const Place& place, std::byte* in,
                     std::byte* out)
    : plan_(plan),
      queue_(place.queue),
      tables_(plan, place.queue.shared_memory),
      host_tables_(tables_.host_bytes()),
      device_tables_(tables_.device_bytes()) {
  memory_.payload.in = in;
  memory_.payload.out = out;
  const auto& rotation = tables_.recipe().rotation;
  const int dimension = rotation ? rotation->dimension : 16;
  const auto* const of = std::find(std::begin(kRhtDimensions),
                                   std::end(kRhtDimensions), dimension);
  memory_.payload.signs = place.signs[of - std::begin(kRhtDimensions)];
  memory_.findings = place.findings;
  tables_.Place(host_tables_.data(), device_tables_.data());
  size_t small = 0;
  for (const TensorSpec& spec : plan.outputs()) {
    if (IsSmall(spec)) small += spec.size;
  }
  saved_ = Memory(small);
}

// A small tensor has at most one number for each group.
bool DeviceJob::IsSmall(const TensorSpec& spec) {
  // Some libraries store an FP8 tensor's scale in 16 bits.
  return (spec.dtype == DType::kF32 || spec.size <= sizeof(float)) &&
         spec.shape.size() == 1 && spec.kind != TensorKind::kDbias;
}

cudaError_t DeviceJob::QueueWhole() {
  int rht_launches = 0;
  QUANTD_CUDA_TRY(cuda::QueueWork(&tables_, memory_, queue_, &rht_launches));
  std::byte* to = saved_.data();
  for (const TensorSpec& spec : plan_.outputs()) {
    if (!IsSmall(spec)) continue;
    QUANTD_CUDA_TRY(cudaMemcpyAsync(to, out() + spec.offset, spec.size,
                                    cudaMemcpyDeviceToDevice, queue_.stream));
    to += spec.size;
  }
  return cudaSuccess;
}

cudaError_t DeviceJob::QueueAgain(cuda::Part part) const {
  return cuda::QueueAgain(tables_, memory_, queue_, part);
}

cudaError_t DeviceJob::Restore() const {
  const std::byte* from = saved_.data();
  for (const TensorSpec& spec : plan_.outputs()) {
    if (!IsSmall(spec)) continue;
    QUANTD_CUDA_TRY(cudaMemcpyAsync(out() + spec.offset, from, spec.size,
                                    cudaMemcpyDeviceToDevice, queue_.stream));
    from += spec.size;
  }
  return cudaSuccess;
}

cudaError_t DeviceJob::Poison(int value) const {
  QUANTD_CUDA_TRY(
      cudaMemsetAsync(out(), value, plan_.output_bytes(), queue_.stream));
  for (const TensorSpec& spec : plan_.outputs()) {
    if (!IsOfHost(spec)) continue;
    QUANTD_CUDA_TRY(
        cudaMemsetAsync(out() + spec.offset, 0, spec.size, queue_.stream));
  }
  return cudaSuccess;
}

cudaError_t DeviceJob::Poison(int value, cuda::Part part) const {
  if (part == cuda::Part::kKernels) return Poison(value);
  for (const TensorSpec& spec : plan_.outputs()) {
    // Scales of groups may have padding, which no kernel writes.
    const bool scale = spec.kind == TensorKind::kRowwiseScale ||
                       spec.kind == TensorKind::kColumnwiseScale;
    if (IsSmall(spec) || IsOfHost(spec) || (scale && plan_.grouped())) continue;
    QUANTD_CUDA_TRY(
        cudaMemsetAsync(out() + spec.offset, value, spec.size, queue_.stream));
  }
  return cudaSuccess;
}

}  // namespace quantd::bench
