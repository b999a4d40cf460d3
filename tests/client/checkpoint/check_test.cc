// Comparing models is held to the oracle's decoding.
#include <cmath>

#include "client/checkpoint/check/compare.h"
#include "tests/client/checkpoint/planted.h"

namespace quantd::checkpoint {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class CheckTest : public testing::Test {
 protected:
  std::string At(std::string_view name) const { return dir_ / name; }
  Model Write(const Planted& p) { return WritePlanted(At("q"), p); }
  Model WriteOriginal(const Planted& p) {
    return WritePlantedOriginal(At("o"), p);
  }
  TempDir dir_;
};

TEST_F(CheckTest, ComparesAcrossDialectsByTheOraclesNumbers) {
  const Planted ct = Clean(Nvfp4Names::kCompressedTensors);
  const Model original = WriteOriginal(ct);
  const Model quantized = Write(ct);
  const auto same = CompareModels(original, quantized);
  ASSERT_THAT(same, IsOk());
  EXPECT_THAT(same->only_a, IsEmpty());
  EXPECT_THAT(same->only_b, IsEmpty());
  ASSERT_EQ(same->tensors.size(), 6u);
  for (const TensorDifference& d : same->tensors) {
    // The original is rounded to bf16, and so is nothing of the other.
    EXPECT_GT(d.sqnr_db, 45) << d.name;
    EXPECT_GT(d.cosine, 0.9999) << d.name;
    EXPECT_FALSE(d.same_layout);
  }
  EXPECT_EQ(same->tensors[0].name, "lm_head");
  EXPECT_TRUE(std::isinf(same->tensors[0].sqnr_db));

  // One code and one scale are another.
  Planted changed = ct;
  const std::string q = std::string(kAttention) + "q_proj";
  changed.part(q + ".weight_packed").bytes[5] ^= std::byte{0x80};
  changed.part(q + ".weight_scale").bytes[0] = std::byte{0x39};
  std::filesystem::rename(At("q"), At("first"));
  const Model first = *Model::Open(At("first"));
  const Model second = Write(changed);
  const auto differing = CompareModels(first, second);
  ASSERT_THAT(differing, IsOk());
  size_t seen = 0;
  for (const TensorDifference& d : differing->tensors) {
    if (d.name != q) {
      EXPECT_TRUE(std::isinf(d.sqnr_db)) << d.name;
      continue;
    }
    ++seen;
    EXPECT_TRUE(d.same_layout);
    EXPECT_EQ(d.code_bytes, 32u * 32);
    EXPECT_EQ(d.differing_code_bytes, 1u);
    EXPECT_EQ(d.scales, 32u * 4);
    EXPECT_EQ(d.differing_scales, 1u);
    EXPECT_TRUE(std::isfinite(d.sqnr_db));
  }
  EXPECT_EQ(seen, 1u);
}

}  // namespace
}  // namespace quantd::checkpoint
