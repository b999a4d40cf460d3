// Conversion of the options of Dequantize, RhtAmax and ApplyRht, and of the
// messages that all options share.
#include <algorithm>
#include <iterator>
#include <string>

#include "fmt/format.h"
#include "proto/option_fields.h"
#include "quantd/field_error.h"

namespace quantd::wire {

absl::Status RenameField(absl::Status status, std::string_view from,
                         std::string_view to) {
  const std::optional<FieldViolation> v = GetFieldViolation(status);
  if (!v || !v->field.starts_with(from)) return status;
  const std::string rest = v->field.substr(from.size());
  if (!rest.empty() && rest[0] != '.') return status;
  return FieldError(std::string(to) + rest, v->expected, v->got);
}

absl::Status ReadRht(std::string_view field, const v1::Rht& message,
                     int* dimension, std::optional<SignMask>* mask) {
  if (message.dimension() != 0) {
    const auto* end = std::end(kRhtDimensions);
    // Compared as unsigned, because a number beyond int's range must match no
    // dimension.
    const auto* found =
        std::find_if(std::begin(kRhtDimensions), end, [&](int legal) {
          return static_cast<uint32_t>(legal) == message.dimension();
        });
    if (found == end) {
      return FieldError(fmt::format("{}.dimension", field), "16, 32, 64 or 128",
                        fmt::to_string(message.dimension()));
    }
    *dimension = *found;
  }
  if (!message.has_sign_mask()) return absl::OkStatus();
  absl::StatusOr<SignMask> read =
      SignMaskFromBytes(message.sign_mask(), *dimension);
  if (!read.ok()) return RenameField(read.status(), "rht", field);
  *mask = *read;
  return absl::OkStatus();
}

v1::Rht ToProto(int dimension, const std::optional<SignMask>& mask) {
  v1::Rht out;
  out.set_dimension(static_cast<uint32_t>(dimension));
  out.set_sign_mask(
      SignMaskToBytes(mask.value_or(DefaultSignMask(dimension)), dimension));
  return out;
}

CopyForm FromProto(const v1::CopyForm& message) {
  CopyForm form;
  if (message.scale_layout() != v1::LAYOUT_UNSPECIFIED) {
    form.scale_layout = static_cast<Layout>(message.scale_layout());
  }
  form.compact_scales = message.compact_scales();
  form.row_scaled = message.row_scaled();
  form.scale_256 = message.scale_256();
  return form;
}

v1::CopyForm ToProto(const CopyForm& form) {
  v1::CopyForm out;
  out.set_scale_layout(ToProto(form.scale_layout));
  out.set_compact_scales(form.compact_scales);
  out.set_row_scaled(form.row_scaled);
  out.set_scale_256(form.scale_256);
  return out;
}

Usage ReadUsage(v1::Usage usage) {
  return usage == v1::USAGE_UNSPECIFIED ? Usage::kRowwise
                                        : static_cast<Usage>(usage);
}

absl::StatusOr<DequantizeOptions> FromProto(const v1::DequantizeOptions& m) {
  DequantizeOptions o;
  o.format = static_cast<Format>(m.format());
  o.usage = ReadUsage(m.usage());
  o.output = static_cast<DType>(m.output());
  o.inverse_rht = m.has_inverse_rht();
  QUANTD_RETURN_IF_ERROR(
      ReadRht("inverse_rht", m.inverse_rht(), &o.rht_dimension, &o.sign_mask));
  // Clamped: a number beyond int's range must stay an illegal dimension.
  o.rotated_dimension =
      static_cast<int>(std::min<uint32_t>(m.rotated_dimension(), 1 << 30));
  o.form = FromProto(m.form());
  ReadSplits(m, &o);
  o.profile = static_cast<Profile>(m.profile());
  return o;
}

v1::DequantizeOptions ToProto(const DequantizeOptions& o) {
  v1::DequantizeOptions m;
  m.set_format(ToProto(o.format));
  m.set_usage(ToProto(o.usage));
  m.set_output(ToProto(o.output));
  if (o.inverse_rht) {
    *m.mutable_inverse_rht() = ToProto(o.rht_dimension, o.sign_mask);
  }
  m.set_rotated_dimension(static_cast<uint32_t>(o.rotated_dimension));
  *m.mutable_form() = ToProto(o.form);
  WriteSplits(o, &m);
  m.set_profile(ToProto(o.profile));
  return m;
}

absl::StatusOr<RhtAmaxOptions> FromProto(const v1::RhtAmaxOptions& m) {
  RhtAmaxOptions o;
  o.rowwise = m.rowwise();
  o.rowwise_rht = m.rowwise_rht();
  o.columnwise = m.columnwise();
  o.columnwise_rht = m.columnwise_rht();
  QUANTD_RETURN_IF_ERROR(
      ReadRht("rht", m.rht(), &o.rht_dimension, &o.sign_mask));
  if (m.has_rht() && !o.rowwise_rht && !o.columnwise_rht) {
    return FieldError("rht", "rht only with rowwise_rht or columnwise_rht",
                      "neither");
  }
  o.non_finite = static_cast<NonFinite>(m.non_finite());
  o.domain = static_cast<AmaxDomain>(m.domain());
  ReadSplits(m, &o);
  return o;
}

v1::RhtAmaxOptions ToProto(const RhtAmaxOptions& o) {
  v1::RhtAmaxOptions m;
  m.set_rowwise(o.rowwise);
  m.set_rowwise_rht(o.rowwise_rht);
  m.set_columnwise(o.columnwise);
  m.set_columnwise_rht(o.columnwise_rht);
  if (o.rowwise_rht || o.columnwise_rht) {
    *m.mutable_rht() = ToProto(o.rht_dimension, o.sign_mask);
  }
  m.set_non_finite(ToProto(o.non_finite));
  m.set_domain(ToProto(o.domain));
  WriteSplits(o, &m);
  return m;
}

absl::StatusOr<ApplyRhtOptions> FromProto(const v1::ApplyRhtOptions& m) {
  ApplyRhtOptions o;
  o.inverse = m.inverse();
  o.output = static_cast<DType>(m.output());
  QUANTD_RETURN_IF_ERROR(
      ReadRht("rht", m.rht(), &o.rht_dimension, &o.sign_mask));
  return o;
}

v1::ApplyRhtOptions ToProto(const ApplyRhtOptions& o) {
  v1::ApplyRhtOptions m;
  m.set_inverse(o.inverse);
  m.set_output(ToProto(o.output));
  *m.mutable_rht() = ToProto(o.rht_dimension, o.sign_mask);
  return m;
}

}  // namespace quantd::wire
