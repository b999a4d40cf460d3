#include "tests/kernels/contract/copy_codes.h"

namespace quantd {

CopyCodes CodesOf(const oracle::QuantizeSpec& spec, bool columnwise,
                  const oracle::Copy& copy, size_t group) {
  const bool rotated = columnwise ? spec.rotate_columns : spec.rotate_rows;
  const bool grouped = !spec.splits.empty();
  const oracle::Layout layout = oracle::MakeLayout(
      {spec.format, grouped ? spec.splits[group] : spec.rows, spec.cols,
       columnwise, rotated ? spec.dimension : 0, spec.swizzled, spec.compact});
  const uint8_t* data =
      copy.data.data() + (grouped ? copy.data_offsets[group] : 0);
  const uint8_t* scale =
      copy.scale.data() + (grouped ? copy.scale_offsets[group] : 0);
  CopyCodes out;
  out.lines = layout.lines;
  out.positions = layout.length;
  for (int64_t line = 0; line < out.lines; ++line) {
    for (int64_t at = 0; at < out.positions; ++at) {
      out.codes.push_back(layout.GetCode(data, line, at));
    }
  }
  if (oracle::IsTensor(spec.format)) {
    out.scales = {layout.GetScale(scale, 0, 0)};
    return out;
  }
  out.blocks = layout.blocks;
  for (int64_t line = 0; line < out.lines; ++line) {
    for (int64_t b = 0; b < out.blocks; ++b) {
      out.scales.push_back(layout.GetScale(scale, line, b));
    }
  }
  return out;
}

}  // namespace quantd
