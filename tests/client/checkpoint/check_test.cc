// Tests of comparisons of models, checked with the oracle's decoding.
#include <cmath>
#include <limits>

#include "client/checkpoint/check/compare.h"
#include "client/checkpoint/check/config_difference.h"
#include "client/checkpoint/report/verdict.h"
#include "tests/client/checkpoint/model_fixture.h"
#include "tests/client/checkpoint/planted.h"

namespace quantd::checkpoint {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class CheckTest : public ModelFixture {
 protected:
  Model Write(const Planted& p) { return WritePlanted(At("q"), p); }
  Model WriteOriginal(const Planted& p) {
    return WritePlantedOriginal(At("o"), p);
  }
};

// The configurations must be equal trees. Libraries add and drop defaults if
// they save one again, which changes the version in it.
TEST_F(CheckTest, FindsEveryDifferenceOfConfigurations) {
  const auto differences = [&](ModelJson before, ModelJson after) {
    const std::vector<WrittenTensor> one = {Bf16("a.weight", {1, 1})};
    for (ModelJson* config : {&before, &after}) {
      config->emplace("model_type", "granite");
      WriteModel(dir_ / (config == &before ? "there" : "here"), *config, {one});
    }
    std::string found;
    const Model there = *Model::Open(dir_ / "there");
    for (const auto& d : DifferencesOf(there, *Model::Open(dir_ / "here"))) {
      found += (d.usual ? "(" + d.key + ") " : d.key + " ");
    }
    return found;
  };
  EXPECT_EQ(differences({{"a", {{"b", {1, 2.0}}}}, {"n", NAN}},
                        {{"a", {{"b", {1.0, 2}}}}, {"n", NAN}}),
            "");
  for (const ModelJson& value : {ModelJson(), ModelJson(false), ModelJson(12.0),
                                 ModelJson("x"), ModelJson({1, 2})}) {
    EXPECT_EQ(differences({{"a", {{"b", value}}}}, {{"a", {{"c", 1}}}}),
              "a.c a.b ");
    EXPECT_EQ(differences({{"b", value}}, {{"b", {{"c", 1}}}}), "b.c b ");
    EXPECT_EQ(differences({{"b", value}}, {{"b", 3}}), "b ");
  }
  // Newer files have these settings in other objects.
  const ModelJson old = {{"rope_theta", 1e6},
                         {"rope_local_base_freq", 1e4},
                         {"rope_scaling", {{"type", "linear"}}},
                         {"quantization_config", {{"bits", 4}}},
                         {"torch_dtype", "bfloat16"}};
  const ModelJson fresh = {
      {"rope_parameters",
       {{"full_attention", {{"rope_theta", 1e6}, {"rope_type", "linear"}}},
        {"sliding_attention", {{"rope_theta", 1e4}}}}},
      {"dtype", "bfloat16"}};
  EXPECT_EQ(differences(old, fresh), "");
  // Another version announces that a library saved the configuration again.
  ModelJson before = {{"multiplier", 12.0},
                      {"window", nullptr},
                      {"bias", false},
                      {"use_cache", true},
                      {"text", {{"layers", 2}}}};
  ModelJson after = {
      {"window", 64}, {"head_dim", 32}, {"text", {{"layers", 3}}}};
  EXPECT_EQ(differences(before, after),
            "head_dim bias multiplier text.layers use_cache window ");
  before["heads"] = after["text_config"]["heads"] = 4;
  after["transformers_version"] = "5.0.0";
  EXPECT_EQ(
      differences(before, after),
      "(head_dim) (text_config.heads) (bias) multiplier text.layers (window) ");
}

TEST_F(CheckTest, ComparesAcrossDialectsLikeTheOracle) {
  const Planted ct = Clean(Nvfp4Names::kCompressedTensors);
  const Model original = WriteOriginal(ct);
  const Model quantized = Write(ct);
  ASSERT_OK_AND_ASSIGN(const auto same, CompareModels(original, quantized));
  EXPECT_THAT(same.only_a, IsEmpty());
  EXPECT_THAT(same.only_b, IsEmpty());
  ASSERT_EQ(same.tensors.size(), 6u);
  for (const TensorDifference& d : same.tensors) {
    // Only the original is rounded to bf16.
    EXPECT_GT(d.sqnr_db, 45) << d.name;
    EXPECT_GT(d.cosine, 0.9999) << d.name;
    EXPECT_FALSE(d.same_layout);
  }
  EXPECT_EQ(same.tensors[0].name, "lm_head");
  EXPECT_TRUE(std::isinf(same.tensors[0].sqnr_db));

  // One code and one scale are changed.
  Planted changed = ct;
  const std::string q = std::string(kAttention) + "q_proj";
  changed.part(q + ".weight_packed").bytes[5] ^= std::byte{0x80};
  changed.part(q + ".weight_scale").bytes[0] = std::byte{0x39};
  std::filesystem::rename(At("q"), At("first"));
  const Model first = *Model::Open(At("first"));
  const Model second = Write(changed);
  ASSERT_OK_AND_ASSIGN(const auto differing, CompareModels(first, second));
  size_t seen = 0;
  for (const TensorDifference& d : differing.tensors) {
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
  ASSERT_OK_AND_ASSIGN(const auto difference, CompareModels(before, after));
  for (const TensorDifference& d : difference.tensors) {
    EXPECT_EQ(d.equal(), d.name != "model.norm") << d.name;
    EXPECT_EQ(IsBelow(d), d.name == "model.norm") << d.name;
    EXPECT_EQ(d.not_finite, d.equal() ? 0u : 64u);
  }
  EXPECT_THAT(VerdictText(difference),
              HasSubstr("model.norm with 64 values that are NaN, or infinite"));
  // NaN at the same position in both models is as wrong as in one.
  ASSERT_OK_AND_ASSIGN(const auto same, CompareModels(after, after));
  for (const TensorDifference& d : same.tensors) {
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
