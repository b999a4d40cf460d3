#include "kernels/cuda/nvfp4.h"

#include <limits>

namespace quantd::cuda {
namespace {

// Copies with one amax, and a scale of its own for each line.
bool IsUsual(const CopyTask& copy) {
  return copy.data == nullptr || (copy.amax_line == 0 && copy.scale_lines == 1);
}

}  // namespace

bool TakesNvfp4(const EncodeArgs& a) {
  const EncodeParams& p = a.params;
  const bool copies =
      a.first.rowwise.data != nullptr || a.first.columnwise.data != nullptr;
  return copies && p.scaling == Scaling::kNvfp4 && p.input == DType::kBF16 &&
         p.cols % kBlock == 0 && (a.rotation == 0 || a.rotation == kRhtSize) &&
         p.four_over_six == FourOverSix::kOff && !p.stochastic &&
         a.sums == nullptr && IsUsual(a.first.rowwise) &&
         IsUsual(a.first.columnwise) &&
         a.list.chunk_count * p.cols < std::numeric_limits<uint32_t>::max();
}

cudaError_t LaunchEncodeNvfp4(const EncodeArgs& a, const Queue& queue) {
  return a.params.square || a.dbias || a.first.columnwise.data != nullptr
             ? LaunchEncodeNvfp4Tiles(a, queue)
             : LaunchEncodeNvfp4Rows(a, queue);
}

}  // namespace quantd::cuda
