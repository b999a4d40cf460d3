// A job's payload on the host and on the device, and the way from the one to
// the other.
//
// Device memory that was lent is used where it lies, and the copy engines read
// and write page-locked memory that was lent; only pageable memory goes through
// page-locked blocks of the job's own. A small payload is read and written by
// kernels in those blocks themselves: a copy takes longer to start than that.
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
    bool host_writes = false;  // The host adds to the outputs, by OnHost.
    bool atomics = false;      // Kernels add to the outputs.
  };
  // Takes the blocks for what was not lent or cannot be used where it lies. The
  // device is current. RESOURCE_EXHAUSTED.
  static absl::StatusOr<Staging> Make(Device& device, const Plan& plan,
                                      LentMemory lent, const Needs& needs);

  // What Make takes of a pool of the device of that number, at most.
  static size_t PoolBytes(int device, const Plan& plan, const LentMemory& lent);

  // For the inputs; empty where they were lent.
  absl::Span<std::byte> pinned_in() const {
    return lent_.inputs.empty() ? in_.bytes() : absl::Span<std::byte>();
  }
  bool lent_inputs() const { return !lent_.inputs.empty(); }
  bool lent_outputs() const { return !lent_.outputs.empty(); }
  // Whether any input is copied.
  bool copies_in() const { return copies_in_; }
  // Whether an output goes through the job's own memory to pageable memory.
  bool delivers() const { return delivers_; }
  // Whether kernels read and write the host's memory, and nothing is copied.
  bool direct() const { return direct_; }
  // Bytes that are copied to the device, or from it, whichever is more.
  size_t copied_bytes() const { return std::max(bytes_in_, bytes_out_); }

  // The payload on the device, without scratch and signs. Valid while the
  // staging stays where it is.
  JobBases OnDevice() const;
  // The outputs on the host, for what the host writes.
  JobBases OnHost() const;
  // Zeroes the job's own block on the host, and so the gaps in it.
  void ZeroOutputs() const;

  // Queues the way in of all inputs, or of bytes [first, first + size) of one.
  absl::Status CopyIn(cudaStream_t stream);
  absl::Status CopyIn(size_t input, size_t first, size_t size,
                      cudaStream_t stream);
  // Queues the way in of bytes [first, end) of pinned_in().
  absl::Status CopyFed(size_t first, size_t end, cudaStream_t stream);

  // Queues the way out of all outputs, or of a part of one.
  absl::Status CopyOut(cudaStream_t stream);
  absl::Status CopyOut(size_t output, size_t first, size_t size,
                       cudaStream_t stream);
  // Queues the way out of the first bytes of outputs that are in the job's own
  // block; then they are there.
  absl::Status CopyOutFront(size_t size, cudaStream_t stream);
  absl::Span<const std::byte> out_block() const { return out_.bytes(); }
  // Do the rest of the way, into pageable memory, when that has passed: for all
  // outputs; for a part of one that kernels alone write; for those which the
  // host may have written.
  void DeliverAll() const;
  void DeliverBulk(size_t output, size_t first, size_t size) const;
  void DeliverSmall() const;

  // For outputs that were lent on a device: queues the small ones, which the
  // host works on, to OnHost(); and writes back what it made of them or, of an
  // empty tensor, of all, and waits.
  absl::Status MirrorToHost(cudaStream_t stream);
  absl::Status MirrorToDevice(bool all, cudaStream_t stream);

  // The outputs, unless they were lent. All other blocks are given back.
  Block Finish();

 private:
  enum class Kept {
    kJob,       // in a block of the job's
    kPageable,  // lent, of the host
    kPinned,    // lent, page-locked
    kHere,      // lent, of this device, and aligned as kernels want it
    kDevice,    // lent, of any device
  };
  struct Tensor {
    Kept kept = Kept::kJob;
    std::byte* lent = nullptr;
    std::byte* host = nullptr;    // page-locked, or nullptr
    std::byte* device = nullptr;  // where kernels look for it
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
