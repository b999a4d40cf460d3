#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "client/checkpoint/check/shape_table.h"
#include "client/checkpoint/lint/rules.h"
#include "client/checkpoint/names.h"
#include "client/checkpoint/weight_values.h"
#include "client/files/quantized_file.h"
#include "fmt/format.h"

namespace quantd::checkpoint {
namespace {

// Bounds of weights, beyond those of any model. 2688 is also the limit of
// NVFP4.
constexpr double kMostAmax = 2688;
constexpr double kMostRms = 32;
constexpr double kLeastAmax = 1e-8;
// The largest ratio of the magnitudes of weights with the same name in two
// layers.
constexpr double kMostPeerRatio = 1000;
// The share of rows, or of blocks of columns, that may be zeros: some are
// padding.
constexpr double kMostDead = 1.0 / 20;
constexpr int64_t kColumns = 16;
// The share of codes that may be the largest code. With four bits it is higher:
// there are only seven magnitudes, and each block of 16 or 32 has one near the
// largest.
constexpr double kMostClippedFp8 = 0.05;
constexpr double kMostClippedFp4 = 1.0 / 3;
constexpr uint64_t kHeap = 8;
constexpr uint64_t kFewCodes = 64;
// If the largest FP8 code of a weight is below this, its scale is wrong: every
// library scales the largest to 448.
constexpr double kLeastCode = 3.5;
// With fewer numbers than this, nothing is concluded from codes.
constexpr uint64_t kFewNumbers = 1024;

struct Statistics {
  uint64_t count = 0;
  uint64_t not_finite = 0;
  uint64_t rows = 0;
  uint64_t dead_rows = 0;
  uint64_t silenced = 0;  // nonzero codes with a scale of zero
  double squares = 0;
  double amax = 0;
  std::vector<bool> live_columns;  // blocks of kColumns columns not all zeros
  std::array<uint64_t, 256> codes = {};  // counts of codes

  double rms() const {
    return count == 0 ? 0 : std::sqrt(squares / static_cast<double>(count));
  }
  double dead_columns() const {
    const auto dead = std::ranges::count(live_columns, false);
    return live_columns.empty() ? 0
                                : static_cast<double>(dead) /
                                      static_cast<double>(live_columns.size());
  }
  double dead_row_share() const {
    return rows == 0
               ? 0
               : static_cast<double>(dead_rows) / static_cast<double>(rows);
  }

  void AddRows(const std::vector<float>& numbers, int64_t cols) {
    live_columns.resize(static_cast<size_t>((cols + kColumns - 1) / kColumns));
    for (size_t begin = 0; begin < numbers.size();
         begin += static_cast<size_t>(cols)) {
      bool live = false;
      for (size_t j = 0; j < static_cast<size_t>(cols); j += kColumns) {
        const size_t end = std::min(static_cast<size_t>(cols), j + kColumns);
        float most = 0;
        float sum = 0;
        for (size_t k = begin + j; k < begin + end; ++k) {
          most = std::max(most, std::abs(numbers[k]));
          sum += numbers[k] * numbers[k];
        }
        // A sum that is not finite may be an overflow, so the numbers are
        // examined one by one.
        if (!std::isfinite(sum)) AddOdd(numbers, begin + j, begin + end);
        if (std::isfinite(sum)) squares += sum;
        if (std::isfinite(most)) amax = std::max<double>(amax, most);
        if (most == 0 && sum == 0) continue;
        live = true;
        live_columns[j / kColumns] = true;
      }
      ++rows;
      dead_rows += !live;
    }
    count += numbers.size();
  }

  // Counts FP8 codes that are not zero but decode to zero.
  void AddSilenced(absl::Span<const std::byte> bytes,
                   const std::vector<float>& numbers) {
    for (size_t i = 0; i < numbers.size(); ++i) {
      silenced +=
          numbers[i] == 0 && (bytes[i] & std::byte{0x7F}) != std::byte{};
    }
  }

  void AddCodes(absl::Span<const std::byte> bytes) {
    for (const std::byte b : bytes) ++codes[static_cast<uint8_t>(b)];
  }
  // Replaces counts of bytes by those of the two codes in each.
  void SplitBytes() {
    const auto bytes = std::exchange(codes, {});
    for (size_t b = 0; b < bytes.size(); ++b) {
      codes[b & 0xF] += bytes[b];
      codes[b >> 4] += bytes[b];
    }
  }

