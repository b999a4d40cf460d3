// The oracle's scales: from maxima to multipliers of elements, and back.
#ifndef QUANTD_TESTS_ORACLE_SCALE_H_
#define QUANTD_TESTS_ORACLE_SCALE_H_

#include <array>
#include <cstdint>
#include <vector>

#include "tests/oracle/codec.h"
#include "tests/oracle/fp32.h"

namespace quantd::oracle {

// The treatment of NaN in the input.
enum class Policy { kIgnore, kPropagate, kReject };

// max |v|; a NaN is dropped, or is the result under kPropagate.
float Amax(const std::vector<float>& values, Policy policy);

// A block's scale as stored (a byte or fp32 bits), and the multiplier of its
// elements.
struct BlockScale {
  uint32_t stored = 0;
  float multiplier = 0;
};

// NVFP4, with the global amax `a`. `range` is 6 * 448 or 6 * 256.
inline constexpr float kRange448 = 2688;
inline constexpr float kRange256 = 1536;
float EncodeScale(float a, float range = kRange448);
float DecodeFactor(uint8_t scale, float a, float range = kRange448);
// The scale of a block with maximum `b`.
BlockScale Nvfp4Scale(float b, float encode_scale);

struct Block {
  uint8_t scale = 0;
  float multiplier = 0;
  std::array<uint8_t, 16> codes = {};
};
Block EncodeBlock(const float* x, float encode_scale, Policy policy);

// 4over6: a block is encoded twice, with its maximum mapped to 4 and to 6.
enum class FourOverSix { kOff, kMae, kMse };
struct Candidate {
  BlockScale scale;
  float error = 0;
};
struct Candidates {
  Candidate four;
  Candidate six;
  bool pick_four = false;
  const BlockScale& picked() const {
    return pick_four ? four.scale : six.scale;
  }
};
// `x` holds one row of 16 values, or the 16 rows of a square one after another.
Candidates TryFourAndSix(const std::vector<float>& x, float a, float range,
                         FourOverSix metric, bool fast, Policy policy);

// Scale search: the best of six scales for `x`, which is as for TryFourAndSix.
BlockScale SearchScale(const std::vector<float>& x, float a, Policy policy);

// FP8: the current scale for the maximum of a tensor, line or block. `largest`
// replaces an infinite scale.
float CurrentScale(float amax, Code code, float epsilon = 0,
                   bool power_of_two = false, float largest = kMax);
// FP8 tensors with a history of maxima: the scale of the next step.
struct History {
  std::vector<float> values;
  bool most_recent = false;  // false: uses the largest entry
  int margin = 0;
};
float NextScale(const History& history, Code code, float previous);
// The history after the step, with entry 0 cleared.
std::vector<float> Roll(const std::vector<float>& values);

// MX: the rule for the scale of a block, given its maximum.
enum class ScaleRule { kUp, kFloor, kCeil, kEven };
uint8_t MxScale(float b, Code code, ScaleRule rule = ScaleRule::kUp);
// 2^(127 - scale), the multiplier of elements.
float MxMultiplier(uint8_t scale);

}  // namespace quantd::oracle

#endif  // QUANTD_TESTS_ORACLE_SCALE_H_
