// 4over6 and scale search with blocks that two candidates encode with nearly
// equal errors. Arithmetic that rounds differently would choose the wrong
// candidate.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "fmt/format.h"
#include "tests/kernels/contract/contract.h"
#include "tests/oracle/codec.h"

namespace quantd {
namespace {

using oracle::Element;
using oracle::FourOverSix;

constexpr int kBlock = 16;
constexpr int64_t kCols = 128;
constexpr int kAround = 4;  // neighbours of a tie on either side

class NearTiesContract : public ContractTest {
 protected:
  // The difference of the errors of two candidates, computed without rounding.
  // One is for a maximum of 6. The other one is for 4, or, for scale search,
  // `step` codes away.
  static double Difference(const std::vector<float>& block,
                           const oracle::QuantizeSpec& spec, int step) {
    const double range = 6.0 * (spec.scale_256 ? 256 : 448);
    float max = 0;
    for (float x : block) max = std::max(max, std::fabs(x));
    const double base = max / 6.0 * (range / spec.row_amax[0]);
    const int six = oracle::E4m3Code(static_cast<float>(base));
    const int other = spec.scale_search
                          ? std::min(six + step, 0x7E)
                          : oracle::E4m3Code(static_cast<float>(base * 1.5));
    const bool squares =
        spec.scale_search || spec.four_over_six == FourOverSix::kMse;
    const auto error = [&](int sf) {
      const double one = oracle::E4m3Value(static_cast<uint8_t>(sf)) *
                         spec.row_amax[0] / range;
      double sum = 0;
      for (float x : block) {
        const uint8_t code =
            oracle::E2m1Code(static_cast<float>(std::fabs(x) / one));
        const double d = oracle::E2m1Value(code) * one - std::fabs(x);
        sum += squares ? d * d : std::fabs(d);
      }
      return sum;
    };
    return error(other) - error(six);
  }

  // Appends blocks in which one element varies around a tie, if a tie exists.
  void AddTie(const oracle::QuantizeSpec& spec, std::vector<float>* x) {
    std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
    const auto rounded = [&](float v) {
      return oracle::RoundTo(spec.element, v);
    };
    const float top = rounded(spec.row_amax[0] * (0.05f + 0.9f * Any()));
    std::vector<float> block(kBlock);
    for (float& v : block) v = rounded(top * uniform(rng_));
    block[0] = top;
    float& free = block[5];
    constexpr int kCandidates[] = {-1, 1, 4, 5, 6};
    const int step = kCandidates[rng_() % 5];
    const auto at = [&](float v) {
      free = rounded(v);
      return Difference(block, spec, step);
    };
    constexpr int kSteps = 24;
    for (int i = 0; i < kSteps; ++i) {
      float low = top * i / kSteps;
      float high = top * (i + 1) / kSteps;
      const bool rises = at(low) < 0;
      if ((at(high) < 0) == rises) continue;
      for (int k = 0; k < 30; ++k) {
        const float middle = low + (high - low) / 2;
        ((at(middle) < 0) == rises ? low : high) = middle;
      }
      const auto bits =
          static_cast<int64_t>(oracle::ElementBits(spec.element, low));
      for (int64_t k = -kAround; k <= kAround; ++k) {
        if (bits + k <= 0) continue;
        free =
            oracle::ElementValue(spec.element, static_cast<uint32_t>(bits + k));
        x->insert(x->end(), block.begin(), block.end());
      }
      return;
    }
  }

  // Compares ties of a spec in rows and in columns.
  void CompareTies(const std::string& what, oracle::QuantizeSpec spec) {
    spec.row_amax = {1.0f + 7.0f * Any()};
    std::vector<float> x;
    while (x.size() < size_t{256} * kCols) AddTie(spec, &x);
    x.resize(x.size() / (kBlock * kCols) * (kBlock * kCols));
    spec.cols = kCols;
    spec.rows = static_cast<int64_t>(x.size()) / kCols;
    Quantize(what, spec, oracle::FromValues(spec.element, x));
    // Puts the same blocks into columns. The content of rows does not matter.
    std::vector<float> turned(x.size());
    for (int64_t r = 0; r < spec.rows; ++r) {
      for (int64_t c = 0; c < kCols; ++c) {
        turned[c * spec.rows + r] = x[r * kCols + c];
      }
    }
    std::swap(spec.rows, spec.cols);
    spec.columnwise = true;
    spec.column_amax = spec.row_amax;
    Quantize(what + ", columns", spec,
             oracle::FromValues(spec.element, turned));
    Combination();
  }

  float Any() { return static_cast<float>(rng_() % 4096) / 4096.0f; }

  std::mt19937 rng_{1};
};

TEST_F(NearTiesContract, FourOverSixKeepsTheBetterCandidate) {
  for (Element e : kElements) {
    for (FourOverSix metric : {FourOverSix::kMse, FourOverSix::kMae}) {
      for (bool fast : {false, true}) {
        for (bool scale_256 : {false, true}) {
          oracle::QuantizeSpec spec;
          spec.element = e;
          spec.four_over_six = metric;
          spec.fast_error = fast;
          spec.scale_256 = scale_256;
          CompareTies(
              fmt::format("ties of {}, {}{}{}", Name(DTypeOf(e)),
                          metric == FourOverSix::kMse ? "mse" : "mae",
                          fast ? ", fast" : "", scale_256 ? ", 256" : ""),
              spec);
        }
      }
    }
  }
}

TEST_F(NearTiesContract, ScaleSearchKeepsTheBestCandidate) {
  for (Element e : kElements) {
    oracle::QuantizeSpec spec;
    spec.element = e;
    spec.scale_search = true;
    CompareTies(fmt::format("ties of {}, search", Name(DTypeOf(e))), spec);
  }
}

}  // namespace
}  // namespace quantd
