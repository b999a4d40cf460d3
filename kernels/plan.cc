#include "kernels/plan.h"

#include <cmath>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "kernels/field_error.h"

namespace quantd {
namespace {

constexpr int kRhtDimension = 16;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t RoundUp(int64_t a, int64_t b) { return CeilDiv(a, b) * b; }

// Scales are stored padded to whole 128 x 4 tiles; an empty tensor has none.
std::vector<int64_t> ScaleShape(int64_t lines, int64_t elements, int block) {
  if (lines == 0 || elements == 0) return {0, 0};
  return {RoundUp(lines, 128), RoundUp(CeilDiv(elements, block), 4)};
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
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
  if (single || (!one && u == Usage::kBoth)) return absl::OkStatus();
  return FieldError(
      "usage", one ? "rowwise or columnwise" : "rowwise, columnwise or both",
      u == Usage::kBoth ? "both"
                        : fmt::format("number {}", static_cast<int>(u)));
}

absl::Status CheckNonFinite(NonFinite n) {
  if (Name(n) != "unspecified") return absl::OkStatus();
  return FieldError("non_finite", "ignore, propagate or reject",
                    fmt::format("number {}", static_cast<int>(n)));
}

absl::Status CheckRht(int dimension, const SignMask& mask) {
  if (dimension != kRhtDimension) {
    return FieldError("rht.dimension", "16 (the only one so far)",
                      fmt::to_string(dimension));
  }
  if (mask.words[0] >> kRhtDimension != 0 || mask.words[1] != 0) {
    return FieldError("rht.sign_mask", "16 bits", "bits beyond");
  }
  return absl::OkStatus();
}

absl::Status CheckAmax(std::string_view field, std::optional<float> amax) {
  if (!amax || (std::isfinite(*amax) && *amax >= 0)) return absl::OkStatus();
  return FieldError(field, "a finite number >= 0", fmt::to_string(*amax));
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

  void Input(TensorKind kind, DType dtype, std::vector<int64_t> shape) {
    Append(kind, dtype, std::move(shape), &plan_.inputs_, &plan_.input_bytes_);
  }
  void Output(TensorKind kind, DType dtype, std::vector<int64_t> shape) {
    Append(kind, dtype, std::move(shape), &plan_.outputs_,
           &plan_.output_bytes_);
  }
  // Codes, scales and amax of one copy, as inputs or outputs.
  void Copy(const FormatSpec& f, bool columnwise, bool input) {
    const auto add = [&](TensorKind kind, DType dtype,
                         std::vector<int64_t> shape) {
      input ? Input(kind, dtype, std::move(shape))
            : Output(kind, dtype, std::move(shape));
    };
    if (columnwise) {
      const int64_t packed =
          cols() == 0 ? 0 : CeilDiv(rows(), f.block) * f.block / 2;
      add(TensorKind::kColumnwiseData, f.element, {cols(), packed});
      add(TensorKind::kColumnwiseScale, f.scale,
          ScaleShape(cols(), rows(), f.block));
      add(TensorKind::kColumnwiseAmax, DType::kF32, {1});
    } else {
      add(TensorKind::kRowwiseData, f.element, {rows(), cols() / 2});
      add(TensorKind::kRowwiseScale, f.scale,
          ScaleShape(rows(), cols(), f.block));
      add(TensorKind::kRowwiseAmax, DType::kF32, {1});
    }
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

absl::StatusOr<Plan> MakeQuantizePlan(const TensorDesc& tensor,
                                      const QuantizeOptions& options) {
  PlanBuilder plan;
  QUANTD_CHECK(CheckFormat(options.format));
  QUANTD_CHECK(CheckFloat("tensor.dtype", tensor.dtype));
  QUANTD_CHECK(plan.SetTensor(tensor));
  QUANTD_CHECK(CheckUsage(options.usage, /*one=*/false));
  QUANTD_CHECK(CheckRht(options.rht.dimension, options.rht.sign_mask));
  QUANTD_CHECK(CheckNonFinite(options.non_finite));
  QUANTD_CHECK(CheckAmax("given_amax.rowwise", options.rowwise_amax));
  QUANTD_CHECK(CheckAmax("given_amax.columnwise", options.columnwise_amax));
  const FormatSpec& format = *FindFormat(options.format);
  if (HasRowwise(options.usage)) {
    QUANTD_CHECK(CheckColumns(plan.cols(), format.block,
                              fmt::format("rowwise {}", format.name)));
  }

  QuantizeOptions used = options;
  // A rotation of a copy nobody asked for is no rotation.
  used.rht.rowwise &= HasRowwise(options.usage);
  used.rht.columnwise &= HasColumnwise(options.usage);
  if (!used.rht.rowwise && !used.rht.columnwise) {
    if (!used.rowwise_amax) used.rowwise_amax = options.columnwise_amax;
    if (!used.columnwise_amax) used.columnwise_amax = options.rowwise_amax;
  }
  plan.Input(TensorKind::kInput, tensor.dtype, {plan.rows(), plan.cols()});
  if (HasRowwise(options.usage)) plan.Copy(format, false, /*input=*/false);
  if (HasColumnwise(options.usage)) plan.Copy(format, true, /*input=*/false);
  return plan.Take(used);
}

absl::StatusOr<Plan> MakeDequantizePlan(const TensorDesc& tensor,
                                        const DequantizeOptions& options) {
  PlanBuilder plan;
  QUANTD_CHECK(CheckFormat(options.format));
  QUANTD_CHECK(plan.SetTensor(tensor));
  QUANTD_CHECK(CheckUsage(options.usage, /*one=*/true));
  QUANTD_CHECK(CheckFloat("output", options.output));
  QUANTD_CHECK(CheckRht(options.rht_dimension, options.sign_mask));
  const FormatSpec& format = *FindFormat(options.format);
  const bool columnwise = HasColumnwise(options.usage);
  if (!columnwise) {
    QUANTD_CHECK(CheckColumns(plan.cols(), format.block,
                              fmt::format("rowwise {}", format.name)));
  }
  plan.Copy(format, columnwise, /*input=*/true);
  plan.Output(TensorKind::kDequantized, options.output,
              {plan.rows(), plan.cols()});
  return plan.Take(options);
}

absl::StatusOr<Plan> MakeRhtAmaxPlan(const TensorDesc& tensor,
                                     const RhtAmaxOptions& options) {
  PlanBuilder plan;
  QUANTD_CHECK(CheckFloat("tensor.dtype", tensor.dtype));
  QUANTD_CHECK(plan.SetTensor(tensor));
  QUANTD_CHECK(CheckRht(options.rht_dimension, options.sign_mask));
  QUANTD_CHECK(CheckNonFinite(options.non_finite));
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
  const auto add = [&](bool wanted, TensorKind kind) {
    if (wanted) plan.Output(kind, DType::kF32, {1});
  };
  add(options.rowwise, TensorKind::kRowwiseAmax);
  add(options.columnwise, TensorKind::kColumnwiseAmax);
  add(options.rowwise_rht, TensorKind::kRowwiseRhtAmax);
  add(options.columnwise_rht, TensorKind::kColumnwiseRhtAmax);
  return plan.Take(options);
}

absl::StatusOr<Plan> MakeApplyRhtPlan(const TensorDesc& tensor,
                                      const ApplyRhtOptions& options) {
  PlanBuilder plan;
  QUANTD_CHECK(CheckFloat("tensor.dtype", tensor.dtype));
  QUANTD_CHECK(plan.SetTensor(tensor));
  QUANTD_CHECK(CheckRht(options.rht_dimension, options.sign_mask));
  ApplyRhtOptions used = options;
  if (used.output == DType::kUnspecified) used.output = tensor.dtype;
  QUANTD_CHECK(CheckFloat("output", used.output));
  QUANTD_CHECK(
      CheckColumns(plan.cols(), options.rht_dimension, "the rotation"));
  plan.Input(TensorKind::kInput, tensor.dtype, {plan.rows(), plan.cols()});
  plan.Output(TensorKind::kRotated, used.output, {plan.rows(), plan.cols()});
  return plan.Take(used);
}

}  // namespace quantd
