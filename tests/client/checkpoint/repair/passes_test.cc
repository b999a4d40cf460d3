// Tests of repairs in several passes, for faults that hide others.
#include <algorithm>

#include "tests/client/checkpoint/fault.h"
#include "tests/client/checkpoint/repair/fixture.h"

namespace quantd::checkpoint {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class RepairPassesTest : public RepairTest {
 protected:
  void Rotate(Planted* p) {
    for (WrittenTensor& t : p->original) {
      if (!t.name.ends_with("_proj.weight")) continue;
      std::rotate(t.bytes.begin(), t.bytes.begin() + 2, t.bytes.end());
    }
  }
};

void Wrap(Planted* p) {
  std::vector<std::string> names;
  for (const auto& [name, t] : p->tensors) names.push_back(name);
  for (const std::string& n : names) Rename(p, n, "_orig_mod." + n);
}
void SwapHalves(Planted* p) {
  for (const std::string& module : {kQ, kK, kV}) {
    for (std::byte& b : p->part(module + ".weight_packed").bytes) {
      b = b >> 4 | b << 4;
    }
  }
}

TEST_F(RepairPassesTest, RepairsFaultsHiddenByOthers) {
  Planted p = Clean(kCt);
  WritePlanted(At("clean"), p);
  const Model original = WritePlantedOriginal(At("o"), p);
  SwapHalves(&p);
  for (const std::string& module : {kQ, kK, kV}) {
    Pad(&p.part(module + ".weight_scale"), true);
  }
  p.config["quantization_config"].erase("ignore");
  Wrap(&p);
  const Outcome out = Mended(WritePlanted(At("q"), p), &original);
  EXPECT_THAT(out.left, IsEmpty());
  EXPECT_GT(LeastDb(At("clean")), 130);
  std::set<std::string> rules;
  for (const Repaired& r : out.repairs) rules.insert(r.rule);
  EXPECT_THAT(rules, ElementsAre("config", "ignore-list", "nibble-order",
                                 "swizzled-scales", "wrapped-names"));
  // Lint without the original finds nothing, either.
  ASSERT_OK_AND_ASSIGN(const auto alone, Lint(*Model::Open(At("mended"))));
  EXPECT_THAT(alone.findings, IsEmpty());
  for (const char* name : {"mended.next", "mended.previous"}) {
    EXPECT_FALSE(std::filesystem::exists(At(name))) << name;
  }
}

TEST_F(RepairPassesTest, KeepsExistingFilesWhereAPassWrites) {
  Planted p = Clean(kCt);
  const Model original = WritePlantedOriginal(At("o"), p);
  SwapHalves(&p);
  Wrap(&p);
  const Model model = WritePlanted(At("q"), p);
  ASSERT_OK_AND_ASSIGN(const auto plan,
                       PlanRepair(model, &original, Dialect::kNone));
  std::filesystem::create_directories(At("mended.next"));
  WriteFile(At("mended.next/mine"), "x");
  EXPECT_THAT(RepairInPasses(model, &original, plan, At("mended")),
              Says(HasSubstr("mended.next: it has files that are not")));
  EXPECT_EQ(ReadFile(At("mended.next/mine")), "x");
  EXPECT_THAT(Model::Open(At("mended")), IsOk());
}

TEST_F(RepairPassesTest, SaysWhenActivationsAreNoLongerQuantized) {
  Planted p = Clean(kMo);
  p.own["quantization"]["quant_algo"] = "NVFP4";
  const Outcome out = Mended(WritePlanted(At("q"), p));
  EXPECT_THAT(out.left, IsEmpty());
  ASSERT_THAT(out.repairs, testing::SizeIs(1));
  EXPECT_THAT(out.repairs.front().text, HasSubstr("W4A4 becomes W4A16"));
  EXPECT_THAT(out.repairs.front().text, HasSubstr("--input-amax"));
}

// Only the original shows whether weights are transformed.
TEST_F(RepairPassesTest, RemovesTransformConfigOnlyIfWeightsAreNotTransformed) {
  Planted p = Clean(kCt);
  Planted turned = Clean(kCt);
  Rotate(&turned);
  const Model original = WritePlantedOriginal(At("o"), p);
  const Model another = WritePlantedOriginal(At("turned"), turned);
  p.config["quantization_config"].erase("ignore");
  p.config["quantization_config"]["transform_config"] = {
      {"config_groups", {{"R4", {1}}}}};
  const Model model = WritePlanted(At("q"), p);
  const std::vector<const Model*> truths = {nullptr, &another, &original};
  for (const Model* truth : truths) {
    const Outcome out = Mended(model, truth);
    ASSERT_OK_AND_ASSIGN(const auto mended, Model::Open(At("mended")));
    const Json& q = mended.config()["quantization_config"];
    EXPECT_EQ(q["ignore"], Json({"re:.*lm_head$"}));
    EXPECT_EQ(q["transform_config"].empty(), truth == &original);
    EXPECT_EQ(out.left.empty(), truth == &original);
  }
}

TEST_F(RepairPassesTest, SwapsTheNibblesOfStackedExperts) {
  MadeStack stack;
  stack.WriteOriginal(At("o"));
  const auto clean = stack.blocks;
  for (std::byte& b : stack.blocks) b = b >> 4 | b << 4;
  stack.Write(At("q"));
  const Model original = *Model::Open(At("o"));
  const Outcome out = Mended(*Model::Open(At("q")), &original);
  ASSERT_FALSE(out.repairs.empty());
  EXPECT_EQ(out.repairs.front().rule, "nibble-order");
  EXPECT_THAT(out.left, Each(Field(&Finding::rule, Not("nibble-order"))));
  ASSERT_OK_AND_ASSIGN(const auto mended, Model::Open(At("mended")));
  const auto* t = mended.Find(std::string(MadeStack::kName) + "_blocks");
  ASSERT_NE(t, nullptr);
  EXPECT_THAT(t->stored.shape, ElementsAre(3, 64, 2, 16));
  std::vector<std::byte> bytes(t->stored.size);
  ASSERT_THAT(mended.Read(*t, 0, absl::MakeSpan(bytes)), IsOk());
  EXPECT_TRUE(bytes == clean);
}

// Wrong metadata for all layers is replaced by a label tensor for each layer.
TEST_F(RepairPassesTest, ReplacesWrongComfyMetadataByLabels) {
  for (const char* text : {"{", R"({"layers": {}})",
                           R"({"layers": {"x": {"format": "nvfp4"}}})"}) {
    Planted p = CleanOf(Base::kComfy);
    const Model original = WritePlantedOriginal(At("o"), p);
    WritePlanted(At("clean"), p);
    WritePlanted(At("q"), p);
    PutComfyMetadata(At("q"), text);
    const Outcome out = Mended(*Model::Open(At("q")), &original);
    EXPECT_THAT(out.left, IsEmpty());
    EXPECT_GT(LeastDb(At("clean")), 130);
    ASSERT_OK_AND_ASSIGN(const auto mended, Model::Open(At("mended")));
    EXPECT_EQ(
        mended.shards().front().file.metadata().count("_quantization_metadata"),
        0u);
    for (const std::string& module : {kQ, kK, kV}) {
      EXPECT_NE(mended.Find(module + ".comfy_quant"), nullptr) << module;
    }
  }
}

TEST_F(RepairPassesTest, RemovesUnusedPartsOfTheConfiguration) {
  Planted p = Clean(kCt);
  p.config["quantization_config"]["sparsity_config"] = {
      {"format", "sparse-24-bitmask"}};
  Outcome out = Mended(WritePlanted(At("q"), p));
  EXPECT_THAT(out.left, IsEmpty());
  auto mended = Model::Open(At("mended"));
  ASSERT_THAT(mended, IsOk());
  EXPECT_FALSE(
      mended->config()["quantization_config"].contains("sparsity_config"));
  // The whole quantization_config is removed if no weight is quantized.
  for (const std::string& module : {kQ, kK, kV}) Plain(module)(p);
  WritePlanted(At("q"), p);
  WriteFile(At("q/hf_quant_config.json"),
            R"({"quantization": {"quant_algo": "NVFP4"}})");
  out = Mended(*Model::Open(At("q")));
  ASSERT_EQ(out.left.size(), 1u);
  EXPECT_EQ(out.left[0].rule, kNothing);
  mended = Model::Open(At("mended"));
  ASSERT_THAT(mended, IsOk());
  EXPECT_FALSE(mended->config().contains("quantization_config"));
  EXPECT_EQ(mended->config()["hidden_size"], 64);
  EXPECT_FALSE(std::filesystem::exists(At("mended/hf_quant_config.json")));
  EXPECT_TRUE(std::filesystem::exists(At("mended/tokenizer.json")));
}

TEST_F(RepairPassesTest, RepairsGlobalScalesThatAreTheAmax) {
  for (const Nvfp4Names names : {kCt, kMo}) {
    Planted p = Clean(names);
    WritePlanted(At("clean"), p);
    const Model original = WritePlantedOriginal(At("o"), p);
    SetAll(names == kCt ? ".weight_global_scale" : ".weight_scale_2", 0.5f)(p);
    const Outcome out = Mended(WritePlanted(At("q"), p), &original);
    EXPECT_THAT(out.left, IsEmpty());
    EXPECT_GT(LeastDb(At("clean")), 130);
  }
  // 1 may be a placeholder, and 12 may be 6 divided by the weight's amax.
  for (const float global : {1.0f, 12.0f}) {
    Planted p = Clean(kCt);
    SetAll(".weight_global_scale", global)(p);
    for (const Repaired& r : Mended(WritePlanted(At("q"), p)).repairs) {
      EXPECT_THAT(r.text, Not(HasSubstr("weight's amax"))) << global;
    }
  }
}

TEST_F(RepairPassesTest, SetsTheQuantMethodOfGptOssStacks) {
  MadeStack stack;
  stack.Write(At("q"));
  ModelJson config = ModelJson::parse(ReadFile(At("q/config.json")));
  config["quantization_config"]["quant_method"] = "fp8";
  WriteFile(At("q/config.json"), config.dump());
  const Outcome out = Mended(*Model::Open(At("q")));
  ASSERT_OK_AND_ASSIGN(const auto mended, Model::Open(At("mended")));
  EXPECT_EQ(mended.config()["quantization_config"]["quant_method"], "mxfp4");
  for (const Finding& f : out.left) {
    EXPECT_NE(f.rule, "config-mismatch") << f.text;
  }
}

TEST_F(RepairPassesTest, SetsTheFormatMetadataToPt) {
  WritePlanted(At("q"), Clean(kCt));
  PutMetadata(At("q"), {{"format", "np"}, {"made", "by hand"}});
  const Outcome out = Mended(*Model::Open(At("q")));
  EXPECT_THAT(out.left, IsEmpty());
  ASSERT_OK_AND_ASSIGN(const auto mended, Model::Open(At("mended")));
  const auto& metadata = mended.shards().front().file.metadata();
  EXPECT_EQ(metadata.at("format"), "pt");
  EXPECT_EQ(metadata.at("made"), "by hand");
}

// Without configuration and labels, the layers are recognized by their scales.
TEST_F(RepairPassesTest, RestoresTheLabelsOfAllLayers) {
  Planted p = CleanOf(Base::kComfy);
  WritePlanted(At("clean"), p);
  WritePlantedOriginal(At("o"), p);
  for (const std::string& module : {kQ, kK, kV}) {
    p.tensors.erase(module + ".comfy_quant");
  }
  WritePlanted(At("q"), p);
  for (const char* folder : {"q/", "o/"}) {
    std::filesystem::remove(At(folder) + "config.json");
  }
  const Model original = *Model::Open(At("o"));
  for (const Model* truth : {static_cast<const Model*>(nullptr), &original}) {
    const Outcome out = Mended(*Model::Open(At("q")), truth);
    EXPECT_THAT(out.left, IsEmpty());
    EXPECT_GT(LeastDb(At("clean")), 130);
  }
}

TEST_F(RepairPassesTest, ReplacesTheNaNScaleOfAZeroBlock) {
  for (const Nvfp4Names names : {kCt, kMo}) {
    Planted p = Clean(names);
    auto& scales = p.part(kQ + ".weight_scale").bytes;
    auto& codes =
        p.part(kQ + (names == kCt ? ".weight_packed" : ".weight")).bytes;
    // Zeros of both signs under the third scale, other numbers under the ninth.
    std::fill(codes.begin() + 16, codes.begin() + 24, std::byte{0x80});
    codes[64] = std::byte{0x11};
    scales[2] = std::byte{0x7F};
    EXPECT_THAT(Mended(WritePlanted(At("q"), p)).left, IsEmpty());
    ASSERT_OK_AND_ASSIGN(const auto mended, Model::Open(At("mended")));
    const ModelTensor& t = *mended.Find(kQ + ".weight_scale");
    std::vector<std::byte> there(t.stored.size);
    ASSERT_THAT(mended.Read(t, 0, absl::MakeSpan(there)), IsOk());
    scales[2] = std::byte{0x38};
    EXPECT_TRUE(there == scales);
    // The NaN scale of a block with other numbers is not guessed.
    scales[8] = std::byte{0x7F};
    const Outcome out = Mended(WritePlanted(At("q"), p));
    EXPECT_THAT(out.repairs, IsEmpty());
    ASSERT_FALSE(out.left.empty());
    EXPECT_EQ(out.left.front().rule, "bad-scale");
  }
}

// A large amax that 16 bits can hold shows that the global scale is right. For
// other amaxes, which fp32 weights have, only the original does.
TEST_F(RepairTest, KeepsRightScalesOfLargeWeights) {
  // 2688 / 3000 in bf16, and numbers that must be reciprocals.
  EXPECT_FALSE(IsReciprocal(Global::kDivisor, 0.890625f, false));
  EXPECT_TRUE(IsReciprocal(Global::kMultiplier, 2688 / 0.37109375f, false));
  EXPECT_TRUE(IsReciprocal(Global::kDivisor, 0.37109375f / 2688, false));
  for (const Nvfp4Names names : {kCt, kMo}) {
    for (const float amax : {3000.0f, 999424.0f, 1234567.0f, 1e36f}) {
      SCOPED_TRACE(amax);
      const Planted p = Clean(names, amax);
      const Model model = WritePlanted(At("q"), p);
      const Model original = WritePlantedOriginal(At("o"), p);
      for (const Model* truth : {(const Model*)nullptr, &original}) {
        if (truth == nullptr && amax > 1e6f) continue;
        ASSERT_OK_AND_ASSIGN(const auto plan,
                             PlanRepair(model, truth, Dialect::kNone));
        EXPECT_THAT(plan.repairs, testing::IsEmpty());
        ASSERT_OK_AND_ASSIGN(const auto linted, Lint(model, truth));
        for (const Finding& f : linted.findings) EXPECT_NE(f.rule, "divisor");
      }
    }
  }
}

// Quark stores an FP8 weight in tensors with the same names as ModelOpt.
TEST_F(RepairTest, LeavesModelsOfQuarkAsTheyAre) {
  Planted p = CleanOf(Base::kFp8);
  p.config["quantization_config"] = {{"quant_method", "quark"},
                                     {"exclude", {"lm_head"}}};
  for (const char* leaf : {"q_proj", "k_proj", "v_proj"}) {
    p.part(std::string(kAttention) + leaf + ".weight_scale").shape = {};
  }
  const Model model = WritePlanted(At("q"), p);
  ASSERT_OK_AND_ASSIGN(const auto linted, Lint(model));
  for (const Finding& f : linted.findings) EXPECT_NE(f.rule, "dialect");
  ASSERT_OK_AND_ASSIGN(const auto plan,
                       PlanRepair(model, nullptr, Dialect::kNone));
  EXPECT_THAT(plan.repairs, testing::IsEmpty());

  Planted four = CleanOf(Base::kCompressedTensors);
  four.config["quantization_config"] = p.config["quantization_config"];
  const auto guess =
      GuessWeight(WritePlanted(At("four"), four),
                  std::string(kAttention) + "q_proj", Dialect::kNone);
  EXPECT_THAT(guess, Refused(testing::HasSubstr("Quark")));
}

}  // namespace
}  // namespace quantd::checkpoint