 private:
  void AddOdd(const std::vector<float>& numbers, size_t begin, size_t end) {
    for (size_t k = begin; k < end; ++k) {
      if (!std::isfinite(numbers[k])) {
        ++not_finite;
      } else {
        squares += static_cast<double>(numbers[k]) * numbers[k];
      }
    }
  }
};

class ValueRules : public Rules {
 public:
  using Rules::Rules;

  void CheckQuantized() {
    for (const StoredWeight& w : stored_.weights) {
      const bool proven = linted_.compared.proven.count(w.module) > 0;
      if (proven && w.has_four_bits()) continue;
      for (int64_t e = 0; e < w.experts; ++e) {
        const Statistics s = Read(WeightValues(model_, w, e), &w);
        const std::string where = w.name_of(e);
        CheckUse(w, where, s);
        if (proven) continue;
        CheckCodes(w, where, s);
        CheckDead(where, s);
        CheckMagnitude(where, s);
        magnitudes_[WithoutNumbers(w.module)].emplace_back(s.rms(), where);
      }
    }
  }

  void CheckPlain() {
    for (const ModelTensor& t : model_.tensors()) {
      if (IsPart(t) || t.stored.size == 0 || !IsPlain(t) || IsScale(t.name())) {
        continue;
      }
      const Statistics s = Read(WeightValues(model_, t), nullptr);
      if (s.not_finite > 0) {
        Find("not-a-number", t.name(), "{} of {} values are NaN or infinite",
             s.not_finite, s.count);
      }
      // A norm's weight must not be zero if the model multiplies by it, like
      // Llama. Other types add one to it.
      const bool factor = IsPlainDecoder(model_.model_type()) &&
                          !model_.model_type().starts_with("gemma") &&
                          t.name().ends_with("norm.weight");
      // Biases may be zero, since training starts with zero.
      const bool weight =
          t.stored.shape.size() >= 2 && !t.name().ends_with("bias");
      if ((weight || factor) && s.dead_rows == s.rows &&
          linted_.compared.zeros.count(t.name()) == 0) {
        Find("dead-weight", t.name(), "all its values are zeros");
      }
      if (s.amax > 1e6) {
        Find("implausible-scale", t.name(), "it has a value of {:.3g}", s.amax);
      }
    }
  }

  // Finds weights that are far larger or smaller than those of other layers.
  void CheckPeers() {
    for (auto& [name, all] : magnitudes_) {
      std::vector<double> sorted;
      for (const auto& [rms, where] : all) {
        if (rms > 0) sorted.push_back(rms);
      }
      if (sorted.size() < 3) continue;
      std::ranges::sort(sorted);
      const double median = sorted[sorted.size() / 2];
      for (const auto& [rms, where] : all) {
        if (rms == 0 ||
            (rms < kMostPeerRatio * median && rms > median / kMostPeerRatio)) {
          continue;
        }
        Find("implausible-scale", where,
             "the root mean square of its values is {:.3g}, but "
             "{:.3g} in other layers",
             rms, median);
      }
    }
  }

 private:
  // `w` is nullptr for numbers that are not quantized.
  Statistics Read(WeightValues values, const StoredWeight* w) {
    Statistics s;
    std::vector<float> numbers;
    for (const auto& run : linted_.sample.Of(values.rows(), values.cols())) {
      if (!Succeeds(values.Read(run.begin, run.count, &numbers))) break;
      if (values.cols() > 0) s.AddRows(numbers, values.cols());
      if (w == nullptr) continue;
      s.AddCodes(values.codes());
      if (values.codes().size() == numbers.size()) {
        s.AddSilenced(values.codes(), numbers);
      }
    }
    if (w != nullptr && w->has_four_bits()) s.SplitBytes();
    return s;
  }

  void CheckCodes(const StoredWeight& w, const std::string& where,
                  const Statistics& s) {
    const bool fp8 = FindFormat(w.layout->codes)->element == DType::kE4M3;
    const uint64_t nan = fp8 ? s.codes[0x7F] + s.codes[0xFF] : 0;
    if (nan > 0) {
      Find("not-a-number", where, "{} of {} codes are NaN", nan, s.count);
    }
    if (s.silenced > 0 && s.silenced < s.count) {
      Find("bad-scale", where,
           "{} of {} codes are not zero, but decode to zero "
           "because their scales are zero",
           s.silenced, s.count);
    }
    if (s.count < kFewNumbers) return;
    CheckSigns(w, where, s);
    CheckClipped(w, where, s, fp8);
  }

