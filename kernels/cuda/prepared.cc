#include "kernels/cuda/prepared.h"

#include <cstring>
#include <utility>
#include <variant>

namespace quantd::cuda {

Prepared::Prepared(const Plan& plan, SharedMemory size, bool gaps)
    : plan_(plan),
      recipe_(MakeRecipe(plan)),
      choice_(ChooseKernels(plan, recipe_, size)),
      code_table_(CodeTableOf(choice_.encode, plan.tensor().dtype)),
      padding_(PaddingOf(plan_)) {
  if (gaps) gaps_ = GapsOf(plan_);
  const size_t count = plan_.groups().size();
  if (choice_.reads_groups()) {
    chunks_.push_back(0);
    strips_.push_back(0);
    for (const Group& g : plan_.groups()) {
      chunks_.push_back(chunks_.back() + CeilDiv(g.rows, kTileSide));
      strips_.push_back(strips_.back() + CeilDiv(g.rows, kStripRows));
    }
    groups_part_ = Add(count * sizeof(GroupTask));
    chunks_part_ = Add(chunks_.size() * sizeof(int64_t));
    strips_part_ = Add(strips_.size() * sizeof(int64_t));
  }
  const size_t runs = gaps_.size() + padding_.size();
  if (plan_.grouped() && runs > 0) {
    pieces_.push_back(0);
    for (const auto* list : {&gaps_, &padding_}) {
      for (const ZeroRun& run : *list) {
        const auto bytes = static_cast<int64_t>(run.width * run.count);
        pieces_.push_back(pieces_.back() +
                          CeilDiv(bytes, ZeroRunsArgs::kPiece));
      }
    }
    runs_part_ = Add(runs * sizeof(ZeroRunsArgs::Run));
    pieces_part_ = Add(pieces_.size() * sizeof(int64_t));
  }
  if (const auto* o = std::get_if<QuantizeOptions>(&plan_.options())) {
    scales_part_ = Add(o->fp8.scale.size() * sizeof(float));
    for (bool columnwise : {false, true}) {
      const size_t n = recipe_.copies[columnwise].amax.given.size();
      // A single amax of a single group is passed as a kernel argument instead.
      if (n > 1 || (n == 1 && count > 1)) {
        amax_parts_[columnwise] = Add(n * sizeof(float));
      }
    }
  }
  host_bytes_ = device_bytes_;
  if (plan_.grouped()) found_part_ = Add(count * sizeof(Found));
  if (code_table_ != CodeTable::kNone) {
    code_tables_part_ = Add(2 * count * kCodeTableBytes);
  }
  scratch_part_ = Add(plan_.scratch_bytes());
}

Prepared::Part Prepared::Add(size_t bytes) {
  const Part part = {device_bytes_, bytes};
  // Aligns the next table for any type.
  device_bytes_ += RoundUp(bytes, 256);
  return part;
}

template <typename T>
void Prepared::Write(const Part& part, absl::Span<const T> values) {
  if (part.bytes > 0) {
    std::memcpy(host_ + part.offset, values.data(), part.bytes);
  }
}

std::vector<GroupTask> Prepared::MakeGroups(const JobBases& bases) {
  if (std::holds_alternative<QuantizeOptions>(plan_.options())) {
    QuantizeTask task = MakeQuantizeTask(plan_, bases);
    encode_params_ = task.params;
    return std::move(task.groups);
  }
  if (std::holds_alternative<DequantizeOptions>(plan_.options())) {
    DequantizeTask task = MakeDequantizeTask(plan_, bases);
    decode_params_ = task.params;
    return std::move(task.groups);
  }
  // Kernels of other plans only read the addresses and numbers of rows.
  std::vector<GroupTask> groups;
  const size_t row =
      static_cast<size_t>(plan_.cols()) * SizeOf(plan_.tensor().dtype);
  for (const Group& g : plan_.groups()) {
    GroupTask task;
    task.x = bases.Input(plan_, plan_.inputs().front()) +
             static_cast<size_t>(g.row) * row;
    task.row = g.row;
    task.rows = g.rows;
    groups.push_back(task);
  }
  return groups;
}

void Prepared::Fill(const JobBases& payload) {
  JobBases bases = payload;
  bases.scratch = OnDevice<std::byte>(scratch_part_);
  const std::vector<GroupTask> groups = MakeGroups(bases);
  first_group_ = groups.front();
  Write<GroupTask>(groups_part_, groups);
  Write<int64_t>(chunks_part_, chunks_);
  Write<int64_t>(strips_part_, strips_);
  runs_.clear();
  for (const ZeroRun& gap : gaps_) {
    runs_.push_back({payload.out + gap.offset, gap.pitch, gap.width, 1});
  }
  for (const ZeroRun& run : padding_) {
    runs_.push_back(
        {payload.OutputAt(plan_, run.offset), run.pitch, run.width, run.count});
  }
  Write<ZeroRunsArgs::Run>(runs_part_, runs_);
  Write<int64_t>(pieces_part_, pieces_);
  const auto* o = std::get_if<QuantizeOptions>(&plan_.options());
  if (o == nullptr) return;
  Write<float>(scales_part_, o->fp8.scale);
  for (bool columnwise : {false, true}) {
    Write<float>(amax_parts_[columnwise],
                 recipe_.copies[columnwise].amax.values());
  }
}

GroupList Prepared::groups() const {
  GroupList list = {};
  list.groups = OnDevice<const GroupTask>(groups_part_);
  list.chunks = OnDevice<const int64_t>(chunks_part_);
  list.count = static_cast<int64_t>(plan_.groups().size());
  list.chunk_count = chunks_.empty() ? 0 : chunks_.back();
  list.strips = OnDevice<const int64_t>(strips_part_);
  list.strip_count = strips_.empty() ? 0 : strips_.back();
  list.rows = plan_.rows();
  list.cols = plan_.cols();
  return list;
}

const float* Prepared::scales() const {
  return OnDevice<const float>(scales_part_);
}

ZeroRunsArgs Prepared::zero_runs() const {
  ZeroRunsArgs args = {};
  args.runs = OnDevice<const ZeroRunsArgs::Run>(runs_part_);
  args.pieces = OnDevice<const int64_t>(pieces_part_);
  args.count = static_cast<int64_t>(gaps_.size() + padding_.size());
  args.piece_count = pieces_.empty() ? 0 : pieces_.back();
  return args;
}

std::byte* Prepared::code_tables() const {
  return OnDevice<std::byte>(code_tables_part_);
}

Found* Prepared::found() const { return OnDevice<Found>(found_part_); }

const float* Prepared::given_amax(bool columnwise) const {
  const Part& part = amax_parts_[columnwise];
  return part.bytes == 0 ? nullptr
                         : reinterpret_cast<const float*>(host_ + part.offset);
}

}  // namespace quantd::cuda
