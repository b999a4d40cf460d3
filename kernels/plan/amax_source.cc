#include "kernels/plan/amax_source.h"

#include "quantd/format.h"

namespace quantd {
namespace {

// The options of one direction.
struct Direction {
  bool wanted;
  bool rotated;
  const std::vector<float>& given;

  Direction(const QuantizeOptions& o, bool columnwise)
      : wanted(columnwise ? HasColumnwise(o.usage) : HasRowwise(o.usage)),
        rotated(columnwise ? o.rht.columnwise : o.rht.rowwise),
        given(columnwise ? o.columnwise_amax : o.rowwise_amax) {}
};

}  // namespace

std::vector<float> AmaxSource::values() const {
  std::vector<float> values(given.begin(), given.end());
  for (float& v : values) v *= factor;
  return values;
}

AmaxSource SourceOfAmax(const QuantizeOptions& o, bool columnwise) {
  using Kind = AmaxSource::Kind;
  const Direction copy(o, columnwise);
  const Direction other(o, !columnwise);
  const FormatSpec& format = *FindFormat(o.format);
  if (!copy.wanted || !HasAmax(format)) return {};
  if (!copy.given.empty()) return {Kind::kGiven, copy.given};
  if (HasAmaxOfLines(format, o.form)) return {Kind::kLines};
  if (copy.rotated && !Estimates(o)) return {Kind::kRotated};
  const float factor = copy.rotated ? *o.nvfp4.amax_estimation_scale : 1;
  // An amax given for an unrotated direction is max |x|.
  if (!other.rotated && !other.given.empty()) {
    return {Kind::kGiven, other.given, factor};
  }
  return {Kind::kPlain, {}, factor};
}

bool MayEstimate(const QuantizeOptions& o) {
  // The format may be unknown, because the options are not checked yet.
  const FormatSpec* const format = FindFormat(o.format);
  if (format == nullptr || !(format->options & kOptEstimation)) return false;
  for (const bool columnwise : {false, true}) {
    const Direction copy(o, columnwise);
    if (copy.wanted && copy.rotated && copy.given.empty()) return true;
  }
  return false;
}

}  // namespace quantd
