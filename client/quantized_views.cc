// Derives tensors from a QuantizedTensor without quantizing again: other
// shapes, other scale layouts, single groups, and rows.
#include <algorithm>
#include <cstring>
#include <utility>

#include "client/tensors/copy_window.h"
#include "client/tensors/groups.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "kernels/plan/convert_scales.h"
#include "kernels/plan/geometry.h"
#include "kernels/plan/profile/profile.h"
#include "kernels/plan/shards.h"
#include "quantd/field_error.h"
#include "quantd/quantized_tensor.h"

namespace quantd {
namespace {

using client::IsCode;
using client::IsColumnwise;
using client::IsScale;

// The matrix form of a shape: the product of the last `tail` dimensions is
// `cols`, and the product of those before them `rows`.
struct Sides {
  int64_t rows = 1;
  int64_t cols = 1;
};
Sides SidesOf(const std::vector<int64_t>& shape, size_t tail) {
  Sides s;
  for (size_t i = 0; i < shape.size(); ++i) {
    (i + tail < shape.size() ? s.rows : s.cols) *= shape[i];
  }
  return s;
}

// The number of dimensions, counted from the end, that form K.
size_t TailOf(const TensorDesc& desc) {
  return desc.flatten_axis < 0
             ? static_cast<size_t>(-desc.flatten_axis)
             : desc.shape.size() - static_cast<size_t>(desc.flatten_axis);
}

// Owns the memory of a derived tensor: the original's, and converted bytes.
struct Converted {
  std::shared_ptr<const void> old;
  AlignedBytes bytes;
};

}  // namespace

absl::StatusOr<QuantizedTensor> QuantizedTensor::Reshape(
    std::vector<int64_t> shape) const {
  const size_t tail = TailOf(desc_);
  const Sides sides = SidesOf(desc_.shape, tail);
  const TensorDesc desc{desc_.dtype, std::move(shape), -static_cast<int>(tail)};
  const auto refuse = [&] {
    return FieldError(
        "shape",
        fmt::format("{} rows before [{}]", sides.rows,
                    fmt::join(desc_.shape.end() - static_cast<ptrdiff_t>(tail),
                              desc_.shape.end(), ", ")),
        fmt::format("[{}]", fmt::join(desc.shape, ", ")));
  };
  if (desc.shape.size() < tail ||
      !std::equal(desc_.shape.end() - static_cast<ptrdiff_t>(tail),
                  desc_.shape.end(),
                  desc.shape.end() - static_cast<ptrdiff_t>(tail))) {
    return refuse();
  }
  // MakeQuantizePlan refuses shapes that overflow or have no rows.
  const auto plan = MakeQuantizePlan(desc, options_);
  const Sides others = SidesOf(desc.shape, tail);
  if (!plan.ok() || others.rows != sides.rows || others.cols != sides.cols) {
    return refuse();
  }
  QuantizedTensor out = *this;
  out.desc_ = desc;
  return out;
}

absl::StatusOr<QuantizedTensor> QuantizedTensor::ReadAs(Profile profile) const {
  QuantizedTensor out = *this;
  out.options_.profile = profile;
  const auto refuse = [&](const std::string& why) {
    return FieldError(
        "profile",
        fmt::format("a library that can read {}'s {}", Name(options_.profile),
                    Name(options_.format)),
        fmt::format("{}: {}", Name(profile), why));
  };
  const auto plan = MakeQuantizePlan(desc_, out.options_);
  if (!plan.ok()) return refuse(std::string(plan.status().message()));
  for (const TensorSpec& wanted : plan->outputs()) {
    const TensorSpec* there = part(wanted.kind);
    if (there == nullptr || there->dtype != wanted.dtype ||
        there->size != wanted.size) {
      return refuse(fmt::format("it needs {}", Name(wanted.kind)));
    }
  }
  return out;
}

absl::StatusOr<QuantizedTensor> QuantizedTensor::ConvertScaleLayout(
    Layout layout) const {
  if (layout == options_.form.scale_layout) return *this;
  QuantizeOptions options = options_;
  options.form.scale_layout = layout;
  auto out = Make(desc_, options);
  if (!out.ok()) return out.status();
  const auto kept = std::make_shared<Converted>();
  kept->old = owner_;
  size_t total = 0;
  for (const TensorSpec& spec : out->parts_) {
    if (IsScale(spec.kind)) total += spec.size;
  }
  kept->bytes = AlignedBytes(total);
  if (kept->bytes.span().size() != total) {
    return absl::ResourceExhaustedError(
        fmt::format("no memory for {} bytes of scales", total));
  }
  const FormatSpec format =
      FormatUnder(options.profile, options.format, desc_.dtype);
  const Sides sides = SidesOf(desc_.shape, TailOf(desc_));
  const std::vector<int64_t> groups =
      options.splits.value_or(std::vector<int64_t>{sides.rows});
  size_t used = 0;
  for (size_t i = 0; i < parts_.size(); ++i) {
    const TensorSpec& spec = out->parts_[i];
    out->spans_.push_back(spans_[i]);
    if (!IsScale(spec.kind)) continue;
    const bool columnwise = IsColumnwise(spec.kind);
    const absl::Span<std::byte> target =
        kept->bytes.span().subspan(used, spec.size);
    used += spec.size;
    size_t from = 0;
    size_t to = 0;
    for (const int64_t rows : groups) {
      const auto geometry = [&](const QuantizeOptions& o) {
        return client::CopyOf(o, desc_.dtype, columnwise)
            .Geometry(rows, sides.cols);
      };
      const CopyGeometry old_form = geometry(options_);
      const CopyGeometry new_form = geometry(options);
      ConvertScales(format, old_form,
                    spans_[i].subspan(from, old_form.scale_bytes), new_form,
                    target.subspan(to, new_form.scale_bytes));
      from += old_form.scale_bytes;
      to += new_form.scale_bytes;
    }
    out->spans_[i] = target;
  }
  out->rowwise_ = rowwise_;
  out->columnwise_ = columnwise_;
  out->owner_ = kept;
  return out;
}

absl::StatusOr<QuantizedTensor> QuantizedTensor::group(size_t i) const {
  if (i >= groups()) {
    return absl::OutOfRangeError(
        fmt::format("no group {}: the tensor has {} groups", i, groups()));
  }
  int64_t first = 0;
  for (size_t g = 0; g < i; ++g) first += (*options_.splits)[g];
  QuantizeOptions options = options_;
  options.splits.reset();
  options.partial_splits = false;
  // Given amax values are those of the whole tensor. Its bytes already use
  // them.
  options.rowwise_amax.clear();
  options.columnwise_amax.clear();
  if (!options.fp8.scale.empty()) options.fp8.scale = {options_.fp8.scale[i]};
  if (options.fp8.history) {
    const size_t values = options.fp8.history->amax.size() / groups();
    const auto begin =
        options_.fp8.history->amax.begin() + static_cast<ptrdiff_t>(i * values);
    options.fp8.history->amax.assign(begin,
                                     begin + static_cast<ptrdiff_t>(values));
  }
  // Random bits depend on the rows' positions in the payload.
  if (options.rounding == Rounding::kStochastic) {
    options.shard.row_offset += first;
  }
  const Sides sides = SidesOf(desc_.shape, TailOf(desc_));
  auto out = Make({desc_.dtype, {(*options_.splits)[i], sides.cols}}, options);
  if (!out.ok()) return out.status();
  for (const TensorSpec& spec : out->parts_) {
    const TensorSpec* whole = part(spec.kind);
    const auto span = whole == nullptr
                          ? absl::Span<const std::byte>()
                          : GroupBytes(*whole, bytes(spec.kind), i);
    if (span.size() != spec.size) {
      return absl::InternalError(
          fmt::format("group {} has {} bytes of {}, not {}", i, span.size(),
                      Name(spec.kind), spec.size));
    }
    out->spans_.push_back(span);
  }
  out->owner_ = owner_;
  return out;
}

absl::StatusOr<QuantizedTensor> QuantizedTensor::Rows(int64_t first,
                                                      int64_t count) const {
  const Sides sides = SidesOf(desc_.shape, TailOf(desc_));
  const FormatSpec format =
      FormatUnder(options_.profile, options_.format, desc_.dtype);
  if (options_.splits) {
    return FieldError("splits", "no groups: use the rows of a group", "groups");
  }
  const auto refuse = [&](std::string expected) {
    return FieldError("rows", expected,
                      fmt::format("first {}, count {}", first, count));
  };
  if (first < 0 || count < 0 || first > sides.rows ||
      count > sides.rows - first) {
    return refuse(fmt::format("a range inside 0 to {}", sides.rows));
  }
  const int64_t unit = CutUnitsOf(options_).rows;
  for (int64_t cut : {first, first + count}) {
    if (cut % unit != 0 && cut != sides.rows) {
      return refuse(fmt::format("cuts at multiples of {}", unit));
    }
  }
  QuantizeOptions options = options_;
  // Given amax values are those of the whole tensor. Its bytes already use
  // them.
  options.rowwise_amax.clear();
  options.columnwise_amax.clear();
  options.fp8.history.reset();
  options.want_amax = options.dbias = options.statistics = false;
  options.dbias_dtype = DType::kUnspecified;
  if (options.rounding == Rounding::kStochastic) {
    options.shard.row_offset += first;
  }
  auto out = Make({desc_.dtype, {count, sides.cols}}, options);
  if (!out.ok()) return out.status();

  const auto kept = std::make_shared<Converted>();
  kept->old = owner_;
  const auto copied = [&](TensorKind kind) {
    return (IsScale(kind) && format.scaling != Scaling::kTensor) ||
           (kind == TensorKind::kColumnwiseData && format.transposed);
  };
  const auto aligned = [](size_t size) {
    return (size + kPayloadAlignment - 1) / kPayloadAlignment *
           kPayloadAlignment;
  };
  size_t total = 0;
  for (const TensorSpec& spec : out->parts_) {
    if (copied(spec.kind)) total += aligned(spec.size);
  }
  kept->bytes = AlignedBytes(total);
  if (kept->bytes.span().size() != total) {
    return absl::ResourceExhaustedError(
        fmt::format("no memory for {} bytes of rows", total));
  }
  size_t used = 0;
  for (const TensorSpec& spec : out->parts_) {
    const absl::Span<const std::byte> from = bytes(spec.kind);
    const bool columnwise = IsColumnwise(spec.kind);
    const client::CopyWindow window(
        client::CopyOf(options, desc_.dtype, columnwise), sides.rows,
        sides.cols, {first, 0, count, sides.cols, {}});
    if (copied(spec.kind)) {
      const auto to = kept->bytes.span().subspan(used, spec.size);
      used += aligned(spec.size);
      out->spans_.push_back(to);
      if (IsScale(spec.kind)) {
        const int64_t blocks = format.block == 0 ? 0 : first / format.block;
        ConvertScales(format, window.whole(), from, window.part(), to,
                      columnwise ? 0 : first, columnwise ? blocks : 0);
      } else {
        Gather(window.Codes(), from, to);
      }
      continue;
    }
    size_t skip = 0;
    if (IsCode(spec.kind)) {
      skip = window.Codes().at;
    } else if (spec.kind == TensorKind::kRowwiseAmax &&
               HasAmaxOfLines(format, options.form)) {
      // One amax for each row. Any other amax is a single number, or has one
      // for each column.
      skip = static_cast<size_t>(first) * sizeof(float);
    }
    out->spans_.push_back(from.subspan(skip, spec.size));
  }
  out->owner_ = kept;
  return out;
}

}  // namespace quantd
