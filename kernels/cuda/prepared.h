// A plan with all decisions about it, and the tables of its kernels on the
// device beside the payload: groups and where their tiles start, runs of zeros,
// given numbers; and scratch memory. Tables are made on the host and copied at
// once, so that a job of many groups costs as many calls as a job of one.
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
  // The plan must outlive this object. `size`: the device's. `gaps`: the
  // outputs lie in one block, which has gaps between them.
  Prepared(const Plan& plan, SharedMemory size, bool gaps = true);

  const Plan& plan() const { return plan_; }
  const Recipe& recipe() const { return recipe_; }
  const KernelChoice& choice() const { return choice_; }

  // Sizes of the memory to provide: page-locked on the host, and on the device,
  // where it starts with a copy of the host's. Either may be 0.
  size_t host_bytes() const { return host_bytes_; }
  size_t device_bytes() const { return device_bytes_; }

  // Sets the places of the tables. Both blocks must stay as long as kernels may
  // read them.
  void Place(std::byte* host, std::byte* device) {
    host_ = host;
    device_ = device;
  }
  // Fills the host's block, which must then be copied to the device. `payload`
  // needs no scratch.
  void Fill(const JobBases& payload);

  std::byte* host() const { return host_; }
  std::byte* device() const { return device_; }

  // The groups; in device memory if the table is not empty. Valid after Fill.
  GroupList groups() const;
  // The first group, which is available even without a table.
  const GroupTask& first_group() const { return first_group_; }
  // Parameters that all groups of a Quantize or a Dequantize share.
  const EncodeParams& encode_params() const { return encode_params_; }
  const DequantizeParams& decode_params() const { return decode_params_; }
  const float* scales() const;  // nullptr: no scales given
  ZeroRunsArgs zero_runs() const;
  Found* found() const;  // one for each group, if they are grouped
  // Memory for the tables that the encoder looks up under amaxes: see
  // WriteAmaxArgs.
  CodeTable code_table() const { return code_table_; }
  std::byte* code_tables() const;

  // The given amaxes of one copy on the host, if it has several or there are
  // several groups.
  const float* given_amax(bool columnwise) const;

  // Bytes that no kernel writes, to be zeroed first.
  const std::vector<ZeroRunsArgs::Run>& runs() const { return runs_; }

 private:
  // A table's place in both blocks.
  struct Part {
    size_t offset = 0;
    size_t bytes = 0;
  };
  Part Add(size_t bytes);
  // Copies a table of the host's into its place.
  template <typename T>
  void Write(const Part& part, absl::Span<const T> values);
  // Makes the groups, and what they share.
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
  std::vector<ZeroRunsArgs::Run> runs_;  // those of gaps_ and padding_
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
