// Stores the codes and scales of lines, with a line in each lane, and adds up
// their errors. Included only by lines_quantize.cc, which is compiled once for
// each instruction set.
#ifndef QUANTD_KERNELS_CPU_ISA_LINES_QUANTIZE_H_
#define QUANTD_KERNELS_CPU_ISA_LINES_QUANTIZE_H_

#include "kernels/arith/encode.h"
#include "kernels/arith/run_errors.h"
#include "kernels/cpu/isa/lines.h"

namespace quantd {
inline namespace QUANTD_ARITH {
namespace {

constexpr int W = QUANTD_LANES;
using L = Lane;
using F = L::F;
using U = L::U;

// The location of the codes of a tile's lines, beginning with position
// `origin`. `pitch` is the distance in bytes between lines or, in a columnwise
// copy that is not transposed, between positions.
struct LineCodes {
  std::byte* to;
  int64_t pitch;
  int64_t origin;
};

// Stores sixteen codes of `lanes` <= W lines from position `p` on.
QUANTD_FN void StoreSixteen(const EncodeParams& params, const CopyTask& copy,
                            const LineCodes& codes, int64_t p, const U* words,
                            int64_t lanes) {
  const bool half = params.element == DType::kE2M1x2;
  const int64_t count = Least(16, copy.padded - p);
  const int64_t along = p - codes.origin;
  // Not transposed: the lines of one position are adjacent.
  if (copy.data_position != 1) {
    std::byte* to = codes.to + along * codes.pitch;
    for (int64_t i = 0; i < count; ++i, to += codes.pitch) {
      const L::U8 bytes = L::LowBytes(words[i / 4] >> (8 * (i % 4)));
      // With a constant size the compiler makes no call.
      if (lanes == W) {
        __builtin_memcpy(to, &bytes, W);
      } else {
        __builtin_memcpy(to, &bytes, lanes);
      }
    }
    return;
  }
  std::byte* to = codes.to + (half ? along / 2 : along);
  if (!half && count == 16 && lanes == W) {
    U block[4] = {words[0], words[1], words[2], words[3]};
    StoreWords<W>(block, to, codes.pitch, 0);
    return;
  }
  if (half && count == 16) {
    std::byte block[8 * W];
    StorePairs<W>(words[0], words[1], block);
    if (lanes == W) {
      QUANTD_UNROLL
      for (int l = 0; l < W; ++l) {
        __builtin_memcpy(to + l * codes.pitch, block + 8 * l, 8);
      }
      return;
    }
    for (int64_t l = 0; l < lanes; ++l) {
      __builtin_memcpy(to + l * codes.pitch, block + 8 * l, 8);
    }
    return;
  }
  const int64_t bytes = half ? count / 2 : count;
  for (int64_t l = 0; l < lanes; ++l) {
    uint32_t w[4] = {};
    for (int i = 0; i < (half ? 2 : 4); ++i) w[i] = words[i][l];
    __builtin_memcpy(to + l * codes.pitch, w, bytes);
  }
}

// Stores the scales of one block in each of `lanes` lines.
QUANTD_FN void StoreScales(const EncodeParams& params, const CopyTask& copy,
                           int64_t line, int64_t block, U stored,
                           int64_t lanes) {
  // nullptr if another slice of the line writes the scale.
  if (copy.scale == nullptr) return;
  const size_t size = SizeOf(params.scale);
  if (size == 2) stored = ScaleInType<L>(params.scale, stored);
  if (size == 1 && !copy.swizzled && copy.scale_lines == 1) {
    const L::U8 codes = L::LowBytes(stored);
    std::byte* to = copy.scale + ScaleIndex(copy, line, block);
    if (copy.scale_line == 1) {
      __builtin_memcpy(to, &codes, lanes);
      return;
    }
    for (int64_t i = 0; i < lanes; ++i, to += copy.scale_line) {
      *to = static_cast<std::byte>(codes[i]);
    }
    return;
  }
  for (int64_t i = 0; i < lanes; ++i) {
    const int64_t at = ScaleIndex(copy, line + i, block);
    const uint32_t value = stored[i];
    if (size == 4) {
      __builtin_memcpy(copy.scale + at * 4, &value, 4);
    } else if (size == 2) {
      __builtin_memcpy(copy.scale + at * 2, &value, 2);
    } else {
      copy.scale[at] = static_cast<std::byte>(value);
    }
  }
}

// The errors of W lines, without the sums of squares.
struct LineErrors {
  U elements{};
  U clipped{};
  U flushed{};
  U max_error{};
};

// Adds the squares of the first `lanes` lines.
QUANTD_FN void AddSquares(const SquareSum<L>& sum, int64_t lanes,
                          ErrorSums::Squares* squares) {
  uint32_t bits[W], exponents[W];
  __builtin_memcpy(bits, &sum.bits, sizeof(bits));
  __builtin_memcpy(exponents, &sum.exponent, sizeof(exponents));
  for (int64_t l = 0; l < lanes; ++l) {
    const SquareTerm term = TermOf(bits[l], exponents[l]);
    squares->bins[term.bin] += term.value;
  }
}

// Adds the errors of the first `lanes` lines.
void AddErrors(const LineErrors& errors, int64_t lanes, ErrorSums* sums) {
  for (int64_t l = 0; l < lanes; ++l) {
    sums->elements += errors.elements[l];
    sums->clipped += errors.clipped[l];
    sums->flushed += errors.flushed[l];
    const uint32_t error = errors.max_error[l];
    sums->max_error = error > sums->max_error ? error : sums->max_error;
  }
}

}  // namespace
}  // namespace QUANTD_ARITH
}  // namespace quantd

#endif  // QUANTD_KERNELS_CPU_ISA_LINES_QUANTIZE_H_
