#include "kernels/plan/geometry.h"

#include <algorithm>

namespace quantd {
namespace {

// Sets the shape of the scales for `blocks` along a line, even if the copy is
// empty.
void SetScales(const FormatSpec& f, bool columnwise, Layout layout,
               bool compact, int64_t blocks, CopyGeometry* g) {
  if (f.scaling == Scaling::kTensor) {
    g->blocks = 1;
    g->scale_shape = {1};
    g->scale_lines = std::max<int64_t>(1, g->lines);
    return;
  }
  if (f.scaling == Scaling::kChannel) {
    g->blocks = g->positions > 0 ? 1 : 0;
    g->scale_line = 1;
    g->scale_shape = {g->lines};
    return;
  }
  const int64_t lines = RoundUp(g->lines, 128);
  const int64_t wide = RoundUp(blocks, 4);
  if (f.scaling == Scaling::kBlock && f.square) {
    g->scale_lines = f.block;
    g->scale_line = wide;
    g->scale_block = 1;
    g->scale_shape = {CeilDiv(g->lines, f.block), wide};
  } else if (f.scaling == Scaling::kBlock) {
    g->scale_line = 1;
    g->scale_block = RoundUp(g->lines, 4);
    g->scale_shape = {blocks, g->scale_block};
  } else if (compact) {
    g->scale_lines = f.block;
    g->scale_line = blocks;
    g->scale_block = 1;
    g->scale_shape = {CeilDiv(g->lines, f.block), blocks};
  } else if (layout == Layout::kSwizzled) {
    g->swizzled = true;
    g->scale_shape = {lines, wide};
  } else if (columnwise && !f.transposed) {
    g->scale_line = 1;
    g->scale_block = lines;
    g->scale_shape = {wide, lines};
  } else {
    g->scale_line = wide;
    g->scale_block = 1;
    g->scale_shape = {lines, wide};
  }
}

size_t Bytes(const std::vector<int64_t>& shape, DType dtype) {
  size_t bytes = SizeOf(dtype);
  for (int64_t d : shape) bytes *= static_cast<size_t>(d);
  return bytes;
}

}  // namespace

CopyGeometry MakeCopyGeometry(const FormatSpec& f, bool columnwise,
                              int64_t rows, int64_t cols, int rotation,
                              Layout scale_layout, bool compact_scales) {
  CopyGeometry g;
  g.lines = columnwise ? cols : rows;
  g.positions = columnwise ? rows : cols;
  const bool half = f.element == DType::kE2M1x2;
  g.padded = g.positions;
  if (half || rotation > 0) {
    g.padded = RoundUp(g.positions, std::max(f.block, rotation));
  }
  const int64_t blocks = f.block > 0 ? CeilDiv(g.padded, f.block) : 0;
  // No scales of an empty copy are written, even if its scale shape is not
  // empty.
  const bool empty = g.lines == 0 || g.positions == 0;
  g.blocks = empty ? 0 : blocks;
  if (columnwise && !f.transposed) {
    g.data_line = 1;
    g.data_position = g.lines;
    g.data_shape = {g.padded, g.lines};
  } else {
    g.data_line = half ? g.padded / 2 : g.padded;
    g.data_shape = {g.lines, g.data_line};
  }
  g.data_bytes = Bytes(g.data_shape, f.element);
  SetScales(f, columnwise, scale_layout, compact_scales, blocks, &g);
  g.scale_bytes = Bytes(g.scale_shape, f.scale);
  return g;
}

std::vector<ZeroRun> ScalePadding(const FormatSpec& f, const CopyGeometry& g) {
  if (f.scaling == Scaling::kTensor || g.scale_bytes == 0) return {};
  const size_t size = SizeOf(f.scale);
  const int64_t lines = CeilDiv(g.lines, g.scale_lines);
  if (g.scale_bytes == static_cast<size_t>(lines * g.blocks) * size) return {};
  if (g.swizzled) return {{0, 0, g.scale_bytes, 1}};
  // Adds the padding of a matrix of `major` rows, each with `used` of `stride`
  // elements in use.
  const bool by_line = g.scale_block == 1;
  const int64_t major = by_line ? lines : g.blocks;
  const int64_t used = by_line ? g.blocks : lines;
  const int64_t stride = by_line ? g.scale_line : g.scale_block;
  std::vector<ZeroRun> runs;
  if (used < stride) {
    runs.push_back({used * size, stride * size, (stride - used) * size,
                    static_cast<size_t>(major)});
  }
  const size_t end = static_cast<size_t>(major * stride) * size;
  if (end < g.scale_bytes) runs.push_back({end, 0, g.scale_bytes - end, 1});
  return runs;
}

}  // namespace quantd
