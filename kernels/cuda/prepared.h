// A plan, its choice of kernels, and the tables that these kernels read in
// device memory: groups and the numbers of their first tiles, runs to zero,
// given amaxes and scales. The tables share a block with scratch memory. They
// are made on the host and copied by one call, so a job with many groups makes
// no more calls than a job with one.
#ifndef QUANTD_KERNELS_CUDA_PREPARED_H_
#define QUANTD_KERNELS_CUDA_PREPARED_H_

#include <cstddef>
#include <vector>

#include "absl/types/span.h"
#include "kernels/cuda/args.h"
#include "kernels/cuda/choice.h"
#include "kernels/device/task.h"
#include "kernels/plan/geometry.h"
#include "quantd/plan.h"

namespace quantd::cuda {

class Prepared {
 public:
  // The plan must outlive this object. `size` is the shared memory of the
  // device. `gaps` says whether the outputs share one block, in which the gaps
  // between them are zeroed.
  Prepared(const Plan& plan, SharedMemory size, bool gaps = true);

  const Plan& plan() const { return plan_; }
  const Recipe& recipe() const { return recipe_; }
  const KernelChoice& choice() const { return choice_; }

  // Sizes of the blocks to provide: page-locked memory on the host, and memory
  // on the device, which begins with a copy of the host's block. Either may be
  // 0.
  size_t host_bytes() const { return host_bytes_; }
  size_t device_bytes() const { return device_bytes_; }

  // Sets both blocks, which must stay valid as long as kernels may read them.
  void Place(std::byte* host, std::byte* device) {
    host_ = host;
    device_ = device;
  }
  // Fills the host's block, which must then be copied to the device.
  // `payload.scratch` need not be set.
  void Fill(const JobBases& payload);

  std::byte* host() const { return host_; }
  std::byte* device() const { return device_; }

  // The groups. The pointers to tables are nullptr if no kernel reads them.
  // Valid after Fill.
  GroupList groups() const;
  // Group 0, which is available even without tables. Valid after Fill.
  const GroupTask& first_group() const { return first_group_; }
  // Parameters of all groups of a Quantize or of a Dequantize. Valid after
  // Fill.
  const EncodeParams& encode_params() const { return encode_params_; }
  const DequantizeParams& decode_params() const { return decode_params_; }
  const float* scales() const;  // nullptr: no scales given
  ZeroRunsArgs zero_runs() const;
  Found* found() const;  // one for each group; nullptr unless grouped
  // The type and the device memory of the encoder's code tables: see
  // WriteAmaxArgs.
  CodeTable code_table() const { return code_table_; }
  std::byte* code_tables() const;

  // The given amaxes of one copy in host memory. nullptr for a single amax of a
  // single group.
  const float* given_amax(bool columnwise) const;

  // Output bytes that no kernel writes and that must be zeroed. Valid after
  // Fill.
  const std::vector<ZeroRunsArgs::Run>& runs() const { return runs_; }

 private:
  // The offset and the size of a table, equal in both blocks.
  struct Part {
    size_t offset = 0;
    size_t bytes = 0;
  };
  Part Add(size_t bytes);
  // Copies `values` into the host's block.
  template <typename T>
  void Write(const Part& part, absl::Span<const T> values);
  // Makes the groups, and sets encode_params_ or decode_params_.
  std::vector<GroupTask> MakeGroups(const JobBases& bases);
  template <typename T>
  T* OnDevice(const Part& part) const {
    return part.bytes == 0 ? nullptr
                           : reinterpret_cast<T*>(device_ + part.offset);
  }

  const Plan& plan_;
  const Recipe recipe_;
  const KernelChoice choice_;
  const CodeTable code_table_;
  std::vector<ZeroRun> gaps_;
  std::vector<ZeroRun> padding_;
  std::vector<ZeroRunsArgs::Run> runs_;  // made from gaps_ and padding_
  std::vector<int64_t> chunks_;          // see GroupList
  std::vector<int64_t> strips_;
  std::vector<int64_t> pieces_;  // see ZeroRunsArgs
  EncodeParams encode_params_ = {};
  DequantizeParams decode_params_ = {};
  GroupTask first_group_;
  std::byte* host_ = nullptr;
  std::byte* device_ = nullptr;

  Part groups_part_;
  Part chunks_part_;
  Part strips_part_;
  Part runs_part_;
  Part pieces_part_;
  Part scales_part_;
  Part amax_parts_[2];
  Part found_part_;
  Part code_tables_part_;
  Part scratch_part_;
  size_t host_bytes_ = 0;
  size_t device_bytes_ = 0;
};

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_PREPARED_H_
