// The random bytes of stochastic rounding, over a lane type
// (kernels/arith/lanes.h). The bytes of an element depend only on its position
// in the whole matrix.
#ifndef QUANTD_KERNELS_ARITH_RANDOM_BYTES_H_
#define QUANTD_KERNELS_ARITH_RANDOM_BYTES_H_

#include <cstdint>

#include "kernels/arith/encode_params.h"
#include "kernels/arith/lanes.h"
#include "kernels/arith/philox.h"

namespace quantd {
inline namespace QUANTD_ARITH {

// Random bytes of 16 consecutive positions of each lane's line, starting at
// byte `shift`. The first four words are those of one counter, the others those
// of the next.
template <typename L>
struct RandomBytes {
  typename L::U words[8];
  int shift;

  QUANTD_FN typename L::U at(int i) const {
    const int j = i + shift;
    return (words[j / 4] >> (8 * (j % 4))) & 0xFFu;
  }

  // Returns these bytes moved to shift 0, so that the compiler knows which word
  // holds each byte.
  QUANTD_FN RandomBytes Shifted() const {
    RandomBytes bytes;
    bytes.shift = 0;
    const int word = shift / 4;
    const int bits = shift % 4 * 8;
    for (int i = 0; i < 4; ++i) {
      bytes.words[i] = words[word + i];
      if (bits != 0) {
        bytes.words[i] = bytes.words[i] >> bits | words[word + i + 1]
                                                      << (32 - bits);
      }
    }
    return bytes;
  }
};

// Draws the bytes. `line` and `position` are global: row and column for the
// rowwise copy, column and row for the columnwise copy. Lane i has the line
// `line + i`.
template <typename L>
QUANTD_FN RandomBytes<L> DrawBytes(const EncodeParams& p, bool columnwise,
                                   int64_t line, int64_t position) {
  RandomBytes<L> bytes;
  bytes.shift = static_cast<int>(position % 16);
  const uint64_t across = static_cast<uint64_t>(p.total_columns);
  const uint64_t per_row = (across + 15) / 16;
  const uint64_t l = static_cast<uint64_t>(line);
  const uint64_t b = static_cast<uint64_t>(position / 16);
  const uint64_t first = columnwise ? b * across + l : l * per_row + b;
  const uint64_t step = columnwise ? 1 : per_row;
  const uint64_t next = columnwise ? across : 1;
  const uint64_t subsequence = p.subsequence + (columnwise ? 1 : 0);
  Philox<L>(first, step, subsequence, p.seed, bytes.words);
  if (bytes.shift != 0) {
    Philox<L>(first + next, step, subsequence, p.seed, bytes.words + 4);
  }
  return bytes;
}

// Draws the bytes for a span of a group whose first row in the payload is
// `group_row`: the bytes depend on positions in the whole matrix, not on
// groups. `line` and `position` count within the group.
template <typename L>
QUANTD_FN RandomBytes<L> DrawBytesOfSpan(const EncodeParams& p, bool columnwise,
                                         int64_t group_row, int64_t line,
                                         int64_t position) {
  const int64_t row = p.row_offset + group_row;
  const RandomBytes<L> bytes =
      columnwise
          ? DrawBytes<L>(p, true, p.column_offset + line, row + position)
          : DrawBytes<L>(p, false, row + line, p.column_offset + position);
  return bytes.Shifted();
}

}  // namespace QUANTD_ARITH
}  // namespace quantd

#endif  // QUANTD_KERNELS_ARITH_RANDOM_BYTES_H_
