// A job's payload on the host and on the device, and the copies between them.
//
// Lent device memory is used in place, and the copy engines read and write lent
// page-locked memory; only pageable memory is copied through page-locked blocks
// of the job. A small payload is read and written by kernels in those blocks
// directly: starting a copy takes longer than that.
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
    bool host_writes = false;  // The host adds to the outputs, through OnHost.
    bool atomics = false;      // Kernels add to the outputs atomically.
  };
  // Takes blocks for tensors that were not lent or cannot be used in place. The
  // device must be current. RESOURCE_EXHAUSTED.
  static absl::StatusOr<Staging> Make(Device& device, const Plan& plan,
                                      LentMemory lent, const Needs& needs);

  // The most that Make takes from a pool of the device with that ordinal.
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
  // The outputs on the host, for the host's part.
  JobBases OnHost() const;
  // Zeroes the job's own block on the host, including its gaps.
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
  // Finish copies into pageable memory after the queued ones are done: for all
  // outputs; for a part of an output that only kernels write; for outputs that
  // the host may have written.
  void DeliverAll() const;
  void DeliverBulk(size_t output, size_t first, size_t size) const;
  void DeliverSmall() const;

  // For outputs that were lent on a device: the first queues copies of the
  // small ones to OnHost(), where the host works on them; the second writes
  // these back or, for an empty tensor, all outputs, and waits.
  absl::Status MirrorToHost(cudaStream_t stream);
  absl::Status MirrorToDevice(bool all, cudaStream_t stream);

  // Returns the outputs, unless they were lent. All other blocks are released.
  Block Finish();

 private:
  enum class Kept {
    kJob,       // in a block of the job
    kPageable,  // lent pageable host memory
    kPinned,    // lent page-locked memory
    kHere,      // lent memory of this device, aligned as kernels need it
    kDevice,    // lent memory of any device
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
