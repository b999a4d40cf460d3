// Tests of repaired models: the findings of lint are gone, the decoded numbers
// are unchanged, and fitting scales costs as much SQNR as reported.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>

#include "client/checkpoint/weight_values.h"
#include "tests/client/checkpoint/fault.h"
#include "tests/client/checkpoint/repair/fixture.h"

namespace quantd::checkpoint {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::UnorderedElementsAre;

TEST_F(RepairTest, DoesNothingToAModelWithoutFaults) {
  for (const Nvfp4Names names : {kCt, kMo}) {
    ASSERT_OK_AND_ASSIGN(const auto plan,
                         PlanRepair(WritePlanted(At("q"), Clean(names)),
                                    nullptr, Dialect::kNone));
    EXPECT_THAT(plan.repairs, IsEmpty());
  }
}

TEST_F(RepairTest, RepairsLosslesslyWherePossible) {
  struct Case {
    const char* rule;
    Nvfp4Names names;
    std::function<void(Planted&)> plant;
    bool with_original = false;
  };
  const Case cases[] = {
      {"padded-scales", kCt,
       [](Planted& p) { Pad(&p.part(kQ + ".weight_scale"), false); }},
      {"swizzled-scales", kMo,
       [](Planted& p) { Pad(&p.part(kQ + ".weight_scale"), true); }},
      {"unclear-layout", kCt,
       [](Planted& p) {
         Rename(&p, kQ + ".weight_scale", kQ + ".weight_scale_inv");
       }},
      {"dialect", kMo,
       [](Planted& p) {
         Rename(&p, kQ + ".weight", kQ + ".weight_packed");
         Rename(&p, kQ + ".weight_scale_2", kQ + ".weight_global_scale");
         p.part(kQ + ".weight_global_scale").bytes = FloatBytes({2688 / 0.5f});
       }},
      // Names and padding of `quantize`.
      {"padded-scales", kCt,
       [](Planted& p) {
         Pad(&p.part(kQ + ".weight_scale"), false);
         Rename(&p, kQ + ".weight_packed", kQ + ".weight.rowwise_data");
         Rename(&p, kQ + ".weight_scale", kQ + ".weight.rowwise_scale");
         Rename(&p, kQ + ".weight_global_scale", kQ + ".weight.rowwise_amax");
         p.part(kQ + ".weight.rowwise_amax").bytes = FloatBytes({0.5f});
       }},
      {"divisor", kCt,
       [](Planted& p) {
         p.part(kQ + ".weight_global_scale").bytes = FloatBytes({0.5f / 2688});
       }},
      {"divisor", kMo,
       [](Planted& p) {
         p.part(kQ + ".weight_scale_2").bytes = FloatBytes({2688 / 0.5f});
       }},
      {"nibble-order", kMo,
       [](Planted& p) {
         for (std::byte& b : p.part(kQ + ".weight").bytes) b = b >> 4 | b << 4;
       },
       true},
      {"config", kMo,
       [](Planted& p) { p.own["quantization"].erase("group_size"); }},
      {"config", kCt,
       [](Planted& p) { p.config.erase("quantization_config"); }},
      {"config", kCt,
       [](Planted& p) { p.config["quantization_config"].erase("ignore"); }},
      {"no-input-scale", kMo,
       [](Planted& p) { p.own["quantization"]["quant_algo"] = "NVFP4"; }},
      {"no-input-scale", kCt,
       [](Planted& p) {
         p.config["quantization_config"]["config_groups"]["group_0"]
                 ["input_activations"] = {{"dynamic", "local"}};
       }},
      {"ignore-list", kCt,
       [](Planted& p) {
         p.config["quantization_config"]["ignore"].push_back(kQ);
       }},
      {"config-mismatch", kCt,
       [](Planted& p) { p.config["torch_dtype"] = "float16"; }},
      {"wrapped-names", kCt,
       [](Planted& p) {
         std::vector<std::string> names;
         for (const auto& [name, t] : p.tensors) names.push_back(name);
         for (const std::string& n : names) Rename(&p, n, "_orig_mod." + n);
       }},
      {"wrapped-names", kCt,
       [](Planted& p) {
         std::vector<std::string> names;
         for (const auto& [name, t] : p.tensors) names.push_back(name);
         for (const std::string& n : names) {
           if (n.starts_with("model.")) Rename(&p, n, n.substr(6));
         }
       }},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.rule);
    Planted p = Clean(c.names);
    WritePlanted(At("clean"), p);
    c.plant(p);
    const Model faulty = WritePlanted(At("q"), p);
    const Model original = WritePlantedOriginal(At("o"), p);
    const Model* truth = c.with_original ? &original : nullptr;
    ASSERT_OK_AND_ASSIGN(const auto before, Lint(faulty, truth));
    ASSERT_FALSE(before.findings.empty());
    const Outcome out = Mended(faulty, truth);
    ASSERT_FALSE(out.plan.repairs.empty());
    EXPECT_EQ(out.plan.repairs.front().rule, c.rule);
    EXPECT_THAT(out.left, IsEmpty());
    EXPECT_THAT(out.fitted, IsEmpty());
    // A reciprocal is rounded once. All other numbers are unchanged.
    EXPECT_GT(LeastDb(At("clean")), 130);
  }
}

