// The codes and scales of a copy, indexed by line and position whatever the
// layout, so that tests can compare a part of a tensor with the whole.
#ifndef QUANTD_TESTS_KERNELS_CONTRACT_COPY_CODES_H_
#define QUANTD_TESTS_KERNELS_CONTRACT_COPY_CODES_H_

#include <cstdint>
#include <vector>

#include "tests/oracle/oracle.h"

namespace quantd {

struct CopyCodes {
  int64_t lines = 0;
  int64_t positions = 0;         // positions of the matrix in a line
  int64_t blocks = 0;            // scales of a line
  std::vector<uint8_t> codes;    // [line][position]
  std::vector<uint32_t> scales;  // [line][block]; a single one for an FP8
                                 // tensor

  uint8_t code(int64_t line, int64_t at) const {
    return codes[line * positions + at];
  }
  uint32_t scale(int64_t line, int64_t block) const {
    return scales[line * blocks + block];
  }
};

// The codes of a copy with that spec; with splits, those of one group.
CopyCodes CodesOf(const oracle::QuantizeSpec& spec, bool columnwise,
                  const oracle::Copy& copy, size_t group = 0);

}  // namespace quantd

#endif  // QUANTD_TESTS_KERNELS_CONTRACT_COPY_CODES_H_
