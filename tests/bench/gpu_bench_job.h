// A plan on the device, without the way there and back: what the CUDA backend
// does of a job between its copies, as often as wanted.
#ifndef QUANTD_TESTS_BENCH_GPU_BENCH_JOB_H_
#define QUANTD_TESTS_BENCH_GPU_BENCH_JOB_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/compute.h"
#include "kernels/cuda/findings.h"
#include "kernels/cuda/prepared.h"
#include "quantd/plan.h"
#include "quantd/sign_mask.h"
#include "tests/bench/quantile.h"

namespace quantd::bench {

// Ends the program, naming the step, where there was an error.
void Check(cudaError_t error, const std::string& step);

// Device memory. Move-only.
class Memory {
 public:
  Memory() = default;
  explicit Memory(size_t bytes);
  Memory(Memory&& other) noexcept { *this = std::move(other); }
  Memory& operator=(Memory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Memory();

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// What jobs share.
struct Place {
  cuda::Queue queue;
  // Tables of the default rotation of each dimension, in the order of
  // kRhtDimensions.
  const float* signs[std::size(kRhtDimensions)];
  cuda::Findings* findings;  // jobs follow each other on one stream
};

// Whether the host writes this when everything else has come back.
inline bool IsOfHost(const TensorSpec& spec) {
  return spec.kind == TensorKind::kRowwiseGlobalScale ||
         spec.kind == TensorKind::kRowwiseGlobalDivisor ||
         spec.kind == TensorKind::kAmaxHistory ||
         spec.kind == TensorKind::kNextScale;
}

// Not thread-safe. `plan` outlives it, and so does the payload, plan's
// input_bytes() and output_bytes() of device memory, which others may use in
// between: see Restore. Rows and columns are multiples of 128.
class DeviceJob {
 public:
  DeviceJob(const Plan& plan, const Place& place, std::byte* in,
            std::byte* out);

  // Queue, in this order: the whole of the job, once; again a part of it, any
  // number of times, that may be captured into a graph.
  cudaError_t QueueWhole();
  cudaError_t QueueAgain(cuda::Part part) const;

  // Queues that everything small of the output gets what it was when
  // QueueWhole had run: amaxes and scales of tensors, which kernels read.
  cudaError_t Restore() const;
  // Queues bytes of `value` into all that kernels write of the output; and into
  // what a part of the job writes.
  cudaError_t Poison(int value) const;
  cudaError_t Poison(int value, cuda::Part part) const;

  const Plan& plan() const { return plan_; }
  std::byte* out() const { return memory_.payload.out; }

 private:
  static bool IsSmall(const TensorSpec& spec);

  const Plan& plan_;
  const cuda::Queue queue_;
  cuda::JobMemory memory_;
  cuda::Prepared tables_;
  std::vector<std::byte> host_tables_;
  Memory device_tables_;
  Memory saved_;  // the small tensors, one after the other
};

}  // namespace quantd::bench

#endif  // QUANTD_TESTS_BENCH_GPU_BENCH_JOB_H_
