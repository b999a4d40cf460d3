#include "client/checkpoint/check/rounding.h"

#include <algorithm>
#include <cmath>

#include "fmt/format.h"

namespace quantd::checkpoint {
namespace {

// Tolerance for libraries that divide in bf16 and store scales in bf16: two
// roundings to bf16 are below this.
constexpr float kSlack = 0.01f;
// Shares of numbers that may be outside their cells. Rounding to nearest leaves
// none outside; a scale that is off by three percent leaves more than this.
constexpr double kMostBeyond = 0.01;
constexpr double kMostOfNearest = 0.03;
constexpr double kMostOfBlock = 0.05;
constexpr uint64_t kLeastBeyond = 3;
// A code this far from its number, in halves of its cell, cannot result from
// rounding.
constexpr float kFar = 4;
constexpr uint64_t kLargeBlock = 128;
// A block is one-sided if this many times as many numbers are outside one end
// of their cells as outside the other.
constexpr uint64_t kOneSided = 8;
// The largest share of one-sided blocks among those with three or more numbers
// outside. By chance one in four is one-sided.
constexpr double kMostOneSided = 0.6;
constexpr uint64_t kManyBlocks = 20;
// Bounds for the whole weight. kMostNoise is relative to the noise of numbers
// that are all at the far end of their cells. Rounding to nearest cannot exceed
// 1, but with four bits some encoders choose codes differently. The factors
// bound the mean ratio of decoded to original numbers, in which small numbers,
// many of them zeros in four bits, count as much as large ones.
constexpr double kMostFactor = 1.025;
// The fewest distinct codes with which the factor is judged.
constexpr size_t kSpread = 6;
constexpr double kLeastFactorFp8 = 0.975;
constexpr double kLeastFactorFp4 = 0.94;
constexpr double kMostNoiseFp8 = 1;
constexpr double kMostNoiseFp4 = 2;

}  // namespace

double Rounding::Block::share() const {
  return count == 0
             ? 0
             : static_cast<double>(beyond()) / static_cast<double>(count);
}

bool Rounding::Block::one_sided() const {
  return std::max(above, below) >= kOneSided * std::min(above, below);
}

bool Rounding::Block::is_wrong() const {
  return beyond() >= kLeastBeyond && share() > kMostOfBlock;
}

std::array<Rounding::Cell, 256> Rounding::CellsOf(bool four_bits) {
  constexpr float kE2M1[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  std::array<Cell, 256> cells;  // the cell of NaN stays empty
  const unsigned magnitudes = four_bits ? 8 : 127;
  const auto value = [&](unsigned code) {
    return four_bits ? kE2M1[code] : ValuesOfE4M3()[static_cast<uint8_t>(code)];
  };
  for (unsigned code = 0; code < magnitudes; ++code) {
    Cell c;
    c.value = value(code);
    c.top = code + 1 == magnitudes;
    c.low = code == 0 ? 0 : (value(code - 1) + c.value) / 2;
    c.high = c.top ? c.value : (c.value + value(code + 1)) / 2;
    c.reach = std::max(c.high - c.value, c.value - c.low);
    cells[code] = c;
    c.negative = code > 0;
    cells[code | (four_bits ? 8u : 128u)] = c;
  }
  return cells;
}

Rounding::Rounding(const WeightValues& values)
    : values_(values),
      four_bits_(values.weight().has_four_bits()),
      cells_(CellsOf(four_bits_)) {
  const BlockShape block = BlockOf(*values.weight().layout);
  height_ = block.rows > 0 ? block.rows : values.rows();
  width_ = block.cols > 0 ? block.cols : values.cols();
  across_ = (values.cols() + width_ - 1) / std::max<int64_t>(1, width_);
  if (height_ > 1) {
    const int64_t down = (values.rows() + height_ - 1) / height_;
    blocks_.resize(static_cast<size_t>(down * across_));
  }
}

void Rounding::Add(int64_t row, int64_t count, absl::Span<const float> truth) {
  values_.ExpandCodes(&codes_);
  const absl::Span<const uint8_t> codes = codes_;
  const int64_t cols = values_.cols();
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t b = 0; b < across_; ++b) {
      const auto at = static_cast<size_t>(i * cols + b * width_);
      const auto some =
          static_cast<size_t>(std::min(width_, cols - b * width_));
      const Block run =
          AddRun(values_.scale(row + i, b), truth.subspan(at, some),
                 codes.subspan(at, some));
      if (run.far > 0 && all_.far == 0) {
        far_row_ = row + i;
        far_col_ = b * width_ + static_cast<int64_t>(run.first_far);
      }
      all_.far += run.far;
      for (Block* sum :
           {&all_, height_ > 1 ? &blocks_[static_cast<size_t>(
                                     (row + i) / height_ * across_ + b)]
                               : nullptr}) {
        if (sum == nullptr) continue;
        sum->count += run.count;
        sum->above += run.above;
        sum->below += run.below;
      }
      if (height_ == 1) Count(run, row + i, b * width_, &lines_);
    }
  }
}

