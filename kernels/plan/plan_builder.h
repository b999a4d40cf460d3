// The builder with which the Make functions of quantd/plan.h make Plans. No
// other code makes Plans.
#ifndef QUANTD_KERNELS_PLAN_PLAN_BUILDER_H_
#define QUANTD_KERNELS_PLAN_PLAN_BUILDER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "fmt/format.h"
#include "kernels/plan/geometry.h"
#include "kernels/plan/plan_checks.h"
#include "kernels/plan/profile/profile.h"
#include "quantd/field_error.h"
#include "quantd/format.h"
#include "quantd/plan.h"

namespace quantd {

class PlanBuilder {
 public:
  // Sets M x K from the shape and the axis.
  absl::Status SetTensor(const TensorDesc& tensor) {
    const std::vector<int64_t>& shape = tensor.shape;
    const int rank = static_cast<int>(shape.size());
    if (shape.empty() || shape.size() > kMaxRank) {
      return FieldError("tensor.shape",
                        fmt::format("1 to {} dimensions", kMaxRank),
                        fmt::format("{} dimensions", shape.size()));
    }
    for (int64_t d : shape) {
      if (d < 0) {
        return FieldError("tensor.shape", "dimensions >= 0", ShapeText(shape));
      }
    }
    const int axis = tensor.flatten_axis < 0 ? tensor.flatten_axis + rank
                                             : tensor.flatten_axis;
    // A vector cannot be split; with the default axis it is one row.
    const bool vector = rank == 1 && tensor.flatten_axis == -1;
    if (!vector && (axis < 1 || axis > rank - 1)) {
      return FieldError(
          "tensor.flatten_axis",
          rank == 1 ? std::string("-1 for a tensor of one dimension")
                    : fmt::format("1 to {} (or {} to -1)", rank - 1, 1 - rank),
          fmt::to_string(tensor.flatten_axis));
    }
    int64_t rows = 1;
    int64_t cols = 1;
    int64_t elements = 1;
    for (int i = 0; i < rank; ++i) {
      int64_t& side = i < axis ? rows : cols;
      // A zero dimension must not hide an overflow of the others, because M and
      // K are also used separately.
      if (__builtin_mul_overflow(side, shape[i], &side) ||
          side > kMaxElements) {
        return TooLarge(shape);
      }
    }
    if (__builtin_mul_overflow(rows, cols, &elements) ||
        elements > kMaxElements) {
      return TooLarge(shape);
    }
    plan_.tensor_ = tensor;
    plan_.tensor_.flatten_axis = vector ? -1 : axis;
    plan_.rows_ = input_rows_ = rows;
    plan_.cols_ = cols;
    return absl::OkStatus();
  }

  // M, including rows after the last group.
  int64_t input_rows() const { return input_rows_; }
  // The number of rows that are quantized.
  int64_t rows() const { return plan_.rows_; }
  int64_t cols() const { return plan_.cols_; }
  int64_t groups() const { return static_cast<int64_t>(plan_.groups_.size()); }
  bool grouped() const { return plan_.grouped_; }

  // Call after SetTensor. `partial`: the groups may end before M.
  absl::Status SetGroups(const std::optional<std::vector<int64_t>>& splits,
                         bool partial) {
    plan_.grouped_ = splits.has_value();
    if (!splits) {
      if (partial) {
        return FieldError("splits.partial", "partial only with splits",
                          "no splits");
      }
      plan_.groups_ = {{0, rows()}};
      return absl::OkStatus();
    }
    if (splits->empty() || splits->size() > kMaxGroups) {
      return FieldError("splits", fmt::format("1 to {} groups", kMaxGroups),
                        fmt::to_string(splits->size()));
    }
    // Some outputs have a row of K elements for every group, even for an empty
    // group.
    if (static_cast<int64_t>(splits->size()) >
        kMaxElements / std::max<int64_t>(1, cols())) {
      return FieldError("splits",
                        fmt::format("groups x K at most {}", kMaxElements),
                        fmt::format("{} groups", splits->size()));
    }
    int64_t row = 0;
    for (int64_t n : *splits) {
      if (n < 0 || n > rows() - row) {
        return FieldError("splits",
                          fmt::format("sizes >= 0 whose sum is {}{} rows",
                                      partial ? "at most " : "", rows()),
                          n < 0 ? fmt::to_string(n) : "a larger sum");
      }
      plan_.groups_.push_back({row, n});
      row += n;
    }
    if (row != rows() && !partial) {
      return FieldError("splits",
                        fmt::format("sizes whose sum is {} rows", rows()),
                        fmt::to_string(row));
    }
    plan_.rows_ = row;
    return absl::OkStatus();
  }

