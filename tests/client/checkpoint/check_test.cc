// Tests of comparisons of models, checked with the oracle's decoding.
#include <cmath>
#include <limits>

#include "client/checkpoint/check/compare.h"
#include "client/checkpoint/check/config_difference.h"
#include "client/checkpoint/report/verdict.h"
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

// Libraries use 10000 if config.json has no rope_theta.
TEST_F(CheckTest, CountsARopeThetaThatTheOriginalLacks) {
  const auto differences = [&](ModelJson here) {
    ModelJson config = LlamaConfig();
    const std::vector<WrittenTensor> one = {Bf16("a.weight", {1, 1})};
    WriteModel(dir_ / "there", config, {one});
    config.update(here);
    WriteModel(dir_ / "here", config, {one});
    const auto there = Model::Open(dir_ / "there");
    const auto model = Model::Open(dir_ / "here");
    EXPECT_THAT(there, IsOk());
    EXPECT_THAT(model, IsOk());
    return DifferencesOf(*there, *model).size();
  };
  EXPECT_EQ(differences({{"rope_theta", 5e5}}), 1u);
  EXPECT_EQ(differences({{"rope_parameters", {{"rope_theta", 5e5}}}}), 1u);
  EXPECT_EQ(differences({{"rope_theta", 10000}}), 0u);
  // Mixtral's default theta is 1e6, so only the model type differs.
  EXPECT_EQ(differences({{"model_type", "mixtral"}, {"rope_theta", 1e6}}), 1u);
}

TEST_F(CheckTest, ComparesAcrossDialectsLikeTheOracle) {
  const Planted ct = Clean(Nvfp4Names::kCompressedTensors);
  const Model original = WriteOriginal(ct);
  const Model quantized = Write(ct);
  const auto same = CompareModels(original, quantized);
  ASSERT_THAT(same, IsOk());
  EXPECT_THAT(same->only_a, IsEmpty());
  EXPECT_THAT(same->only_b, IsEmpty());
  ASSERT_EQ(same->tensors.size(), 6u);
  for (const TensorDifference& d : same->tensors) {
    // Only the original is rounded to bf16.
    EXPECT_GT(d.sqnr_db, 45) << d.name;
    EXPECT_GT(d.cosine, 0.9999) << d.name;
    EXPECT_FALSE(d.same_layout);
  }
  EXPECT_EQ(same->tensors[0].name, "lm_head");
  EXPECT_TRUE(std::isinf(same->tensors[0].sqnr_db));

  // One code and one scale are changed.
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

// NaN gives no finite error, but still counts as a difference.
TEST_F(CheckTest, CountsNumbersThatBecameNaN) {
  const Planted p = Clean(Nvfp4Names::kCompressedTensors);
  Planted spoilt = p;
  const std::string norm = "model.norm.weight";
  for (size_t i = 1; i < spoilt.part(norm).bytes.size(); i += 2) {
    spoilt.part(norm).bytes[i] = std::byte{0x7F};  // 0x7F.., NaN or infinity
    spoilt.part(norm).bytes[i - 1] = std::byte{0xC0};
  }
  const Model clean = Write(p);
  std::filesystem::rename(At("q"), At("clean"));
  const Model before = *Model::Open(At("clean"));
  const Model after = Write(spoilt);
  const auto difference = CompareModels(before, after);
  ASSERT_THAT(difference, IsOk());
  for (const TensorDifference& d : difference->tensors) {
    EXPECT_EQ(d.equal(), d.name != "model.norm") << d.name;
    EXPECT_EQ(IsBelow(d), d.name == "model.norm") << d.name;
    EXPECT_EQ(d.not_finite, d.equal() ? 0u : 64u);
  }
  EXPECT_THAT(VerdictText(*difference),
              HasSubstr("model.norm with 64 values that are NaN, or infinite"));
  // NaN at the same position in both models is as wrong as in one.
  const auto same = CompareModels(after, after);
  ASSERT_THAT(same, IsOk());
  for (const TensorDifference& d : same->tensors) {
    EXPECT_EQ(IsBelow(d), d.name == "model.norm") << d.name;
  }
}

// Zeros that became other numbers have no finite SQNR.
TEST_F(CheckTest, VerdictCoversEveryDifference) {
  TensorDifference d;
  d.name = "w";
  d.kind_b = "nvfp4 by modelopt";
  d.amax = d.amax_b = 1;
  d.signal = 1;
  d.noise = 0.02;
  d.sqnr_db = 17;
  EXPECT_FALSE(IsBelow(d));
  EXPECT_TRUE(IsBelow(d, 17.5));
  d.format_b = WeightFormat::kFp8;
  EXPECT_NEAR(UsualDb(d), 31.5, 0.01);
  EXPECT_FALSE(IsBelow(d));
  d.sqnr_db = 15.5;
  EXPECT_TRUE(IsBelow(d));
  // Errors of two models quantized from one original add up.
  d.format_a = WeightFormat::kNvfp4;
  EXPECT_NEAR(UsualDb(d), 20.08, 0.01);
  EXPECT_FALSE(IsBelow(d));
  for (const double none : {-std::numeric_limits<double>::infinity(),
                            std::numeric_limits<double>::quiet_NaN()}) {
    d.sqnr_db = none;
    EXPECT_TRUE(IsBelow(d));
    EXPECT_TRUE(IsBelow(d, -100));
  }
  // These weights are too small for the scales of any format.
  d.amax = d.amax_b = 1e-35;
  d.sqnr_db = 0;
  EXPECT_FALSE(IsBelow(d));
  ModelDifference whole;
  EXPECT_TRUE(std::isinf(WholeDb(whole)));
  whole.tensors = {d, d};
  EXPECT_NEAR(WholeDb(whole), 16.99, 0.01);
}

}  // namespace
}  // namespace quantd::checkpoint
