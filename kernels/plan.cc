#include "kernels/plan.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "kernels/field_error.h"
#include "kernels/geometry.h"
#include "kernels/support.h"

namespace quantd {
namespace {

std::string ShapeText(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

template <typename T>
std::string NameOrNumber(T value) {
  const std::string_view name = Name(value);
  return name == "unspecified"
             ? fmt::format("number {}", static_cast<int>(value))
             : std::string(name);
}

// An enum that has no unspecified value: any name is legal.
template <typename T>
absl::Status CheckNamed(std::string_view field, T value,
                        std::string_view expected) {
  if (Name(value) != "unspecified") return absl::OkStatus();
  return FieldError(field, expected, NameOrNumber(value));
}

absl::Status CheckFormat(Format format) {
  if (FindFormat(format)) return absl::OkStatus();
  std::vector<std::string_view> names;
  for (const FormatSpec& row : kFormats) names.push_back(row.name);
  return FieldError("format", fmt::format("{}", fmt::join(names, " or ")),
                    format == Format::kUnspecified
                        ? "none"
                        : fmt::format("number {}", static_cast<int>(format)));
}

absl::Status CheckFloat(std::string_view field, DType t) {
  if (IsFloat(t)) return absl::OkStatus();
  return FieldError(field, "f32, f16 or bf16",
                    t == DType::kUnspecified ? "none"
                    : Name(t) == "unspecified"
                        ? fmt::format("number {}", static_cast<int>(t))
                        : std::string(Name(t)));
}

absl::Status CheckUsage(Usage u, bool one) {
  const bool single = u == Usage::kRowwise || u == Usage::kColumnwise;
  if (single || (!one && (u == Usage::kBoth || u == Usage::kNone))) {
    return absl::OkStatus();
  }
  return FieldError(
      "usage",
      one ? "rowwise or columnwise" : "rowwise, columnwise, both or none",
      NameOrNumber(u));
}

absl::Status CheckNonFinite(NonFinite n) {
  return CheckNamed("non_finite", n, "ignore, propagate or reject");
}

// Settles the mask, too.
absl::Status CheckRht(int dimension, std::optional<SignMask>* mask) {
  if (std::find(std::begin(kRhtDimensions), std::end(kRhtDimensions),
                dimension) == std::end(kRhtDimensions)) {
    return FieldError("rht.dimension", "16, 32, 64 or 128",
                      fmt::to_string(dimension));
  }
  if (!*mask) *mask = DefaultSignMask(dimension);
  for (int i = dimension; i < 128; ++i) {
    if ((*mask)->negative(i)) {
      return FieldError("rht.sign_mask", fmt::format("{} bits", dimension),
                        "bits beyond");
    }
  }
  return absl::OkStatus();
}

// `names`: what one value stands for.
absl::Status CheckValues(std::string_view field, absl::Span<const float> v,
                         size_t count, std::string_view names, bool zero) {
  if (v.empty()) return absl::OkStatus();
  if (v.size() != count) {
    const auto values = [](size_t n) {
      return fmt::format("{} value{}", n, n == 1 ? "" : "s");
    };
    return FieldError(field,
                      fmt::format("{}, one for {}", values(count), names),
                      values(v.size()));
  }
  for (float x : v) {
    if (std::isfinite(x) && (x > 0 || (zero && x == 0))) continue;
    return FieldError(field,
                      zero ? "a finite number >= 0" : "a finite number > 0",
                      fmt::to_string(x));
  }
  return absl::OkStatus();
}

absl::Status CheckColumns(int64_t cols, int multiple, std::string_view why) {
  if (cols % multiple == 0) return absl::OkStatus();
  return FieldError("tensor.shape",
                    fmt::format("K (the product of the dimensions from "
                                "flatten_axis on) a multiple of {} for {}",
                                multiple, why),
                    fmt::format("K = {}", cols));
}

}  // namespace

// Collects what a Make function decides; the only maker of Plans.
class PlanBuilder {
 public:
  // Shape and axis to M x K.
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
    // A vector has no axis to split at; its default makes it one row.
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
      // A zero dimension must not hide an overflow of the others: M and K
      // are used on their own.
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
    plan_.rows_ = rows;
    plan_.cols_ = cols;
    return absl::OkStatus();
  }

