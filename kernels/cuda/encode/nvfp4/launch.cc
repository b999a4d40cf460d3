#include "kernels/cuda/encode/nvfp4/launch.h"

#include <limits>

namespace quantd::cuda {
namespace {

// Copies with one amax, and a scale of its own for each line.
bool IsUsual(const CopyTask& copy) {
  return copy.data == nullptr || (copy.amax_line == 0 && copy.scale_lines == 1);
}

// Whether there is a kernel for that rounding and that choice of scales.
bool HasCoder(const EncodeArgs& a) {
  const EncodeParams& p = a.params;
  const bool nearest = !p.stochastic && p.four_over_six == FourOverSix::kOff;
  if (nearest) return true;
  // A block's random bytes must be those of one counter.
  return a.first.columnwise.data == nullptr && !p.square &&
         p.column_offset % kBlock == 0;
}

}  // namespace

bool TakesNvfp4(const EncodeArgs& a) {
  const EncodeParams& p = a.params;
  const bool copies =
      a.first.rowwise.data != nullptr || a.first.columnwise.data != nullptr;
  return copies && p.scaling == Scaling::kNvfp4 && p.input == DType::kBF16 &&
         p.cols % kBlock == 0 && (a.rotation == 0 || a.rotation == kRhtSize) &&
         HasCoder(a) && a.sums == nullptr && IsUsual(a.first.rowwise) &&
         IsUsual(a.first.columnwise) &&
         a.list.rows <= std::numeric_limits<int32_t>::max() &&
         a.list.chunk_count * p.cols < std::numeric_limits<uint32_t>::max();
}

bool SumsChunksNvfp4(const EncodeArgs& a) {
  return a.dbias && !a.params.stochastic &&
         a.params.four_over_six == FourOverSix::kOff && TakesNvfp4(a);
}

cudaError_t LaunchEncodeNvfp4(const EncodeArgs& a, const Queue& queue) {
  if (a.params.stochastic) return LaunchEncodeNvfp4Stochastic(a, queue);
  if (a.params.four_over_six != FourOverSix::kOff) {
    return LaunchEncodeNvfp4FourOverSix(a, queue);
  }
  if (a.params.square) return LaunchEncodeNvfp4Squares(a, queue);
  return a.dbias || a.first.columnwise.data != nullptr
             ? LaunchEncodeNvfp4Tiles(a, queue)
             : LaunchEncodeNvfp4Rows(a, queue);
}

}  // namespace quantd::cuda
