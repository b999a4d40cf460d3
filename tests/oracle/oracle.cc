#include "tests/oracle/oracle.h"

#include <algorithm>
#include <bit>

#include "tests/oracle/lines.h"

namespace quantd::oracle {
namespace {

// Decodes one group, whose codes and scales start at `data` and `scale`, into
// its rows of `out`.
void DecodeGroup(const DequantizeSpec& spec, const Layout& layout,
                 const Matrix& m, const uint8_t* data, const uint8_t* scale,
                 const std::vector<float>& numbers, float* out) {
  const Code code = CodeOf(spec.format);
  const float range = spec.scale_256 ? kRange256 : kRange448;
  for (int64_t line = 0; line < layout.lines; ++line) {
    float amax = 0;
    if (IsNvfp4(spec.format)) {
      amax = numbers[AmaxIndex(m, spec.columnwise, spec.row_scaled, line)];
    }
    std::vector<float> v(layout.kept);
    float factor = 0;
    for (int64_t at = 0; at < layout.kept; ++at) {
      if (at % layout.block == 0) {
        uint32_t stored = layout.GetScale(scale, line, at / layout.block);
        if (layout.scale_size == 2) {
          stored = std::bit_cast<uint32_t>(ElementValue(spec.made_of, stored));
        }
        factor = spec.profile == Profile::kTe
                     ? FactorOf(spec.format, stored, amax, range)
                     : FactorUnder(spec.profile, spec.format, spec.output,
                                   stored, amax);
      }
      const uint8_t bits = layout.GetCode(data, line, at);
      v[at] = RoundTo(spec.output, Mul(CodeValue(code, bits), factor));
    }
    if (spec.inverse) {
      for (int64_t at = 0; at < layout.kept; at += spec.dimension) {
        RotateBack(&v[at], spec.mask, spec.dimension);
      }
    }
    const int64_t end = spec.rotated ? layout.kept : layout.length;
    for (int64_t at = 0; at < end; ++at) {
      out[spec.columnwise ? at * m.cols + line : line * m.cols + at] = v[at];
    }
  }
}

}  // namespace

Bytes Dequantize(const DequantizeSpec& spec, const Copy& copy) {
  std::vector<float> out;
  const uint8_t* data = copy.data.data();
  const uint8_t* scale = copy.scale.data();
  const std::vector<float> shape(spec.rows * spec.cols);
  for (const Matrix& m : Groups(shape, spec.rows, spec.cols, spec.splits)) {
    const Layout layout = MakeLayout(
        {spec.format, m.rows, m.cols, spec.columnwise,
         spec.inverse || spec.rotated ? spec.dimension : 0, spec.swizzled,
         spec.compact, ScaleSizeOf(spec.profile, spec.format, spec.made_of),
         HighFirst(spec.profile)});
    if (!layout.empty()) {
      const bool padded = spec.rotated && spec.columnwise;
      const size_t first = out.size();
      out.resize(first + (padded ? layout.kept : m.rows) * m.cols);
      DecodeGroup(
          spec, layout, m, data, scale,
          HasGlobal(spec.profile, spec.format) ? copy.global : copy.amax,
          &out[first]);
    }
    data += layout.DataBytes();
    scale += layout.ScaleBytes();
  }
  return FromValues(spec.output, out);
}

Amaxes RhtAmax(const AmaxSpec& spec, const Bytes& input) {
  std::vector<float> x = Values(spec.element, input);
  x.resize(RowsIn(spec.rows, spec.splits) * spec.cols);
  Amaxes out;
  if (spec.policy == Policy::kReject && (AnyNaN(x) || AnyInf(x))) {
    out.rejected = true;
    return out;
  }
  const auto reduce = [&](const Matrix& m, bool columnwise, int dimension,
                          std::vector<float>& to) {
    const int64_t length = columnwise ? m.rows : m.cols;
    const int64_t step = std::max(dimension, 1);
    const int64_t padded = (length + step - 1) / step * step;
    std::vector<float> maxima;
    for (const auto& line :
         MakeLines(m, columnwise, padded, dimension, spec.mask)) {
      maxima.push_back(Amax(line, spec.policy));
    }
    if (!spec.per_line) maxima = {Amax(maxima, spec.policy)};
    to.insert(to.end(), maxima.begin(), maxima.end());
  };
  for (const Matrix& m : Groups(x, spec.rows, spec.cols, spec.splits)) {
    reduce(m, false, 0, out.row);
    reduce(m, true, 0, out.column);
    reduce(m, true, spec.dimension, out.column_rotated);
    if (spec.cols % spec.dimension == 0) {
      reduce(m, false, spec.dimension, out.row_rotated);
    }
  }
  return out;
}

Bytes ApplyRht(Element e, Element output, const Mask& mask, bool inverse,
               const Bytes& input, int dimension) {
  std::vector<float> x = Values(e, input);
  for (size_t b = 0; b + dimension <= x.size(); b += dimension) {
    inverse ? RotateBack(&x[b], mask, dimension)
            : Rotate(&x[b], mask, dimension);
  }
  return FromValues(output, x);
}

}  // namespace quantd::oracle
