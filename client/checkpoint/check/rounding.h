// Whether codes are what rounding an original's numbers by the stored scales
// makes of them.
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

// An encoder that rounds to the nearest leaves every number in the cell of its
// code: half the way to the neighbours, times the scale, and above the largest
// code anything. A scale that is wrong puts numbers beyond one end of their
// cells, and codes of other numbers put them beyond both. Encoders that choose
// scales otherwise (4over6, by the mean square error, clipped) round to the
// nearest all the same. Those that choose codes otherwise (GPTQ and its like)
// do not, and are held to the noise of the whole weight.
class Rounding {
 public:
  // Of one weight, whose rows `values` has read before each Add.
  explicit Rounding(const WeightValues& values);

  // What rows [row, row + count) were.
  void Add(int64_t row, int64_t count, absl::Span<const float> truth);

  struct Verdict {
    // Every number is in its cell, or nearly.
    bool in_cells = false;
    // Else so many are not that the encoder did not round to the nearest.
    bool to_nearest = true;
    std::string wrong;  // what no encoder does; empty: nothing
  };
  Verdict Judge() const;

 private:
  // Of numbers that share a scale.
  struct Block {
    uint64_t count = 0;
    uint64_t above = 0;  // their cells
    uint64_t below = 0;
    uint64_t far = 0;  // of both, beyond the neighbours' cells, too
    size_t first_far = 0;

    uint64_t beyond() const { return above + below; }
    double share() const;
    bool one_sided() const;
    // As a wrong scale makes it.
    bool is_wrong() const;
  };
  // In units of the scale, without the sign.
  struct Cell {
    float value = 0;
    float low = 0;
    float high = 0;
    float reach = 0;  // to the farther end
    bool top = false;
    bool negative = false;
  };
  // What is wrong with blocks.
  struct Tally {
    uint64_t blocks = 0;
    uint64_t wrong = 0;
    uint64_t one_sided = 0;  // of them
    uint64_t large = 0;      // of those, blocks of many numbers
    int64_t row = -1;        // the first that is wrong
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
  std::vector<Block> blocks_;  // of more than a row
  Tally lines_;                // of others
  std::vector<uint8_t> codes_;
  Block all_;
  int64_t far_row_ = 0;  // the first
  int64_t far_col_ = 0;
  double noise_ = 0;
  double bound_ = 0;
  double signal_ = 0;
  // The same in units of what rounding may change, in which one large number
  // is no more than any other.
  double level_ = 0;
  double product_ = 0;
  std::bitset<256> used_;  // codes
};

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CHECK_ROUNDING_H_