  // Rounds the rows of every group up to a multiple of `multiple`. Call after
  // SetGroups.
  void PadRows(int64_t multiple) {
    plan_.rows_ = 0;
    for (Group& group : plan_.groups_) {
      group = {plan_.rows_, RoundUp(group.rows, multiple)};
      plan_.rows_ += group.rows;
    }
  }

  // Adds the tensor itself as the input.
  void Input() {
    Append(TensorKind::kInput, plan_.tensor_.dtype, {input_rows(), cols()},
           &plan_.inputs_, &plan_.input_bytes_);
  }
  // Adds an output that is divided equally among the groups.
  void Output(TensorKind kind, DType dtype, std::vector<int64_t> shape) {
    Append(kind, dtype, std::move(shape), &plan_.outputs_,
           &plan_.output_bytes_);
    OffsetsByGroup(&plan_.outputs_.back());
  }
  // Adds an output that is divided equally among the rows of the tensor, so
  // that the size of a group's part depends on the group's rows.
  void RowOutput(TensorKind kind, DType dtype, std::vector<int64_t> shape) {
    Append(kind, dtype, std::move(shape), &plan_.outputs_,
           &plan_.output_bytes_);
    OffsetsByRow(&plan_.outputs_.back());
  }
  // Adds one fp32 for the tensor, or one for each group.
  void PerGroup(TensorKind kind) { Output(kind, DType::kF32, {groups()}); }
  // Adds one fp32 for each line of a copy.
  void PerLine(TensorKind kind, bool columnwise) {
    if (columnwise) {
      Output(kind, DType::kF32, LineShape(true));
    } else {
      RowOutput(kind, DType::kF32, LineShape(false));
    }
  }
  // The shape of one fp32 for each line of a copy, group after group.
  std::vector<int64_t> LineShape(bool columnwise) const {
    return {columnwise ? groups() * cols() : rows()};
  }