TEST_F(RepairTest, FittingScalesCostsTheReportedSqnr) {
  for (const Nvfp4Names names : {kCt, kMo}) {
    Planted p = Clean(names);
    // The three fused weights have different amaxes. Half the amax, for k,
    // costs nothing; a third, for v, rounds scales.
    const bool ct = names == kCt;
    const std::string global = ct ? ".weight_global_scale" : ".weight_scale_2";
    const auto set = [&](const std::string& module, float amax) {
      p.part(module + global).bytes =
          FloatBytes({ct ? 2688 / amax : amax / 2688});
    };
    set(kK, 0.25f);
    set(std::string(kAttention) + "v_proj", 0.5f / 3);
    const Model faulty = WritePlanted(At("q"), p);
    ASSERT_OK_AND_ASSIGN(const auto before, Lint(faulty));
    ASSERT_EQ(before.findings.size(), 1u);
    EXPECT_EQ(before.findings.front().rule, "fused-scales");
    const Outcome out = Mended(faulty);
    EXPECT_THAT(out.left, IsEmpty());
    ASSERT_THAT(out.fitted, SizeIs(2));
    ASSERT_OK_AND_ASSIGN(const auto mended, Model::Open(At("mended")));
    ASSERT_OK_AND_ASSIGN(const auto difference, CompareModels(faulty, mended));
    for (const TensorDifference& d : difference.tensors) {
      const auto told = std::find_if(
          out.fitted.begin(), out.fitted.end(),
          [&](const FittedWeight& w) { return w.module == d.name; });
      if (told == out.fitted.end()) {
        EXPECT_TRUE(std::isinf(d.sqnr_db)) << d.name;
        continue;
      }
      EXPECT_EQ(told->loss.scales, 32u * 4);
      if (d.name == kK) {
        EXPECT_EQ(told->loss.rounded, 0u);
        EXPECT_GT(d.sqnr_db, 120);
      } else {
        EXPECT_GT(told->loss.rounded, 0u);
        EXPECT_GT(d.sqnr_db, 25);
        EXPECT_NEAR(told->loss.sqnr_db(), d.sqnr_db, 0.01);
      }
    }
  }
}

// The values of the original's v are a third as large, as the global scale
// states. Fitting rounds some block scales, and lint finds no difference from
// the original.
TEST_F(RepairTest, FittedScalesMatchTheOriginal) {
  Planted p = Clean(kCt);
  const std::string v = std::string(kAttention) + "v_proj";
  p.part(v + ".weight_global_scale").bytes = FloatBytes({2688 / (0.5f / 3)});
  for (WrittenTensor& t : p.original) {
    if (t.name != v + ".weight") continue;
    for (size_t i = 0; i < t.bytes.size(); i += 2) {
      uint16_t half;
      std::memcpy(&half, &t.bytes[i], 2);
      const float third =
          std::bit_cast<float>(static_cast<uint32_t>(half) << 16) / 3;
      half = static_cast<uint16_t>((std::bit_cast<uint32_t>(third) + 0x8000u) >>
                                   16);
      std::memcpy(&t.bytes[i], &half, 2);
    }
  }
  const Model original = WritePlantedOriginal(At("plain"), p);
  const Outcome out = Mended(WritePlanted(At("q"), p), &original);
  ASSERT_THAT(out.fitted, SizeIs(1));
  EXPECT_GT(out.fitted.front().loss.rounded, 0u);
  EXPECT_THAT(out.left, IsEmpty());
}