  int64_t rows() const { return plan_.rows_; }
  int64_t cols() const { return plan_.cols_; }
  int64_t groups() const { return static_cast<int64_t>(plan_.groups_.size()); }
  bool grouped() const { return plan_.grouped_; }

  // After SetTensor.
  absl::Status SetGroups(const std::optional<std::vector<int64_t>>& splits) {
    plan_.grouped_ = splits.has_value();
    if (!splits) {
      plan_.groups_ = {{0, rows()}};
      return absl::OkStatus();
    }
    if (splits->empty() || splits->size() > kMaxGroups) {
      return FieldError("splits", fmt::format("1 to {} groups", kMaxGroups),
                        fmt::to_string(splits->size()));
    }
    // Some outputs have a row of K for every group, empty or not.
    if (static_cast<int64_t>(splits->size()) >
        kMaxElements / std::max<int64_t>(1, cols())) {
      return FieldError("splits",
                        fmt::format("groups x K at most {}", kMaxElements),
                        fmt::format("{} groups", splits->size()));
    }
    int64_t row = 0;
    for (int64_t n : *splits) {
      if (n < 0 || n > rows() - row) {
        return FieldError(
            "splits", fmt::format("sizes >= 0 whose sum is {} rows", rows()),
            n < 0 ? fmt::to_string(n) : "a larger sum");
      }
      plan_.groups_.push_back({row, n});
      row += n;
    }
    if (row != rows()) {
      return FieldError("splits",
                        fmt::format("sizes whose sum is {} rows", rows()),
                        fmt::to_string(row));
    }
    return absl::OkStatus();
  }

  void Input(TensorKind kind, DType dtype, std::vector<int64_t> shape) {
    Append(kind, dtype, std::move(shape), &plan_.inputs_, &plan_.input_bytes_);
  }
  void Output(TensorKind kind, DType dtype, std::vector<int64_t> shape) {
    Append(kind, dtype, std::move(shape), &plan_.outputs_,
           &plan_.output_bytes_);
  }
  // One fp32 for the tensor or for each group.
  void PerGroup(TensorKind kind) { Output(kind, DType::kF32, {groups()}); }
  // One fp32 for each line of a copy, groups after each other.
  std::vector<int64_t> LineShape(bool columnwise) const {
    return {columnwise ? groups() * cols() : rows()};
  }

  // Codes, scales and amax of one copy, as inputs or outputs.
  void Copy(const FormatSpec& f, bool columnwise, bool input, int rotation,
            const CopyForm& form) {
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
    // FP8 tensors are decoded by their scale alone.
    if (input && f.scaling == Scaling::kTensor) return;
    TensorSpec amax;
    amax.kind =
        columnwise ? TensorKind::kColumnwiseAmax : TensorKind::kRowwiseAmax;
    amax.dtype = DType::kF32;
    amax.shape = form.row_scaled ? LineShape(columnwise)
                                 : std::vector<int64_t>{groups()};
    amax.size = static_cast<size_t>(amax.shape[0]) * sizeof(float);
    Append(std::move(amax), list, total);
  }