  // Adds codes, scales and amax of one copy, as inputs or outputs.
  void Copy(const FormatSpec& f, bool columnwise, bool input, int rotation,
            const CopyForm& form, const Numerics& numerics = {}) {
    std::vector<TensorSpec>* list = input ? &plan_.inputs_ : &plan_.outputs_;
    size_t* total = input ? &plan_.input_bytes_ : &plan_.output_bytes_;
    TensorSpec data, scale;
    data.kind =
        columnwise ? TensorKind::kColumnwiseData : TensorKind::kRowwiseData;
    scale.kind =
        columnwise ? TensorKind::kColumnwiseScale : TensorKind::kRowwiseScale;
    data.dtype = f.element;
    scale.dtype = f.scale;
    scale.layout = form.scale_layout;
    for (const Group& group : plan_.groups_) {
      const CopyGeometry g =
          MakeCopyGeometry(f, columnwise, group.rows, cols(), rotation,
                           form.scale_layout, form.compact_scales);
      data.shape = g.data_shape;
      scale.shape = g.scale_shape;
      if (grouped()) {
        data.group_offsets.push_back(data.size);
        scale.group_offsets.push_back(scale.size);
      }
      data.size += g.data_bytes;
      scale.size += g.scale_bytes;
    }
    if (grouped()) {
      data.group_offsets.push_back(data.size);
      scale.group_offsets.push_back(scale.size);
      const auto elements = [](const TensorSpec& spec) {
        return static_cast<int64_t>(spec.size / SizeOf(spec.dtype));
      };
      if (columnwise) {
        data.shape = {elements(data)};
      } else {
        data.shape[0] = rows();
      }
      scale.shape = {elements(scale)};
    }
    Append(std::move(data), list, total);
    Append(std::move(scale), list, total);
    if (!HasAmax(f)) return;
    // FP8 is decoded with its scales only.
    if (input && f.scaling != Scaling::kNvfp4) return;
    const bool lines = HasAmaxOfLines(f, form);
    if (input && numerics.stored != GlobalStored::kNothing) {
      Append(KindOfGlobal(numerics), DType::kF32, {groups()}, list, total);
      OffsetsByGroup(&list->back());
      return;
    }
    TensorSpec amax;
    amax.kind =
        columnwise ? TensorKind::kColumnwiseAmax : TensorKind::kRowwiseAmax;
    amax.dtype = DType::kF32;
    amax.shape = lines ? LineShape(columnwise) : std::vector<int64_t>{groups()};
    amax.size = static_cast<size_t>(amax.shape[0]) * sizeof(float);
    Append(std::move(amax), list, total);
    if (lines && !columnwise) {
      OffsetsByRow(&list->back());
    } else {
      OffsetsByGroup(&list->back());
    }
  }

  // Adds the partial sums of dbias, one row for each chunk of rows of a group.
  void DbiasScratch() {
    int64_t chunks = 0;
    for (const Group& g : plan_.groups_) chunks += CeilDiv(g.rows, kChunkRows);
    plan_.scratch_bytes_ +=
        static_cast<size_t>(chunks * cols()) * sizeof(float);
  }
  void GroupScratch(size_t bytes) {
    plan_.scratch_bytes_ += static_cast<size_t>(groups()) * bytes;
  }

  Plan Take(Plan::Options options) {
    plan_.options_ = std::move(options);
    return std::move(plan_);
  }

 private:
  static absl::Status TooLarge(const std::vector<int64_t>& shape) {
    return FieldError("tensor.shape",
                      fmt::format("at most {} elements", kMaxElements),
                      ShapeText(shape));
  }

  // Sets the group offsets of a tensor that has `size / groups` bytes for each
  // group, or `size / rows` for each row.
  void OffsetsByGroup(TensorSpec* spec) const {
    if (!grouped()) return;
    const size_t each = spec->size / plan_.groups_.size();
    for (size_t g = 0; g <= plan_.groups_.size(); ++g) {
      spec->group_offsets.push_back(g * each);
    }
  }
  void OffsetsByRow(TensorSpec* spec) const {
    if (!grouped()) return;
    const size_t each =
        rows() == 0 ? 0 : spec->size / static_cast<size_t>(rows());
    for (const Group& g : plan_.groups_) {
      spec->group_offsets.push_back(static_cast<size_t>(g.row) * each);
    }
    spec->group_offsets.push_back(spec->size);
  }

  static void Append(TensorKind kind, DType dtype, std::vector<int64_t> shape,
                     std::vector<TensorSpec>* list, size_t* total) {
    TensorSpec spec;
    spec.kind = kind;
    spec.dtype = dtype;
    spec.size = SizeOf(dtype);
    for (int64_t d : shape) spec.size *= static_cast<size_t>(d);
    spec.shape = std::move(shape);
    Append(std::move(spec), list, total);
  }
  static void Append(TensorSpec spec, std::vector<TensorSpec>* list,
                     size_t* total) {
    spec.offset = (*total + kPayloadAlignment - 1) / kPayloadAlignment *
                  kPayloadAlignment;
    *total = spec.offset + spec.size;
    list->push_back(std::move(spec));
  }

  Plan plan_;
  int64_t input_rows_ = 0;
};

}  // namespace quantd

#endif  // QUANTD_KERNELS_PLAN_PLAN_BUILDER_H_
