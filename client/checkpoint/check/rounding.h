// Tests whether codes result from rounding an original's numbers by the stored
// scales.
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

// Rounding to the nearest leaves every number in the cell of its code: half the
// way to the neighbouring codes, times the scale, without bound above the
// largest code. A wrong scale puts numbers outside one end of their cells;
// codes of other numbers put them outside both. Encoders that choose scales
// differently (4over6, by mean square error, clipped) still round to the
// nearest. Encoders that choose codes differently (such as GPTQ) do not; they
// are judged by the noise of the whole weight.
class Rounding {
 public:
  // `values` must have read the same rows before each Add.
  explicit Rounding(const WeightValues& values);

  // Adds rows [row, row + count), whose original numbers are `truth`.
  void Add(int64_t row, int64_t count, absl::Span<const float> truth);

  struct Verdict {
    // Whether all numbers, or nearly all, are in their cells.
    bool in_cells = false;
    // False if so many are not that the encoder did not round to the nearest.
    bool to_nearest = true;
    std::string wrong;  // an error that no encoder makes; empty: none
  };
  Verdict Judge() const;

 private:
  // Counts for the numbers that share a scale.
  struct Block {
    uint64_t count = 0;
    uint64_t above = 0;  // numbers outside the ends of their cells
    uint64_t below = 0;
    uint64_t far = 0;  // of both, those outside the neighbours' cells too
    size_t first_far = 0;

    uint64_t beyond() const { return above + below; }
    double share() const;
    bool one_sided() const;
    // Whether a wrong scale explains the counts.
    bool is_wrong() const;
  };
  // In units of the scale, without the sign.
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
    uint64_t one_sided = 0;  // of them
    uint64_t large = 0;      // of those, blocks of many numbers
    int64_t row = -1;        // the first wrong row
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
  int64_t height_ = 0;  // rows and columns of a block
  int64_t width_ = 0;
  int64_t across_ = 0;         // blocks
  std::vector<Block> blocks_;  // for blocks of several rows
  Tally lines_;                // of lines in other blocks
  std::vector<uint8_t> codes_;
  Block all_;
  int64_t far_row_ = 0;  // the first such row
  int64_t far_col_ = 0;
  double noise_ = 0;
  double bound_ = 0;
  double signal_ = 0;
  // Sums in units of what rounding may change, so that a single large number
  // counts no more than others.
  double level_ = 0;
  double product_ = 0;
  std::bitset<256> used_;  // codes that occur
};

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CHECK_ROUNDING_H_