TEST_F(RepairTest, RestoresZeroWeightsThatBecameNaN) {
  Planted p = Clean(kMo);
  auto& scales = p.part(kQ + ".weight_scale").bytes;
  std::fill(scales.begin(), scales.end(), std::byte{0xFF});
  auto& codes = p.part(kQ + ".weight").bytes;
  std::fill(codes.begin(), codes.end(), std::byte{0x77});
  p.part(kQ + ".weight_scale_2").bytes = FloatBytes({0});
  const Outcome out = Mended(WritePlanted(At("q"), p));
  // Without the original, lint still reports the zero weight.
  std::vector<std::string_view> rules;
  for (const Finding& f : out.left) rules.push_back(f.rule);
  EXPECT_THAT(rules, UnorderedElementsAre("placeholder-scale", "dead-weight"));
  ASSERT_OK_AND_ASSIGN(const auto mended, Model::Open(At("mended")));
  std::vector<std::byte> bytes(codes.size());
  ASSERT_THAT(
      mended.Read(*mended.Find(kQ + ".weight"), 0, absl::MakeSpan(bytes)),
      IsOk());
  EXPECT_TRUE(std::all_of(bytes.begin(), bytes.end(),
                          [](std::byte b) { return b == std::byte{0}; }));
}

// FP8 and ComfyUI models have other tensor names, configuration keys and
// labels.
TEST_F(RepairTest, RepairsNamesKeysAndLabelsOfOtherDialects) {
  struct Case {
    const char* rule;
    Base base;
    Plant plant;
  };
  const Case cases[] = {
      {"config-mismatch", Base::kDeepSeek,
       [](Planted& p) {
         for (const char* leaf : {"q_proj", "k_proj", "v_proj"}) {
           const std::string scale =
               std::string(kAttention) + leaf + ".weight_scale";
           Rename(&p, scale + "_inv", scale);
         }
       }},
      {"config-mismatch", Base::kDeepSeek,
       Config([](ModelJson& q) { q["scale_fmt"] = "ue8m0"; })},
      {"label", Base::kComfy, Erase(kQ + ".comfy_quant")},
      {"swizzled-scales", Base::kComfy,
       RowByRow({kQ, kK, kV}, /*padded=*/true)},
      {"swizzled-scales", Base::kComfy,
       RowByRow({kQ, kK, kV}, /*padded=*/false)},
      {"unclear-layout", Base::kCompressedTensors,
       [](Planted& p) { p.part(kQ + ".weight_scale").dtype = "U8"; }},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.rule);
    Planted p = CleanOf(c.base);
    WritePlanted(At("clean"), p);
    c.plant(p);
    const Outcome out = Mended(WritePlanted(At("q"), p));
    ASSERT_FALSE(out.plan.repairs.empty());
    EXPECT_EQ(out.plan.repairs.front().rule, c.rule);
    EXPECT_THAT(out.left, IsEmpty());
    EXPECT_GT(LeastDb(At("clean")), 130);
    // The repaired model has no configuration file of another library.
    EXPECT_FALSE(std::filesystem::exists(At("mended/hf_quant_config.json")));
  }
}

// A repair is not reported if lint finds its fault again.
TEST_F(RepairTest, ClaimsOnlyWhatALintNoLongerFinds) {
  Planted p = Clean(kCt);
  Plain(kQ)(p);
  const Outcome out = Mended(WritePlanted(At("q"), p));
  ASSERT_THAT(out.left, SizeIs(1));
  EXPECT_EQ(out.left.front().rule, "fused-in-part");
  const auto mended = checkpoint::Mended(out.plan.repairs, out.left);
  ASSERT_THAT(mended, SizeIs(1));
  EXPECT_EQ(mended.front().rule, "ignore-list");
  EXPECT_THAT(checkpoint::Mended(out.plan.repairs,
                                 {{"ignore-list", mended.front().where, ""}}),
              IsEmpty());
  // Neither a missing input scale nor a missing model_type can be restored
  // without the original.
  Planted inputs = Clean(kMo);
  Inputs({0.001f, 0.001f})(inputs);
  inputs.config.erase("model_type");
  ASSERT_OK_AND_ASSIGN(
      const auto plan,
      PlanRepair(WritePlanted(At("q"), inputs), nullptr, Dialect::kNone));
  EXPECT_THAT(plan.repairs, IsEmpty());
}

TEST_F(RepairTest, KeepsOtherKeysOfTheConfiguration) {
  Planted p = Clean(kCt);
  p.config["quantization_config"]["kv_cache_scheme"] = {{"num_bits", 8}};
  p.config["quantization_config"].erase("ignore");
  Mended(WritePlanted(At("q"), p));
  ASSERT_OK_AND_ASSIGN(const auto mended, Model::Open(At("mended")));
  const Json& q = mended.config()["quantization_config"];
  EXPECT_EQ(q["kv_cache_scheme"]["num_bits"], 8);
  EXPECT_EQ(q["ignore"], Json({"re:.*lm_head$"}));
  EXPECT_EQ(mended.config()["hidden_size"], 64);
}