Rounding::Block Rounding::AddRun(float scale, absl::Span<const float> truth,
                                 absl::Span<const uint8_t> codes) {
  // The smallest E4M3 scale is 1 / 512. A scale below half of it becomes zero.
  constexpr float kLeastScale = 1.0f / 1024;
  constexpr float kLargest = 6;
  const float faint =
      scale == 0 ? kLargest * kLeastScale * values_.global() : 0.0f;
  Block block;
  block.count = truth.size();
  for (size_t k = 0; k < truth.size(); ++k) {
    const Cell& c = cells_[codes[k]];
    used_.set(codes[k]);
    // A zero may have either sign. Other codes must have the sign of the
    // number.
    const float m = c.low == 0   ? std::abs(truth[k])
                    : c.negative ? -truth[k]
                                 : truth[k];
    const float value = c.value * scale;
    block.above += !c.top && m > std::max(c.high * scale, faint) * (1 + kSlack);
    block.below += !(m >= c.low * scale * (1 - kSlack));
    const float reach = c.reach * scale;
    const bool cut_off = c.top && m > value;
    if (!cut_off && scale > 0 && std::abs(m - value) > kFar * reach &&
        block.far++ == 0) {
      block.first_far = k;
    }
    // A clipped number may be far above the largest code.
    const float most = c.top ? std::max(reach, m - value) : reach;
    noise_ += static_cast<double>(m - value) * (m - value);
    bound_ += static_cast<double>(most) * most;
    signal_ += static_cast<double>(m) * m;
    if (most == 0) continue;
    level_ += static_cast<double>(m / most) * (m / most);
    product_ += static_cast<double>(m / most) * (value / most);
  }
  return block;
}

void Rounding::Count(const Block& block, int64_t row, int64_t col,
                     Tally* tally) const {
  ++tally->blocks;
  if (!block.is_wrong()) return;
  if (tally->wrong++ == 0) {
    tally->row = row;
    tally->col = col;
  }
  if (!block.one_sided()) return;
  ++tally->one_sided;
  tally->large += block.count >= kLargeBlock;
}

std::string Rounding::Describe(const Tally& tally) const {
  std::string place = fmt::format("row {}", tally.row);
  if (height_ > 1) {
    place = fmt::format("rows {} to {}", tally.row,
                        std::min(tally.row + height_, values_.rows()) - 1);
  }
  if (across_ > 1) {
    place += fmt::format(", columns {} to {}", tally.col,
                         std::min(tally.col + width_, values_.cols()) - 1);
  }
  return fmt::format(
      "{} of the {} scales examined ({}{}) do not fit the codes: the codes "
      "were made with other scales",
      tally.wrong, tally.blocks, tally.wrong > 1 ? "the first for " : "for ",
      place);
}

Rounding::Verdict Rounding::Judge() const {
  Verdict v;
  Tally tally = lines_;
  for (size_t i = 0; i < blocks_.size(); ++i) {
    if (blocks_[i].count == 0) continue;
    const auto at = static_cast<int64_t>(i);
    Count(blocks_[i], at / across_ * height_, at % across_ * width_, &tally);
  }
  v.in_cells = all_.share() <= kMostBeyond;
  v.to_nearest = all_.share() <= kMostOfNearest;
  const double most = (four_bits_ ? kMostNoiseFp4 : kMostNoiseFp8) * bound_;
  const double factor = level_ == 0 ? 1 : product_ / level_;
  // The factor is judged only if enough codes occur for rounding errors to
  // cancel out.
  const bool spread = used_.count() >= kSpread;
  const double least = four_bits_ ? kLeastFactorFp4 : kLeastFactorFp8;
  const auto db = [&](double noise) {
    return 10 * std::log10(signal_ / noise);
  };
  // Numbers within their cells are rounded correctly, however large the noise
  // is.
  if (!(noise_ <= most) && (all_.beyond() > 0 || std::isnan(noise_))) {
    v.wrong = fmt::format(
        "its SQNR is {:.1f} dB, but rounding with its scales cannot give less "
        "than {:.1f} dB",
        db(noise_), db(most));
  } else if (!v.in_cells && all_.one_sided()) {
    v.wrong = fmt::format(
        "its scales are too {}: {:.0f} % of the numbers should have {} codes",
        all_.above > all_.below ? "small" : "large", 100 * all_.share(),
        all_.above > all_.below ? "larger" : "smaller");
  } else if (v.in_cells && spread && (factor > kMostFactor || factor < least)) {
    v.wrong = fmt::format(
        "its numbers are {:.3g} times as large as the original's", factor);
  } else if (tally.wrong > 0 && (v.to_nearest || tally.large > 0)) {
    v.wrong = Describe(tally);
  } else if (v.in_cells && all_.far > 0) {
    v.wrong = fmt::format(
        "{} of the {} codes examined ({}row {}, column {}) are too far from "
        "the original for rounding: bits of the file have changed",
        all_.far, all_.count, all_.far > 1 ? "the first is in " : "in ",
        far_row_, far_col_);
  } else if (tally.wrong >= kManyBlocks &&
             static_cast<double>(tally.one_sided) >
                 kMostOneSided * static_cast<double>(tally.wrong)) {
    v.wrong = Describe(tally);
  }
  return v;
}

}  // namespace quantd::checkpoint
