// What lines lost, added up: a line in each lane, to totals. Included only by
// what is compiled once for each instruction set.
#ifndef QUANTD_KERNELS_CPU_ISA_LINE_ERRORS_H_
#define QUANTD_KERNELS_CPU_ISA_LINE_ERRORS_H_

#include <cstdint>

#include "kernels/arith/run_errors.h"
#include "kernels/cpu/isa/lines.h"

namespace quantd {
inline namespace QUANTD_ARITH {

// What W lines lost, but for the squares.
struct LineErrors {
  Lane::U elements{};
  Lane::U clipped{};
  Lane::U flushed{};
  Lane::U max_error{};
};

// Adds the squares of the first `lanes` lines.
QUANTD_FN void AddSquares(const SquareSum<Lane>& sum, int64_t lanes,
                          ErrorSums::Squares* squares) {
  uint32_t bits[Lane::kWidth], exponents[Lane::kWidth];
  __builtin_memcpy(bits, &sum.bits, sizeof(bits));
  __builtin_memcpy(exponents, &sum.exponent, sizeof(exponents));
  for (int64_t l = 0; l < lanes; ++l) {
    const SquareTerm term = TermOf(bits[l], exponents[l]);
    squares->bins[term.bin] += term.value;
  }
}

// Adds the errors of the first `lanes` lines.
inline void AddErrors(const LineErrors& errors, int64_t lanes,
                      ErrorSums* sums) {
  for (int64_t l = 0; l < lanes; ++l) {
    sums->elements += errors.elements[l];
    sums->clipped += errors.clipped[l];
    sums->flushed += errors.flushed[l];
    const uint32_t error = errors.max_error[l];
    sums->max_error = error > sums->max_error ? error : sums->max_error;
  }
}

}  // namespace QUANTD_ARITH
}  // namespace quantd

#endif  // QUANTD_KERNELS_CPU_ISA_LINE_ERRORS_H_
