#include "kernels/cpu/slice.h"

namespace quantd::cpu {
namespace {

int64_t ScaleBytes(const EncodeParams& e) {
  return static_cast<int64_t>(SizeOf(e.scale));
}

// Cuts the line of a rowwise copy, whose positions are columns.
void CutLine(const EncodeParams& e, int64_t col, int64_t cols, CopyTask* copy) {
  const bool last = col + cols == copy->positions;
  copy->positions = cols;
  copy->padded = last ? copy->padded - col : cols;
  copy->data += e.element == DType::kE2M1x2 ? col / 2 : col;
  if (e.scaling == Scaling::kTensor) return;
  if (e.scaling == Scaling::kChannel) {
    // The first slice writes the line's only scale.
    if (col > 0) copy->scale = nullptr;
    return;
  }
  const int64_t block = col / e.block;
  copy->blocks = last ? copy->blocks - block : cols / e.block;
  copy->scale += ScaleIndex(*copy, 0, block) * ScaleBytes(e);
}

// Selects some lines of a columnwise copy, whose lines are columns.
void TakeLines(const EncodeParams& e, int64_t col, int64_t cols,
               CopyTask* copy) {
  copy->lines = cols;
  copy->data += col * copy->data_line;
  if (copy->amax) copy->amax += col * copy->amax_line;
  if (e.scaling == Scaling::kTensor) return;
  copy->scale += ScaleIndex(*copy, col, 0) * ScaleBytes(e);
}

}  // namespace

Slice SliceOf(const EncodeParams& params, const GroupTask& group, int64_t col,
              int64_t cols) {
  Slice slice = {params, group};
  slice.params.cols = cols;
  slice.params.column_offset += col;
  slice.group.x += col * static_cast<int64_t>(SizeOf(params.input));
  if (group.rowwise.data) CutLine(params, col, cols, &slice.group.rowwise);
  if (group.columnwise.data) {
    TakeLines(params, col, cols, &slice.group.columnwise);
  }
  return slice;
}

}  // namespace quantd::cpu
