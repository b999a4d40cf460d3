// A tensor, calls of a plan and a comparison, for tests that get one result in
// two ways.
#ifndef QUANTD_TESTS_CLIENT_TWO_WAYS_H_
#define QUANTD_TESTS_CLIENT_TWO_WAYS_H_

#include <cstddef>
#include <random>
#include <utility>
#include <variant>
#include <vector>

#include "quantd/client.h"
#include "tests/testing/matchers.h"

namespace quantd {

// An fp32 tensor with outliers that give every part another amax.
struct Whole {
  explicit Whole(std::vector<int64_t> shape)
      : desc{DType::kF32, std::move(shape)} {
    size_t count = 1;
    for (const int64_t n : desc.shape) count *= static_cast<size_t>(n);
    std::mt19937 random(static_cast<unsigned>(count));
    std::normal_distribution<float> normal;
    values.resize(count);
    for (float& v : values) v = normal(random);
    for (size_t i = 0; i < count; i += 997) values[i] *= 40;
  }
  absl::Span<const std::byte> bytes() const {
    return {reinterpret_cast<const std::byte*>(values.data()),
            values.size() * sizeof(float)};
  }
  TensorDesc desc;
  std::vector<float> values;
};

// Makes the call that has this plan.
inline absl::StatusOr<Result> Ask(
    Client& client, const Plan& plan,
    const std::vector<absl::Span<const std::byte>>& in,
    const CallOptions& call = {}) {
  const Plan::Options& options = plan.options();
  if (const auto* o = std::get_if<QuantizeOptions>(&options)) {
    return client.Quantize(plan.tensor(), in[0], *o, call);
  }
  if (const auto* o = std::get_if<RhtAmaxOptions>(&options)) {
    return client.RhtAmax(plan.tensor(), in[0], *o, call);
  }
  if (const auto* o = std::get_if<ApplyRhtOptions>(&options)) {
    return client.ApplyRht(plan.tensor(), in[0], *o, call);
  }
  QuantizedBytes codes = {.data = in[0], .scale = in[1], .amax = {}};
  if (in.size() > 2) {
    codes.amax = codes.global = {reinterpret_cast<const float*>(in[2].data()),
                                 in[2].size() / sizeof(float)};
  }
  return client.Dequantize(plan.tensor(), codes,
                           std::get<DequantizeOptions>(options), call);
}

// Expects equal bytes in equal groups, and that both saw the same special
// values.
inline void ExpectSameParts(const Result& one, const Result& other) {
  ASSERT_EQ(one.parts().size(), other.parts().size());
  for (const TensorSpec& part : one.parts()) {
    EXPECT_TRUE(
        BytesEq(Name(part.kind), one.bytes(part.kind), other.bytes(part.kind)));
    EXPECT_EQ(other.part(part.kind)->group_offsets, part.group_offsets);
  }
  EXPECT_EQ(one.saw_nan(), other.saw_nan());
  EXPECT_EQ(one.saw_inf(), other.saw_inf());
  EXPECT_EQ(one.replaced_globals(), other.replaced_globals());
}

inline void ExpectSameStatistics(const Result& one, const Result& other) {
  for (const Usage copy : {Usage::kRowwise, Usage::kColumnwise}) {
    const auto& a = one.statistics(copy);
    const auto& b = other.statistics(copy);
    ASSERT_EQ(a.has_value(), b.has_value());
    if (!a) continue;
    EXPECT_EQ(a->elements, b->elements);
    EXPECT_EQ(a->clipped, b->clipped);
    EXPECT_EQ(a->flushed, b->flushed);
    EXPECT_EQ(a->max_error, b->max_error);
    EXPECT_EQ(a->signal, b->signal);
    EXPECT_EQ(a->noise, b->noise);
  }
}

}  // namespace quantd

#endif  // QUANTD_TESTS_CLIENT_TWO_WAYS_H_
