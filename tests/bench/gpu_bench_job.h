// A plan on the device without host copies: the kernels that the CUDA backend
// runs between the copies of a job, any number of times.
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

// Ends the program with the name of the step if there was an error.
void Check(cudaError_t error, const std::string& step);

// Device memory that this object owns. Move-only.
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

// The device state that jobs share.
struct Place {
  cuda::Queue queue;
  // Tables of the default rotation of each dimension, in the order of
  // kRhtDimensions.
  const float* signs[std::size(kRhtDimensions)];
  cuda::Findings*
      findings;  // shared, since jobs follow each other on one stream
};

// Returns whether the host, and not a kernel, writes this output.
inline bool IsOfHost(const TensorSpec& spec) {
  return spec.kind == TensorKind::kRowwiseGlobalScale ||
         spec.kind == TensorKind::kRowwiseGlobalDivisor ||
         spec.kind == TensorKind::kAmaxHistory ||
         spec.kind == TensorKind::kNextScale;
}

// A job on the device. Not thread-safe. `plan` and the payload outlive it. The
// payload is device memory of the plan's input_bytes() plus output_bytes(),
// which other jobs may use in between; see Restore. Rows and columns are
// multiples of 128.
class DeviceJob {
 public:
  DeviceJob(const Plan& plan, const Place& place, std::byte* in,
            std::byte* out);

  // QueueWhole queues the whole job, once. QueueAgain queues a part of it
  // afterwards, any number of times, also while a graph is captured.
  cudaError_t QueueWhole();
  cudaError_t QueueAgain(cuda::Part part) const;

  // Queues copies that restore the small outputs as QueueWhole left them:
  // amaxes and scales of tensors, which kernels read.
  cudaError_t Restore() const;
  // Queues a fill with bytes of `value` of all outputs that kernels write, or
  // of those that a part of the job writes.
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
