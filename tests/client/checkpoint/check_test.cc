// Models looked at: every rule of lint has a planted fault, and comparing is
// held to the oracle's decoding.
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "client/checkpoint/check/compare.h"
#include "client/checkpoint/check/lint.h"
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
  // The rules that are broken, with where and why.
  std::string Lints(const Planted& p, bool with_original = false) {
    const Model model = Write(p);
    const Model original = WriteOriginal(p);
    const auto found = Lint(model, with_original ? &original : nullptr);
    EXPECT_THAT(found, IsOk());
    if (!found.ok()) return std::string(found.status().message());
    std::string text;
    for (const Finding& f : found->findings) {
      text += fmt::format("{} {}: {} ({}); ", f.rule, f.where, f.text, f.count);
    }
    return text;
  }
  TempDir dir_;
};

TEST_F(CheckTest, CleanModelsAreClean) {
  for (const Nvfp4Names names :
       {Nvfp4Names::kCompressedTensors, Nvfp4Names::kModelOpt}) {
    EXPECT_EQ(Lints(Clean(names)), "");
    EXPECT_EQ(Lints(Clean(names), /*with_original=*/true), "");
  }
}

TEST_F(CheckTest, EveryRuleFindsItsFault) {
  const std::string q = std::string(kAttention) + "q_proj";
  const std::string k = std::string(kAttention) + "k_proj";
  const auto ct = Nvfp4Names::kCompressedTensors;
  const auto mo = Nvfp4Names::kModelOpt;
  struct Case {
    const char* rule;
    Nvfp4Names names;
    std::function<void(Planted&)> plant;
    const char* says;
  };
  const auto set = [](const std::string& name, float value) {
    return [=](Planted& p) { p.part(name).bytes = FloatBytes({value}); };
  };
  const Case cases[] = {
      {"fused-scales", ct, set(k + ".weight_global_scale", 5000), "5000"},
      {"fused-scales", mo, set(k + ".weight_scale_2", 1e-4f), "k_proj has"},
      {"bad-scale", ct, set(q + ".weight_global_scale", 0), "holds 0"},
      {"bad-scale", mo, set(q + ".weight_scale_2", NAN), "nan"},
      {"bad-scale", mo,
       [&](Planted& p) {
         p.part(q + ".weight_scale").bytes[7] = std::byte{0xFF};
       },
       "nan"},
      {"bad-scale", mo,
       [&](Planted& p) {
         auto& bytes = p.part(q + ".weight_scale").bytes;
         std::fill(bytes.begin(), bytes.end(), std::byte{0});
       },
       "nothing but zeros"},
      {"divisor", ct, set(q + ".weight_global_scale", 0.5f / 2688), "divisor"},
      {"divisor", mo, set(q + ".weight_scale_2", 2688 / 0.5f), "multiplier"},
      {"padded-scales", ct,
       [&](Planted& p) { Pad(&p.part(q + ".weight_scale"), false); },
       "scales are padded"},
      {"swizzled-scales", mo,
       [&](Planted& p) { Pad(&p.part(q + ".weight_scale"), true); },
       "scales are swizzled"},
      {"dialect", mo,
       [&](Planted& p) {
         Rename(&p, q + ".weight", q + ".weight_packed");
         Rename(&p, q + ".weight_scale_2", q + ".weight_global_scale");
         p.part(q + ".weight_global_scale").shape = {1};
       },
       "named as compressed-tensors does"},
      {"missing-scale", ct,
       [&](Planted& p) { p.tensors.erase(q + ".weight_scale"); },
       "scales are missing"},
      {"missing-scale", mo,
       [&](Planted& p) { p.tensors.erase(q + ".weight_scale_2"); },
       "global scale is missing"},
      {"unclear-layout", ct,
       [&](Planted& p) {
         Rename(&p, q + ".weight_scale", q + ".weight_scale_inv");
       },
       "weight_scale_inv would be"},
      {"unclear-layout", mo,
       [&](Planted& p) { p.part(q + ".weight_scale").dtype = "U8"; },
       "fit no dialect"},
      {"no-input-scale", mo,
       [](Planted& p) { p.own["quantization"]["quant_algo"] = "NVFP4"; },
       "labelled NVFP4"},
      {"no-input-scale", ct,
       [](Planted& p) {
         p.config["quantization_config"]["config_groups"]["group_0"]
                 ["input_activations"] = {{"dynamic", "local"}};
       },
       "labelled group_0"},
      {"config", mo,
       [](Planted& p) { p.own["quantization"].erase("group_size"); },
       "no \"group_size\""},
      {"config", mo,
       [](Planted& p) { p.own["quantization"].erase("exclude_modules"); },
       "no \"exclude_modules\""},
      {"config", ct, [](Planted& p) { p.config.erase("quantization_config"); },
       "no quantization_config"},
      {"config", ct,
       [](Planted& p) { p.config["quantization_config"].erase("ignore"); },
       "no \"ignore\""},
      {"ignore-list", ct,
       [&](Planted& p) {
         p.config["quantization_config"]["ignore"].push_back(q);
       },
       "q_proj"},
      {"fused-in-part", ct,
       [&](Planted& p) {
         for (const char* suffix :
              {".weight_packed", ".weight_scale", ".weight_global_scale"}) {
           p.tensors.erase(k + suffix);
         }
         p.tensors[k + ".weight"] = Bf16(k + ".weight", {32, 64});
       },
       "k_proj is not"},
      {"stacked-experts", ct,
       [](Planted& p) {
         const std::string name = "model.layers.0.mlp.experts.gate_up_proj";
         p.tensors[name] = Bf16(name, {4, 32, 128});
       },
       "4 experts are BF16"},
  };
  std::set<std::string_view> seen;
  for (const Case& c : cases) {
    SCOPED_TRACE(fmt::format("{}: {}", c.rule, c.says));
    Planted p = Clean(c.names);
    c.plant(p);
    const std::string found = Lints(p);
    EXPECT_THAT(found, HasSubstr(std::string(c.rule) + " "));
    EXPECT_THAT(found, HasSubstr(c.says));
    seen.insert(c.rule);
  }
  // Those that only the original shows.
  Planted swapped = Clean(mo);
  for (std::byte& b : swapped.part(q + ".weight").bytes) b = b >> 4 | b << 4;
  EXPECT_EQ(Lints(swapped), "");
  EXPECT_THAT(Lints(swapped, true), HasSubstr("nibble-order " + q));
  Planted other = Clean(ct);
  auto& scales = other.part(q + ".weight_scale").bytes;
  std::rotate(scales.begin(), scales.begin() + 37, scales.end());
  EXPECT_THAT(Lints(other, true), HasSubstr("not-the-original " + q));
  seen.insert({"nibble-order", "not-the-original"});
  for (const LintRule& rule : LintRules()) {
    EXPECT_EQ(seen.count(rule.id), 1u) << rule.id << " has no planted fault";
    EXPECT_THAT(std::string(rule.thread), HasSubstr("#"));
  }
}

TEST_F(CheckTest, ManyFaultsOfARuleAreOneLine) {
  Planted p = Clean(Nvfp4Names::kModelOpt);
  for (const char* leaf : {"q_proj", "k_proj", "v_proj"}) {
    p.part(std::string(kAttention) + leaf + ".weight_scale_2").bytes =
        FloatBytes({0});
  }
  EXPECT_THAT(Lints(p), HasSubstr("(3)"));
}

TEST_F(CheckTest, ComparesAcrossDialectsByTheOraclesNumbers) {
  const Planted ct = Clean(Nvfp4Names::kCompressedTensors);
  const Model original = WriteOriginal(ct);
  const Model quantized = Write(ct);
  const auto same = CompareModels(original, quantized);
  ASSERT_THAT(same, IsOk());
  EXPECT_THAT(same->only_a, IsEmpty());
  EXPECT_THAT(same->only_b, IsEmpty());
  ASSERT_EQ(same->tensors.size(), 5u);
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