  // Finds weights with many values of one sign only: their signs were lost.
  void CheckSigns(const StoredWeight& w, const std::string& where,
                  const Statistics& s) {
    uint64_t less = 0;
    uint64_t more = 0;
    const size_t sign = w.has_four_bits() ? 0x8 : 0x80;
    for (size_t magnitude = 1; magnitude < sign; ++magnitude) {
      more += s.codes[magnitude];
      less += s.codes[sign | magnitude];
    }
    if (less + more < kFewNumbers || (less > 0 && more > 0)) return;
    Find("one-sign", where, "none of its {} codes is {}", s.count,
         less == 0 ? "negative" : "positive");
  }

  // Finds FP8 codes whose scale is far too large.
  void CheckUse(const StoredWeight& w, const std::string& where,
                const Statistics& s) {
    const bool fp8 = FindFormat(w.layout->codes)->element == DType::kE4M3;
    if (!fp8 || s.count < kFewNumbers) return;
    double largest = 0;
    for (uint8_t code = 0; code < 0x7F; ++code) {
      if (s.codes[code] + s.codes[code | 0x80] == 0) continue;
      largest = ValuesOfE4M3()[code];
    }
    if (largest > 0 && largest < kLeastCode) {
      Find("unused-range", where,
           "its largest code is {:.3g}, but should be near 448", largest);
    }
  }

  void CheckClipped(const StoredWeight& w, const std::string& where,
                    const Statistics& s, bool fp8) {
    const uint64_t most =
        fp8 ? s.codes[0x7E] + s.codes[0xFE] : s.codes[0x7] + s.codes[0xF];
    const double share =
        static_cast<double>(most) / static_cast<double>(s.count);
    // Allows for two largest codes in each block, which has one anyway.
    // Clipping adds many more, although the largest codes should be the rarest.
    const BlockShape block = BlockOf(*w.layout);
    const uint64_t wide = block.cols > 0   ? static_cast<uint64_t>(block.cols)
                          : block.rows > 0 ? static_cast<uint64_t>(w.cols)
                                           : s.count;
    const uint64_t own = 2 * (s.count / std::max<uint64_t>(1, wide));
    const uint64_t next = s.codes[0x7D] + s.codes[0xFD];
    const bool heap = fp8 && most > own + kHeap * next + kFewCodes;
    if (!heap && share <= (fp8 ? kMostClippedFp8 : kMostClippedFp4)) return;
    Find("clipped", where,
         "{:.3g} % of its codes are the largest code of the format",
         100 * share);
  }

  void CheckDead(const std::string& where, const Statistics& s) {
    if (s.rows == 0 || s.not_finite == s.count) return;
    if (s.dead_rows == s.rows) {
      Find("dead-weight", where, "all its values are zeros");
    } else if (s.dead_rows >= 8 && s.dead_row_share() > kMostDead) {
      Find("dead-weight", where, "{} of {} rows are all zeros", s.dead_rows,
           s.rows);
    } else if (s.rows >= kColumns && s.live_columns.size() >= 2 &&
               s.dead_columns() > kMostDead) {
      Find("dead-weight", where, "{:.0f} % of its columns are all zeros",
           100 * s.dead_columns());
    }
  }

  void CheckMagnitude(const std::string& where, const Statistics& s) {
    const bool large = s.amax > kMostAmax || s.rms() > kMostRms;
    const bool small = s.amax > 0 && s.amax < kLeastAmax;
    const bool endless = s.amax == 0 && s.not_finite > 0;
    if (!large && !small && !endless) return;
    Find("implausible-scale", where, "{}",
         endless ? "its scales make all values NaN or infinite"
                 : fmt::format("its largest value would be {:.3g}, and the "
                               "root mean square of its values {:.3g}",
                               s.amax, s.rms()));
  }

  std::map<std::string, std::vector<std::pair<double, std::string>>>
      magnitudes_;
};

}  // namespace

void LintValues(const LintedModel& linted, Findings* findings) {
  ValueRules rules(linted, findings);
  rules.CheckQuantized();
  rules.CheckPlain();
  rules.CheckPeers();
}

}  // namespace quantd::checkpoint