// Keys are also restored if the model has a string where the original has an
// object.
TEST_F(RepairTest, RestoresTheKeysOfTheOriginal) {
  Planted p = Clean(kCt);
  p.config["rope_scaling"] = {{"rope_type", "llama3"}, {"factor", 8.0}};
  const Model original = WritePlantedOriginal(At("o"), p);
  p.config.erase("rope_theta");
  p.config["rope_scaling"] = "none";
  p.config["num_experts_per_tok"] = 3;
  p.config["tie_word_embeddings"] = true;
  const Model model = WritePlanted(At("q"), p);
  const Outcome out = Mended(model, &original);
  EXPECT_THAT(out.left, IsEmpty());
  ASSERT_OK_AND_ASSIGN(const auto mended, Model::Open(At("mended")));
  const Json& config = mended.config();
  EXPECT_EQ(config["rope_theta"], 10000.0);
  EXPECT_EQ(config["rope_scaling"]["factor"], 8.0);
  EXPECT_EQ(config["num_experts_per_tok"], 2);
  EXPECT_EQ(config["tie_word_embeddings"], false);
  EXPECT_EQ(config["quantization_config"],
            model.config()["quantization_config"]);
  // Keys of another model are not taken.
  Planted other = p;
  for (std::byte& b : other.part(kQ + ".weight_packed").bytes) {
    b ^= std::byte{0x11};
  }
  ASSERT_OK_AND_ASSIGN(const auto plan, PlanRepair(WritePlanted(At("q"), other),
                                                   &original, Dialect::kNone));
  EXPECT_THAT(plan.keys, IsEmpty());
}

TEST_F(RepairTest, InvertsScalesOfActivationsThatAreReciprocals) {
  Planted p = Clean(kMo);
  Inputs({500, 500, 500})(p);
  p.config["quantization_config"].erase("quant_algo");
  const Outcome out = Mended(WritePlanted(At("q"), p));
  EXPECT_THAT(out.left, IsEmpty());
  ASSERT_OK_AND_ASSIGN(const auto mended, Model::Open(At("mended")));
  ASSERT_OK_AND_ASSIGN(const auto numbers,
                       ReadNumbers(mended, *mended.Find(kV + ".input_scale")));
  EXPECT_THAT(numbers, ElementsAre(1 / 500.0f));
}

// Newer files have rope_theta in the object rope_parameters.
TEST_F(RepairTest, RestoresKeysInTheObjectThatTheModelUses) {
  Planted p = Clean(kCt);
  const Model original = WritePlantedOriginal(At("o"), p);
  p.config.erase("rope_theta");
  p.config["rope_parameters"] = {{"rope_type", "yarn"}, {"rope_theta", 5.0}};
  const Outcome out = Mended(WritePlanted(At("q"), p), &original);
  EXPECT_THAT(out.left, IsEmpty());
}

TEST_F(RepairTest, ReportsFaultsThatItCannotRepair) {
  Planted p = Clean(kCt);
  p.tensors.erase(kQ + ".weight_scale");
  const Outcome out = Mended(WritePlanted(At("q"), p));
  EXPECT_THAT(out.plan.repairs, IsEmpty());
  ASSERT_THAT(out.left, SizeIs(1));
  EXPECT_EQ(out.left.front().rule, "missing-scale");
}

TEST_F(RepairTest, DoesNotUseTransposedScales) {
  Planted p = Clean(kCt);
  WrittenTensor& scales = p.tensors[kQ + ".weight_scale"];
  std::swap(scales.shape[0], scales.shape[1]);
  const Outcome out = Mended(WritePlanted(At("q"), p));
  EXPECT_THAT(out.plan.weights, IsEmpty());
  EXPECT_THAT(out.left, Not(IsEmpty()));
}

TEST_F(RepairTest, DoesNotInvertAScaleWithoutBenefit) {
  // The reciprocal of this scale is infinite.
  Planted p = Clean(kCt);
  SetAll(".weight_global_scale", 7e-41f)(p);
  EXPECT_THAT(Mended(WritePlanted(At("q"), p)).plan.weights, IsEmpty());
  // With block scales this small, the reciprocal would be just as wrong.
  p = Clean(kCt);
  SetAll(".weight_global_scale", 0.5f)(p);
  Fill(kQ + ".weight_scale", 0x01)(p);
  const Outcome out = Mended(WritePlanted(At("q"), p));
  for (const auto& repair : out.plan.repairs) EXPECT_NE(repair.where, kQ);
}

}  // namespace
}  // namespace quantd::checkpoint
