// Tests that experts are quantized if engines load quantized ones, and are
// otherwise reported as unquantized.
#include <map>

#include "client/checkpoint/anatomy/role.h"
#include "client/checkpoint/convert/conversion.h"
#include "tests/client/checkpoint/anatomy/unclear_fixture.h"
#include "tests/client/checkpoint/quantized_writer.h"

namespace quantd::checkpoint {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;

using StacksTest = UnclearTest;

TEST_F(StacksTest, StacksAreQuantizedOrReported) {
  const std::string l = "model.layers.0.";
  const std::string moe = l + "block_sparse_moe.";
  ASSERT_OK_AND_ASSIGN(
      const auto granite,
      Plan({Bf16(moe + "input_linear.weight", {3, 64, 128}),
            Bf16(moe + "output_linear.weight", {3, 128, 32})}));
  EXPECT_EQ(granite.weights(), 14u + 9u);
  bool found = false;
  for (const FusedWeights& group : granite.groups) {
    for (const Weight& w : group.weights) {
      found |= w.module == moe + "experts.2.up_proj" && w.rows == 32;
    }
  }
  EXPECT_TRUE(found);
  ModelJson config = LlamaConfig();
  config["model_type"] = "step3p5";
  ASSERT_OK_AND_ASSIGN(
      const auto step,
      Plan({Bf16(l + "moe.gate_proj.weight", {3, 32, 128})}, {}, config));
  EXPECT_EQ(step.groups.back().weights.front().module,
            l + "moe.experts.2.gate_proj");
  for (const char* name :
       {"moe.gate_proj.weight", "mlp.experts.fc1.weight", "mlp.experts.mlp.w1",
        "mlp.input_linear.weight", "moe_layer.mlp.w1.weight"}) {
    SCOPED_TRACE(name);
    const bool flat = std::string(name).ends_with("mlp.w1");
    ASSERT_OK_AND_ASSIGN(
        const auto plan,
        Plan({Bf16(l + name, flat ? std::vector<int64_t>{96, 128}
                                  : std::vector<int64_t>{3, 32, 128})}));
    const LeftOut* left = Left(plan, ModuleOf(l + name));
    ASSERT_NE(left, nullptr);
    EXPECT_EQ(left->role, Role::kLinear);
    EXPECT_EQ(left->kind, "stacks of experts");
    EXPECT_THAT(plan.notes, Contains(HasSubstr("% of the model")));
  }
  // Convolution kernels are not stacks, and are listed as left out.
  ASSERT_OK_AND_ASSIGN(
      const auto conv,
      Plan({Bf16(l + "linear_attn.conv1d.weight", {32, 1, 4})}));
  EXPECT_THAT(Left(conv, l + "linear_attn.conv1d")->kind,
              HasSubstr("not matrices"));
  EXPECT_TRUE(conv.notes.empty());
  EXPECT_THAT(ConfigFiles(model_, conv).back().text,
              testing::Not(HasSubstr("experts")));
}

// Switch Transformers and NLLB name each expert's module "expert_N".
TEST_F(StacksTest, RecognizesExpertsNamedWithAWordBeforeTheNumber) {
  const std::string ffn = "model.layers.0.ffn.";
  ASSERT_OK_AND_ASSIGN(
      const auto plan,
      Plan({Bf16(ffn + "experts.expert_0.fc1.weight", {64, 128}),
            Bf16(ffn + "experts.expert_1.fc1.weight", {64, 128})},
           {.format = WeightFormat::kFp8Dynamic}));
  EXPECT_EQ(plan.weights(), 14u);
  EXPECT_THAT(plan.notes, Contains(HasSubstr("no engine is known")));
  EXPECT_THAT(ConfigFiles(model_, plan).back().text,
              HasSubstr(R"("re:.*\\.experts\\..*")"));
}

TEST_F(StacksTest, OrientationOfASquareStackFollowsItsSiblings) {
  const std::string e = "model.layers.0.mlp.experts.";
  const std::string other = "model.layers.1.mlp.experts.";
  const WrittenTensor square = Bf16(e + "down_proj", {3, 128, 128});
  const auto turned = [&](const std::string& sibling, bool input_first) {
    const auto plan =
        Plan({square, Bf16(sibling + "gate_up_proj",
                           input_first ? std::vector<int64_t>{3, 128, 256}
                                       : std::vector<int64_t>{3, 256, 128})});
    EXPECT_THAT(plan, IsOk());
    for (const FusedWeights& group : plan->groups) {
      for (const Weight& w : group.weights) {
        if (w.module == e + "1.down_proj") return w.transposed ? 1 : 0;
      }
    }
    return -1;
  };
  for (const std::string& sibling : {e, other}) {
    EXPECT_EQ(turned(sibling, true), 1);
    EXPECT_EQ(turned(sibling, false), 0);
  }
  ASSERT_OK_AND_ASSIGN(const auto alone, Plan({square}));
  ASSERT_NE(Left(alone, e + "down_proj"), nullptr);
  EXPECT_THAT(Left(alone, e + "down_proj")->reason,
              HasSubstr("N x K or K x N"));
  ModelJson config = LlamaConfig();
  config["model_type"] = "gpt_oss";
  ASSERT_OK_AND_ASSIGN(const auto listed, Plan({square}, {}, config));
  EXPECT_EQ(listed.weights(), 14u + 3u);
}

TEST_F(StacksTest, ExpertsWithUnsupportedNamesAreLeftOut) {
  const std::string e = "model.layers.0.moe_block.experts.";
  ASSERT_OK_AND_ASSIGN(const auto grok,
                       Plan({Bf16(e + "0.linear.weight", {64, 128}),
                             Bf16(e + "0.linear_v.weight", {64, 128}),
                             Bf16(e + "0.linear_1.weight", {128, 64})}));
  EXPECT_EQ(grok.weights(), 14u);
  ASSERT_NE(Left(grok, e + "0.linear_1"), nullptr);
  EXPECT_EQ(Left(grok, e + "0.linear_1")->kind,
            "experts that no engine is known to support quantized");
  EXPECT_THAT(grok.notes, Contains(HasSubstr("% of the model")));
  EXPECT_THAT(ConfigFiles(model_, grok).back().text,
              HasSubstr(R"("re:.*\\.experts\\..*")"));
  ASSERT_OK_AND_ASSIGN(const auto taken,
                       PlanAgain({.include = {"*.experts.*"}}));
  EXPECT_EQ(taken.weights(), 17u);
  ModelJson config = LlamaConfig();
  config["model_type"] = "arctic";
  const std::string a = "model.layers.0.block_sparse_moe.experts.0.w1";
  ASSERT_OK_AND_ASSIGN(const auto arctic,
                       Plan({Bf16(a + ".weight", {64, 128})}, {}, config));
  EXPECT_NE(Left(arctic, a), nullptr);
}

TEST_F(StacksTest, GptOssDialectNeedsAGptOssModel) {
  const Selection gpt_oss = {.dialect = Dialect::kGptOss,
                             .format = WeightFormat::kMxfp4};
  ModelJson config = LlamaConfig();
  const auto plan = [&] {
    return Plan({Bf16("model.layers.0.mlp.experts.down_proj", {3, 64, 128})},
                gpt_oss, config);
  };
  EXPECT_THAT(Error(plan()),
              AllOf(HasSubstr("llama"), HasSubstr("--dialect compressed")));
  config["model_type"] = "gpt_oss";
  EXPECT_THAT(plan(), IsOk());
}

// Llama 4's class in transformers does not join single experts to stacks.
TEST_F(StacksTest, DecodedExpertsAreTheStacksThatTheClassHas) {
  const std::string experts = "model.layers.0.feed_forward.experts";
  std::vector<WrittenTensor> tensors;
  std::map<std::string, std::vector<std::byte>> want;
  const auto put = [&](const std::string& stack, const char* leaf, int expert,
                       int64_t rows, int64_t cols, int64_t all, int64_t at) {
    const MadeNvfp4 made =
        MakeNvfp4(fmt::format("{}.{}.{}", experts, expert, leaf), rows, cols,
                  Nvfp4Names::kCompressedTensors, 0.1f + expert);
    tensors.insert(tensors.end(), made.parts.begin(), made.parts.end());
    std::vector<std::byte>& bytes = want[stack];
    bytes.resize(static_cast<size_t>(2 * cols * all * 2));
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < cols; ++j) {
        const int64_t to = (expert * cols + j) * all + at + i;
        std::memcpy(&bytes[static_cast<size_t>(2 * to)],
                    &made.plain.bytes[static_cast<size_t>(2 * (i * cols + j))],
                    2);
      }
    }
  };
  for (const int e : {0, 1}) {
    put("gate_up_proj", "up_proj", e, 32, 64, 64, 32);
    put("gate_up_proj", "gate_proj", e, 32, 64, 64, 0);
    put("down_proj", "down_proj", e, 64, 32, 64, 0);
  }
  ModelJson config = LlamaConfig();
  config["model_type"] = "llama4_text";
  WriteModel(dir_ / "q", config, {tensors});
  ASSERT_OK_AND_ASSIGN(const auto model, Model::Open(dir_ / "q"));
  ASSERT_OK_AND_ASSIGN(
      const auto plan,
      MakeConversionPlan(
          model, {.dialect = Dialect::kNone, .format = WeightFormat::kBf16}));
  EXPECT_EQ(plan.weights(), 6u);
  EXPECT_FALSE(plan.experts_apart);
  ASSERT_THAT(Convert({model, plan}, dir_ / "plain"), IsOk());
  ASSERT_OK_AND_ASSIGN(const auto plain, Model::Open(dir_ / "plain"));
  EXPECT_EQ(plain.tensors().size(), 2u);
  for (const auto& [name, bytes] : want) {
    const ModelTensor* t = plain.Find(experts + "." + name);
    ASSERT_NE(t, nullptr) << name;
    EXPECT_EQ(t->stored.shape,
              (std::vector<int64_t>{2, name == "down_proj" ? 32 : 64, 64}));
    std::vector<std::byte> there(t->stored.size);
    ASSERT_THAT(plain.Read(*t, 0, absl::MakeSpan(there)), IsOk());
    EXPECT_TRUE(there == bytes) << name;
  }
}

// transformers transposes a stack of Qwen3-VL only if its shape asks for it.
TEST_F(StacksTest, LeavesDecodedExpertsApartWhoseStackWouldBeSquare) {
  ModelJson config = LlamaConfig();
  config["model_type"] = "qwen3_vl_moe_text";
  for (const int64_t rows : {32, 48}) {
    std::vector<WrittenTensor> tensors;
    for (const char* leaf : {"gate_proj", "up_proj"}) {
      const MadeNvfp4 made =
          MakeNvfp4(std::string("model.layers.0.mlp.experts.0.") + leaf, rows,
                    64, Nvfp4Names::kCompressedTensors);
      tensors.insert(tensors.end(), made.parts.begin(), made.parts.end());
    }
    ASSERT_OK_AND_ASSIGN(const auto plan, Plan(tensors,
                                               {.dialect = Dialect::kNone,
                                                .format = WeightFormat::kBf16},
                                               config));
    EXPECT_EQ(plan.experts_apart, rows == 32);
  }
}

}  // namespace
}  // namespace quantd::checkpoint
