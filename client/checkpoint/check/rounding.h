// Tests whether the codes of a weight result from rounding the original's
// numbers with the stored scales.
#ifndef QUANTD_CLIENT_CHECKPOINT_CHECK_ROUNDING_H_
#define QUANTD_CLIENT_CHECKPOINT_CHECK_ROUNDING_H_

#include <array>
#include <bitset>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "client/checkpoint/weight_values.h"

namespace quantd::checkpoint {

// The cell of a code reaches halfway to the neighbouring codes, times the
// scale. The cell of the largest code has no upper end. Rounding to nearest
// puts every number into the cell of its code. A wrong scale puts numbers
// beyond one end of their cells, and wrong codes put them beyond both ends.
// Encoders that choose scales differently (4over6, mean square error, clipping)
// still round to nearest. Encoders that choose codes differently, such as GPTQ,
// are judged by the noise of the whole weight.
class Rounding {
 public:
  // `values` must outlive this, and must Read the same rows before each Add.
  explicit Rounding(const WeightValues& values);

  // Adds rows [row, row + count). `truth` holds their original numbers.
  void Add(int64_t row, int64_t count, absl::Span<const float> truth);

  struct Verdict {
    // Whether at least 99 % of the numbers are in their cells.
    bool in_cells = false;
    // Whether the encoder rounded to nearest: at least 97 % are in their cells.
    bool to_nearest = true;
    std::string wrong;  // a fault that no encoder causes; "" if none
  };
  Verdict Judge() const;

 private:
  // Counts for the numbers that share a scale.
  struct Block {
    uint64_t count = 0;
    uint64_t above = 0;  // numbers above their cells
    uint64_t below = 0;
    uint64_t far = 0;  // numbers above or below by more than kFar
    size_t first_far = 0;

    uint64_t beyond() const { return above + below; }
    double share() const;
    bool one_sided() const;
    // Whether the counts indicate a wrong scale.
    bool is_wrong() const;
  };
  // The cell of a code, in units of the scale, without the sign.
  struct Cell {
    float value = 0;
    float low = 0;
    float high = 0;
    float reach = 0;  // distance to the farther end
    bool top = false;
    bool negative = false;
  };
  // Counts of faulty blocks.
  struct Tally {
    uint64_t blocks = 0;
    uint64_t wrong = 0;
    uint64_t one_sided = 0;  // wrong blocks that are one-sided
    uint64_t large = 0;      // one-sided blocks of at least kLargeBlock numbers
    int64_t row = -1;        // first row of the first wrong block
    int64_t col = -1;
  };

  static std::array<Cell, 256> CellsOf(bool four_bits);
  Block AddRun(float scale, absl::Span<const float> truth,
               absl::Span<const uint8_t> codes);
  void Count(const Block& block, int64_t row, int64_t col, Tally* tally) const;
  std::string Describe(const Tally& tally) const;

  const WeightValues& values_;
  const bool four_bits_;
  const std::array<Cell, 256> cells_;
  int64_t height_ = 0;  // rows of a block
  int64_t width_ = 0;
  int64_t across_ = 0;         // blocks side by side
  std::vector<Block> blocks_;  // used if blocks have several rows
  Tally lines_;                // counts for blocks of one row
  std::vector<uint8_t> codes_;
  Block all_;
  int64_t far_row_ = 0;  // row and column of the first far code
  int64_t far_col_ = 0;
  double noise_ = 0;
  double bound_ = 0;
  double signal_ = 0;
  // Sums of numbers divided by their cells' reach, so that a single large
  // number counts no more than others.
  double level_ = 0;
  double product_ = 0;
  std::bitset<256> used_;  // codes that occur
};

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CHECK_ROUNDING_H_
