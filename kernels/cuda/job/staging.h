// A job's payload on the host and on the device, and the copies between them.
//
// Kernels use lent device memory in place. The copy engines read and write lent
// page-locked memory directly. Pageable memory is copied through page-locked
// blocks of the job. If the payload is small, kernels read and write those
// blocks directly, because starting a copy would take longer.
#ifndef QUANTD_KERNELS_CUDA_JOB_STAGING_H_
#define QUANTD_KERNELS_CUDA_JOB_STAGING_H_

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/cuda/device.h"
#include "kernels/device/backend.h"
#include "kernels/device/task.h"
#include "quantd/plan.h"

namespace quantd::cuda {

class Staging {
 public:
  struct Needs {
    bool host_writes = false;  // The host writes some outputs, through OnHost.
    bool atomics = false;      // Kernels update outputs by atomics.
  };
  // Takes blocks for tensors that were not lent or cannot be used in place. The
  // device must be current. Returns RESOURCE_EXHAUSTED if a pool has too little
  // memory.
  static absl::StatusOr<Staging> Make(Device& device, const Plan& plan,
                                      LentMemory lent, const Needs& needs);

  // The most bytes that Make takes from one pool of the device with ordinal
  // `device`, plus the plan's scratch memory.
  static size_t PoolBytes(int device, const Plan& plan, const LentMemory& lent);

  // Memory for the inputs; empty if they were lent.
  absl::Span<std::byte> pinned_in() const {
    return lent_.inputs.empty() ? in_.bytes() : absl::Span<std::byte>();
  }
  bool lent_inputs() const { return !lent_.inputs.empty(); }
  bool lent_outputs() const { return !lent_.outputs.empty(); }
  // Whether any input is copied.
  bool copies_in() const { return copies_in_; }
  // Whether an output is copied through the job's own memory to pageable
  // memory.
  bool delivers() const { return delivers_; }
  // Whether kernels work on host memory, so that nothing is copied.
  bool direct() const { return direct_; }
  // Bytes copied to the device, or from it, whichever is more.
  size_t copied_bytes() const { return std::max(bytes_in_, bytes_out_); }

  // The payload on the device, without scratch and signs. Valid as long as the
  // staging is not moved.
  JobBases OnDevice() const;
  // The outputs in host memory, where the host writes some of them.
  JobBases OnHost() const;
  // Zeroes the job's output block in host memory, including its gaps.
  void ZeroOutputs() const;

  // Queue the copies of all inputs, or of bytes [first, first + size) of one.
  absl::Status CopyIn(cudaStream_t stream);
  absl::Status CopyIn(size_t input, size_t first, size_t size,
                      cudaStream_t stream);
  // Queues the copy of bytes [first, end) of pinned_in().
  absl::Status CopyFed(size_t first, size_t end, cudaStream_t stream);

  // Queue the copies of all outputs, or of a part of one.
  absl::Status CopyOut(cudaStream_t stream);
  absl::Status CopyOut(size_t output, size_t first, size_t size,
                       cudaStream_t stream);
  // Queues the copy of the first `size` bytes of the outputs, which must be in
  // the job's own block, to out_block().
  absl::Status CopyOutFront(size_t size, cudaStream_t stream);
  absl::Span<const std::byte> out_block() const { return out_.bytes(); }
  // Copy outputs to lent pageable memory after the queued copies are done.
  // DeliverAll copies all outputs. DeliverBulk copies a part of an output if
  // only kernels write it. DeliverSmall copies the outputs that the host may
  // write.
  void DeliverAll() const;
  void DeliverBulk(size_t output, size_t first, size_t size) const;
  void DeliverSmall() const;

  // Copy outputs in lent device memory that the host may write. MirrorToHost
  // queues copies to OnHost(). MirrorToDevice copies them back and waits. `all`
  // includes outputs that only kernels write, for an empty tensor.
  absl::Status MirrorToHost(cudaStream_t stream);
  absl::Status MirrorToDevice(bool all, cudaStream_t stream);

  // Returns the block of the outputs, which is empty if they were lent.
  // Releases all other blocks.
  Block Finish();

 private:
  // The memory that holds a tensor.
  enum class Kept {
    kJob,       // in a block of the job
    kPageable,  // lent pageable host memory
    kPinned,    // lent page-locked memory
    kHere,      // lent memory of this device, aligned for kernels
    kDevice,    // other lent device memory
  };
  struct Tensor {
    Kept kept = Kept::kJob;
    std::byte* lent = nullptr;
    std::byte* host = nullptr;    // page-locked, or nullptr
    std::byte* device = nullptr;  // the address for kernels
    size_t size = 0;
  };

  explicit Staging(const Plan& plan) : plan_(&plan) {}
  static absl::StatusOr<Kept> KindOf(absl::Span<const std::byte> span,
                                     int device);
  absl::Status Sort(const Device& device, const Needs& needs);
  absl::Status Take(Device& device);
  void Deliver(size_t output, size_t first, size_t size) const;
  bool IsBulk(size_t output) const;
  bool IsMirrored(size_t output, bool all) const;

  const Plan* plan_;
  LentMemory lent_;
  std::vector<Tensor> inputs_;
  std::vector<Tensor> outputs_;
  LentMemory on_device_;
  LentMemory on_host_;
  bool copies_in_ = false;
  bool copies_out_ = false;
  bool delivers_ = false;
  bool gathers_ = false;  // every lent input is pageable
  bool mirrors_ = false;
  bool direct_ = false;
  size_t bytes_in_ = 0;
  size_t bytes_out_ = 0;
  Block in_;  // pinned
  Block out_;
  Block device_in_;
  Block device_out_;
};

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_JOB_STAGING_H_