  // Partial sums of dbias, one row for each 128 rows of a group.
  void DbiasScratch() {
    int64_t chunks = 0;
    for (const Group& g : plan_.groups_) chunks += CeilDiv(g.rows, 128);
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
};

namespace {

const TensorSpec* Find(const std::vector<TensorSpec>& list, TensorKind kind) {
  for (const TensorSpec& spec : list) {
    if (spec.kind == kind) return &spec;
  }
  return nullptr;
}

}  // namespace

const TensorSpec* Plan::input(TensorKind kind) const {
  return Find(inputs_, kind);
}
const TensorSpec* Plan::output(TensorKind kind) const {
  return Find(outputs_, kind);
}

#define QUANTD_CHECK(expr)                          \
  do {                                              \
    if (absl::Status s = (expr); !s.ok()) return s; \
  } while (false)

namespace {

// Every number of the options that is not a choice.
absl::Status CheckNumbers(const QuantizeOptions& o, PlanBuilder* plan) {
  const auto amaxes = [&](bool columnwise) -> size_t {
    return o.form.row_scaled ? plan->LineShape(columnwise)[0] : plan->groups();
  };
  const std::string_view each = o.form.row_scaled ? "each line"
                                : plan->grouped() ? "each group"
                                                  : "the tensor";
  QUANTD_CHECK(CheckValues("given_amax.rowwise", o.rowwise_amax, amaxes(false),
                           each, /*zero=*/true));
  QUANTD_CHECK(CheckValues("given_amax.columnwise", o.columnwise_amax,
                           amaxes(true), each, /*zero=*/true));
  QUANTD_CHECK(CheckValues("scale", o.scale, plan->groups(), each,
                           /*zero=*/false));
  if (o.amax_estimation_scale && !(std::isfinite(*o.amax_estimation_scale) &&
                                   *o.amax_estimation_scale > 0)) {
    return FieldError("amax_estimation_scale", "a finite number > 0",
                      fmt::to_string(*o.amax_estimation_scale));
  }
  if (!std::isfinite(o.epsilon) || o.epsilon < 0) {
    return FieldError("epsilon", "a finite number >= 0",
                      fmt::to_string(o.epsilon));
  }
  if (o.form.scale_256 && o.four_over_six == FourOverSix::kOff) {
    return FieldError("form.scale_256", "scale_256 only with four_over_six",
                      "no four_over_six");
  }
  if (o.fast_error && o.four_over_six == FourOverSix::kOff) {
    return FieldError("fast_error", "fast_error only with four_over_six",
                      "no four_over_six");
  }
  if (o.history) {
    if (o.history->amax.empty() || o.history->amax.size() > kMaxHistory) {
      return FieldError("history.amax",
                        fmt::format("1 to {} values", kMaxHistory),
                        fmt::to_string(o.history->amax.size()));
    }
    if (o.history->margin < -127 || o.history->margin > 127) {
      return FieldError("history.margin", "-127 to 127",
                        fmt::to_string(o.history->margin));
    }
    QUANTD_CHECK(
        CheckNamed("history.rule", o.history->rule, "max or most_recent"));
  }
  const ShardPosition& p = o.shard;
  if (p.row_offset < 0 || p.row_offset > kMaxElements) {
    return FieldError("shard.row_offset", fmt::format("0 to {}", kMaxElements),
                      fmt::to_string(p.row_offset));
  }
  if (p.column_offset < 0 || p.column_offset > kMaxElements) {
    return FieldError("shard.column_offset",
                      fmt::format("0 to {}", kMaxElements),
                      fmt::to_string(p.column_offset));
  }
  const int64_t least = p.column_offset + plan->cols();
  if (p.total_columns != 0 &&
      (p.total_columns < least || p.total_columns > kMaxElements)) {
    return FieldError(
        "shard.total_columns",
        fmt::format("{} (column_offset + K) to {}", least, kMaxElements),
        fmt::to_string(p.total_columns));
  }
  return absl::OkStatus();
}

absl::Status CheckChoices(const QuantizeOptions& o) {
  QUANTD_CHECK(CheckUsage(o.usage, /*one=*/false));
  QUANTD_CHECK(CheckNonFinite(o.non_finite));
  QUANTD_CHECK(CheckNamed("rounding", o.rounding, "nearest or stochastic"));
  QUANTD_CHECK(
      CheckNamed("scale_rule", o.scale_rule, "up, floor, ceil or even"));
  QUANTD_CHECK(CheckNamed("four_over_six", o.four_over_six, "off, mae or mse"));
  QUANTD_CHECK(CheckNamed("form.scale_layout", o.form.scale_layout,
                          "linear or swizzled"));
  if (o.usage == Usage::kNone && !o.dbias && !o.amax) {
    return FieldError("usage", "a copy, or dbias or amax beside none",
                      "nothing to do");
  }
  return absl::OkStatus();
}

// K of a rowwise copy.
absl::Status CheckRowwise(const PlanBuilder& plan, const FormatSpec& format,
                          int rotation) {
  // A code of half a byte has no line that ends inside a block, and neither
  // has the MX container.
  if (format.scaling == Scaling::kNvfp4 || format.scaling == Scaling::kMx) {
    QUANTD_CHECK(CheckColumns(plan.cols(), format.block,
                              fmt::format("rowwise {}", format.name)));
  }
  if (rotation == 0) return absl::OkStatus();
  return CheckColumns(plan.cols(), rotation, "the rowwise rotation");
}

// Fills in what is left open. The options are legal.
QuantizeOptions Normalise(const QuantizeOptions& options,
                          const FormatSpec& format, const PlanBuilder& plan,
                          DType input) {
  QuantizeOptions used = options;
  const bool rotated = used.rht.rowwise || used.rht.columnwise;
  if (!rotated && !used.form.row_scaled) {
    if (used.rowwise_amax.empty()) used.rowwise_amax = options.columnwise_amax;
    if (used.columnwise_amax.empty()) {
      used.columnwise_amax = options.rowwise_amax;
    }
  }
  if (format.options & kOptPowerOfTwo && !used.power_of_two) {
    used.power_of_two = format.scaling == Scaling::kBlock;
  }
  if (used.dbias && used.dbias_dtype == DType::kUnspecified) {
    used.dbias_dtype = input;
  }
  if (used.shard.total_columns == 0) {
    used.shard.total_columns = used.shard.column_offset + plan.cols();
  }
  // An estimate that nobody can check is a trap.
  if (used.amax_estimation_scale) used.statistics = true;
  return used;
}

// What could not have been made cannot be decoded.
absl::Status CheckMade(const FormatSpec& format,
                       const DequantizeOptions& options) {
  QuantizeOptions made;
  made.usage = options.usage;
  made.rht.rowwise = made.rht.columnwise = options.inverse_rht;
  made.form = options.form;
  if (options.form.scale_256) made.four_over_six = FourOverSix::kMae;
  const absl::Status status = CheckSupport(format, made);
  const std::optional<FieldViolation> v = GetFieldViolation(status);
  if (!v || v->field != "four_over_six") return status;
  // All that a copy shows of it.
  return FieldError("form.scale_256", v->expected, v->got);
}

}  // namespace

absl::StatusOr<Plan> MakeQuantizePlan(const TensorDesc& tensor,
                                      const QuantizeOptions& options) {
  PlanBuilder plan;
  QUANTD_CHECK(CheckFormat(options.format));
  QUANTD_CHECK(CheckFloat("tensor.dtype", tensor.dtype));
  QUANTD_CHECK(plan.SetTensor(tensor));
  QUANTD_CHECK(CheckChoices(options));
  QuantizeOptions used = options;
  // A rotation of a copy nobody asked for is no rotation.
  used.rht.rowwise &= HasRowwise(options.usage);
  used.rht.columnwise &= HasColumnwise(options.usage);
  QUANTD_CHECK(CheckRht(used.rht.dimension, &used.rht.sign_mask));
  const FormatSpec& format = *FindFormat(options.format);
  QUANTD_CHECK(CheckSupport(format, used));
  QUANTD_CHECK(plan.SetGroups(used.splits));
  QUANTD_CHECK(CheckNumbers(used, &plan));
  if (used.dbias && used.dbias_dtype != DType::kUnspecified) {
    QUANTD_CHECK(CheckFloat("dbias_dtype", used.dbias_dtype));
  }
  if (HasRowwise(used.usage)) {
    QUANTD_CHECK(
        CheckRowwise(plan, format, used.rht.rowwise ? used.rht.dimension : 0));
  }
  used = Normalise(used, format, plan, tensor.dtype);

  plan.Input(TensorKind::kInput, tensor.dtype, {plan.rows(), plan.cols()});
  for (bool columnwise : {false, true}) {
    const bool wanted =
        columnwise ? HasColumnwise(used.usage) : HasRowwise(used.usage);
    const bool rotated = columnwise ? used.rht.columnwise : used.rht.rowwise;
    if (!wanted) continue;
    plan.Copy(format, columnwise, /*input=*/false,
              rotated ? used.rht.dimension : 0, used.form);
  }
  if (used.amax) plan.PerGroup(TensorKind::kAmax);
  if (used.dbias) {
    plan.Output(TensorKind::kDbias, used.dbias_dtype,
                plan.grouped()
                    ? std::vector<int64_t>{plan.groups(), plan.cols()}
                    : std::vector<int64_t>{plan.cols()});
    plan.DbiasScratch();
  }
  if (used.history) {
    plan.Output(TensorKind::kAmaxHistory, DType::kF32,
                {static_cast<int64_t>(used.history->amax.size())});
    plan.Output(TensorKind::kNextScale, DType::kF32, {1});
  }
  return plan.Take(used);
}

absl::StatusOr<Plan> MakeDequantizePlan(const TensorDesc& tensor,
                                        const DequantizeOptions& options) {
  PlanBuilder plan;
  QUANTD_CHECK(CheckFormat(options.format));
  QUANTD_CHECK(plan.SetTensor(tensor));
  QUANTD_CHECK(CheckUsage(options.usage, /*one=*/true));
  QUANTD_CHECK(CheckFloat("output", options.output));
  QUANTD_CHECK(CheckNamed("form.scale_layout", options.form.scale_layout,
                          "linear or swizzled"));
  DequantizeOptions used = options;
  QUANTD_CHECK(CheckRht(used.rht_dimension, &used.sign_mask));
  const FormatSpec& format = *FindFormat(options.format);
  const bool columnwise = HasColumnwise(options.usage);
  const int rotation = used.inverse_rht ? used.rht_dimension : 0;
  QUANTD_CHECK(CheckMade(format, used));
  QUANTD_CHECK(plan.SetGroups(used.splits));
  if (!columnwise) QUANTD_CHECK(CheckRowwise(plan, format, rotation));
  plan.Copy(format, columnwise, /*input=*/true, rotation, used.form);
  plan.Output(TensorKind::kDequantized, options.output,
              {plan.rows(), plan.cols()});
  return plan.Take(used);
}

absl::StatusOr<Plan> MakeRhtAmaxPlan(const TensorDesc& tensor,
                                     const RhtAmaxOptions& options) {
  PlanBuilder plan;
  QUANTD_CHECK(CheckFloat("tensor.dtype", tensor.dtype));
  QUANTD_CHECK(plan.SetTensor(tensor));
  RhtAmaxOptions used = options;
  QUANTD_CHECK(CheckRht(used.rht_dimension, &used.sign_mask));
  QUANTD_CHECK(CheckNonFinite(options.non_finite));
  QUANTD_CHECK(CheckNamed("domain", options.domain, "tensor or row"));
  QUANTD_CHECK(plan.SetGroups(options.splits));
  if (!options.rowwise && !options.rowwise_rht && !options.columnwise &&
      !options.columnwise_rht) {
    return FieldError("rowwise, rowwise_rht, columnwise, columnwise_rht",
                      "at least one of them", "none");
  }
  if (options.rowwise_rht) {
    QUANTD_CHECK(CheckColumns(plan.cols(), options.rht_dimension,
                              "the rowwise rotation"));
  }
  plan.Input(TensorKind::kInput, tensor.dtype, {plan.rows(), plan.cols()});
  const auto add = [&](bool wanted, TensorKind kind, bool columnwise) {
    if (!wanted) return;
    plan.Output(kind, DType::kF32,
                options.domain == AmaxDomain::kRow
                    ? plan.LineShape(columnwise)
                    : std::vector<int64_t>{plan.groups()});
  };
  add(options.rowwise, TensorKind::kRowwiseAmax, false);
  add(options.columnwise, TensorKind::kColumnwiseAmax, true);
  add(options.rowwise_rht, TensorKind::kRowwiseRhtAmax, false);
  add(options.columnwise_rht, TensorKind::kColumnwiseRhtAmax, true);
  return plan.Take(used);
}

absl::StatusOr<Plan> MakeApplyRhtPlan(const TensorDesc& tensor,
                                      const ApplyRhtOptions& options) {
  PlanBuilder plan;
  QUANTD_CHECK(CheckFloat("tensor.dtype", tensor.dtype));
  QUANTD_CHECK(plan.SetTensor(tensor));
  QUANTD_CHECK(plan.SetGroups({}));
  ApplyRhtOptions used = options;
  QUANTD_CHECK(CheckRht(used.rht_dimension, &used.sign_mask));
  if (used.output == DType::kUnspecified) used.output = tensor.dtype;
  QUANTD_CHECK(CheckFloat("output", used.output));
  QUANTD_CHECK(
      CheckColumns(plan.cols(), options.rht_dimension, "the rotation"));
  plan.Input(TensorKind::kInput, tensor.dtype, {plan.rows(), plan.cols()});
  plan.Output(TensorKind::kRotated, used.output, {plan.rows(), plan.cols()});
  return plan.Take(used);
}

}  // namespace quantd
