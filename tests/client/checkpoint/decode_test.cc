// Tests of the conversion of quantized checkpoints to bf16, without a server,
// against the oracle's numbers.
#include <bit>

#include "client/checkpoint/convert/conversion.h"
#include "client/checkpoint/plan.h"
#include "tests/client/checkpoint/model_fixture.h"
#include "tests/client/checkpoint/quantized_writer.h"

namespace quantd::checkpoint {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class DecodeTest : public ModelFixture {
 protected:
  // Converts the model in "q" to bf16 in "plain", without a server.
  absl::Status Decode() {
    const auto model = Model::Open(At("q"));
    if (!model.ok()) return model.status();
    const auto plan = MakeConversionPlan(
        *model, {.dialect = Dialect::kNone, .format = WeightFormat::kBf16});
    if (!plan.ok()) return plan.status();
    return Convert({*model, *plan}, At("plain")).status();
  }
  static std::vector<std::byte> BytesOf(const Model& model,
                                        const std::string& name) {
    const ModelTensor* t = model.Find(name);
    std::vector<std::byte> bytes(t == nullptr ? 0 : t->stored.size);
    if (t != nullptr) {
      EXPECT_THAT(model.Read(*t, 0, absl::MakeSpan(bytes)), IsOk());
    }
    return bytes;
  }
};

TEST_F(DecodeTest, Nvfp4OfBothLibrariesDecodesLikeTheOracle) {
  for (const Nvfp4Names names :
       {Nvfp4Names::kCompressedTensors, Nvfp4Names::kModelOpt}) {
    std::filesystem::remove_all(At("q"));
    std::filesystem::remove_all(At("plain"));
    std::vector<WrittenTensor> tensors;
    std::vector<WrittenTensor> want;
    for (const char* leaf : {"q_proj", "down_proj"}) {
      const MadeNvfp4 made = MakeNvfp4(std::string("model.layers.0.x.") + leaf,
                                       48, 96, names, 0.37f);
      tensors.insert(tensors.end(), made.parts.begin(), made.parts.end());
      want.push_back(made.plain);
    }
    want.push_back(Bf16("model.norm.weight", {96}));
    tensors.push_back(want.back());
    ModelJson config = LlamaConfig();
    config["quantization_config"] =
        names == Nvfp4Names::kModelOpt ? ModelJson{{"quant_method", "modelopt"}}
                                       : CompressedTensorsJson();
    WriteModel(At("q"), config, {tensors});
    WriteFile(At("q/hf_quant_config.json"), "{}");
    ASSERT_THAT(Decode(), IsOk());
    ASSERT_OK_AND_ASSIGN(const auto plain, Model::Open(At("plain")));
    EXPECT_EQ(plain.tensors().size(), 3u);
    for (const WrittenTensor& t : want) {
      ASSERT_NE(plain.Find(t.name), nullptr) << t.name;
      EXPECT_EQ(plain.Find(t.name)->stored.shape, t.shape);
      EXPECT_TRUE(BytesOf(plain, t.name) == t.bytes) << t.name;
    }
    EXPECT_FALSE(plain.config().contains("quantization_config"));
    EXPECT_EQ(plain.model_type(), "llama");
    EXPECT_FALSE(std::filesystem::exists(At("plain/hf_quant_config.json")));
    EXPECT_THAT(plain.others(), ElementsAre("tokenizer.json"));
  }
}

// The product of code and scale is rounded to bf16 only once. The decoders of
// ModelOpt and compressed-tensors round the scale, too, or an fp32 product.
TEST_F(DecodeTest, RoundsCodeTimesScaleOnce) {
  std::mt19937 random(5);
  constexpr int64_t kRows = 256;
  constexpr int64_t kCols = 128;
  WrittenTensor codes = {"a.weight", "F8_E4M3", {kRows, kCols}, {}};
  WrittenTensor one = {"b.weight", "F8_E4M3", {kRows, kCols}, {}};
  for (int64_t i = 0; i < kRows * kCols; ++i) {
    const auto code = static_cast<uint8_t>(i % 0x7F | (i & 1 ? 0x80 : 0));
    codes.bytes.push_back(static_cast<std::byte>(code));
  }
  one.bytes = codes.bytes;
  std::vector<float> scales;
  for (int64_t i = 0; i < kRows; ++i) {
    scales.push_back(std::ldexp(static_cast<float>(random() % 0x800000), -32));
  }
  // 15 times this scale is slightly more than the midpoint between two bf16
  // numbers.
  scales[7] = std::ldexp(10940143.0f, -30);
  ModelJson config = LlamaConfig();
  config["quantization_config"] = {{"quant_method", "modelopt"},
                                   {"quant_algo", "FP8"}};
  WriteModel(At("q"), config,
             {{codes,
               {"a.weight_scale", "F32", {kRows, 1}, FloatBytes(scales)},
               one,
               {"b.weight_scale", "F32", {}, FloatBytes({0.0123456f})}}});
  ASSERT_THAT(Decode(), IsOk());
  ASSERT_OK_AND_ASSIGN(const auto plain, Model::Open(At("plain")));
  const auto far = [](uint16_t bits, double truth) {
    return std::abs(std::bit_cast<float>(uint32_t{bits} << 16) - truth);
  };
  for (const char* name : {"a.weight", "b.weight"}) {
    const auto got = BytesOf(plain, name);
    ASSERT_EQ(got.size(), codes.bytes.size() * 2);
    size_t wrong = 0;
    for (size_t i = 0; i < codes.bytes.size(); ++i) {
      const float scale = name[0] == 'a' ? scales[i / kCols] : 0.0123456f;
      const double truth =
          double{oracle::E4m3Value(static_cast<uint8_t>(codes.bytes[i]))} *
          scale;
      uint16_t bits = 0;
      std::memcpy(&bits, got.data() + 2 * i, 2);
      const double here = far(bits, truth);
      const double above = far(static_cast<uint16_t>(bits + 1), truth);
      const double below =
          bits & 0x7FFF ? far(static_cast<uint16_t>(bits - 1), truth) : above;
      const double next = std::min(above, below);
      wrong += here > next || (here == next && bits % 2 != 0);
    }
    EXPECT_EQ(wrong, 0) << name;
  }
}

TEST_F(DecodeTest, DecodesFp8BlocksMxAndStacks) {
  std::mt19937 random(3);
  const auto bytes = [&](size_t count, int least, int most) {
    std::vector<std::byte> b(count);
    for (std::byte& x : b) {
      x = static_cast<std::byte>(least + random() % (most - least + 1));
    }
    return b;
  };
  const auto at = [](const WrittenTensor& t, int64_t i) {
    return static_cast<uint8_t>(t.bytes[static_cast<size_t>(i)]);
  };
  // FP8 blocks of 128 x 128 with half a block at the edge, as in DeepSeek's
  // models.
  const WrittenTensor block = {
      "a.weight", "F8_E4M3", {192, 256}, bytes(192 * 256, 0, 0x7E)};
  const std::vector<float> scales = {0.5f, 0.25f, 3, 0.1f};
  const WrittenTensor block_scale = {
      "a.weight_scale_inv", "F32", {2, 2}, FloatBytes(scales)};
  // Two stacked experts of gpt-oss, N = 6, K = 64.
  const WrittenTensor codes = {"mlp.experts.down_proj_blocks",
                               "U8",
                               {2, 6, 2, 16},
                               bytes(2 * 6 * 32, 0, 255)};
  const WrittenTensor powers = {"mlp.experts.down_proj_scales",
                                "U8",
                                {2, 6, 2},
                                bytes(2 * 6 * 2, 118, 130)};
  ModelJson config = LlamaConfig();
  config["quantization_config"] = {{"quant_method", "fp8"}};
  WriteModel(At("q"), config, {{block, block_scale, codes, powers}});
  ASSERT_THAT(Decode(), IsOk());
  const auto plain = Model::Open(At("plain"));
  ASSERT_THAT(plain, IsOk());
  std::vector<float> want;
  for (int64_t i = 0; i < 192 * 256; ++i) {
    const int64_t row = i / 256 / 128, column = i % 256 / 128;
    want.push_back(oracle::E4m3Value(at(block, i)) *
                   scales[static_cast<size_t>(row * 2 + column)]);
  }
  const auto equal = [&](const std::string& name) {
    const auto bits = oracle::FromValues(oracle::Element::kBF16, want);
    const auto got = BytesOf(*plain, name);
    return got.size() == bits.size() &&
           std::memcmp(got.data(), bits.data(), bits.size()) == 0;
  };
  EXPECT_TRUE(equal("a.weight"));
  // The decoded stack is transposed to K x N, as the plain model stores it.
  EXPECT_THAT(plain->Find("mlp.experts.down_proj")->stored.shape,
              ElementsAre(2, 64, 6));
  want.clear();
  for (int64_t e = 0; e < 2; ++e) {
    for (int64_t k = 0; k < 64; ++k) {
      for (int64_t n = 0; n < 6; ++n) {
        const int64_t i = (e * 6 + n) * 64 + k;
        const int pair = at(codes, i / 2);
        want.push_back(oracle::E2m1Value(static_cast<uint8_t>(
                           i % 2 == 0 ? pair & 0xF : pair >> 4)) *
                       oracle::E8m0Value(at(powers, i / 32)));
      }
    }
  }
  EXPECT_TRUE(equal("mlp.experts.down_proj"));
}

// A block of zeros decodes to zeros even if its scale is NaN. In other blocks a
// NaN scale is an error.
TEST_F(DecodeTest, DecodesZerosWithANaNScaleToZeros) {
  MadeNvfp4 made = MakeNvfp4("model.layers.0.x.q_proj", 32, 64,
                             Nvfp4Names::kCompressedTensors);
  auto& codes = made.parts[0].bytes;
  auto& scales = made.parts[1].bytes;
  std::fill(codes.begin() + 8, codes.begin() + 16, std::byte{0x08});
  scales[1] = std::byte{0x7F};
  // 128 x 128 blocks; the scale of the second is NaN.
  const float nan = std::numeric_limits<float>::quiet_NaN();
  WrittenTensor squares = {"a.weight", "F8_E4M3", {192, 256}, {}};
  squares.bytes.assign(192 * 256, std::byte{0x38});
  for (size_t i = 0; i < squares.bytes.size(); ++i) {
    const bool zero = i / 256 < 128 && i % 256 >= 128;
    if (zero) squares.bytes[i] = std::byte{0x80};
  }
  const WrittenTensor scale = {
      "a.weight_scale_inv", "F32", {2, 2}, FloatBytes({2, nan, 3, 4})};
  made.parts.push_back(squares);
  made.parts.push_back(scale);
  WriteModel(At("q"), LlamaConfig(), {made.parts});
  ASSERT_THAT(Decode(), IsOk());
  ASSERT_OK_AND_ASSIGN(const auto plain, Model::Open(At("plain")));
  const auto at = [](const std::vector<std::byte>& bytes, size_t i) {
    uint16_t bits = 0;
    std::memcpy(&bits, bytes.data() + 2 * i, 2);
    return std::bit_cast<float>(uint32_t{bits} << 16);
  };
  const auto small = BytesOf(plain, "model.layers.0.x.q_proj.weight");
  for (size_t i = 16; i < 32; ++i) EXPECT_EQ(at(small, i), 0) << i;
  const auto large = BytesOf(plain, "a.weight");
  EXPECT_EQ(at(large, 0), 2);
  EXPECT_EQ(at(large, 128), 0);
  EXPECT_EQ(at(large, 127 * 256 + 255), 0);
  EXPECT_EQ(at(large, 128 * 256), 3);
  std::filesystem::remove_all(At("plain"));
  made.parts.back().bytes = FloatBytes({2, nan, nan, 4});
  WriteModel(At("q"), LlamaConfig(), {made.parts});
  EXPECT_THAT(Decode(), Refused(HasSubstr("NaN at row 128, column 0")));
}

// Block scales stored as E8M0, also under DeepSeek's own name.
TEST_F(DecodeTest, DecodesBlockScalesInE8M0) {
  struct Case {
    const char* name;
    const char* dtype;
  };
  for (const Case& c :
       {Case{".weight_scale_inv", "F8_E8M0"}, Case{".weight_scale_inv", "U8"},
        Case{".scale", "F8_E8M0"}, Case{".scale", "F32"}}) {
    SCOPED_TRACE(std::string(c.name) + " " + c.dtype);
    std::filesystem::remove_all(At("q"));
    std::filesystem::remove_all(At("plain"));
    WrittenTensor codes = {"a.weight", "F8_E4M3", {192, 256}, {}};
    codes.bytes.assign(192 * 256, std::byte{0x3C});  // 1.5
    WrittenTensor scales = {std::string("a") + c.name, c.dtype, {2, 2}, {}};
    scales.bytes = std::string_view(c.dtype) == "F32"
                       ? FloatBytes({1, 2, 0.5f, 0.25f})
                       : std::vector<std::byte>{std::byte{127}, std::byte{128},
                                                std::byte{126}, std::byte{125}};
    ModelJson config = LlamaConfig();
    config["quantization_config"] = {{"quant_method", "fp8"},
                                     {"scale_fmt", "ue8m0"}};
    WriteModel(At("q"), config, {{codes, scales}});
    ASSERT_THAT(Decode(), IsOk());
    ASSERT_OK_AND_ASSIGN(const auto plain, Model::Open(At("plain")));
    EXPECT_EQ(plain.tensors().size(), 1u);
    std::vector<float> want;
    for (int64_t i = 0; i < 192 * 256; ++i) {
      want.push_back(1.5f * (i / 256 < 128 ? (i % 256 < 128 ? 1 : 2)
                                           : (i % 256 < 128 ? 0.5f : 0.25f)));
    }
    const auto bits = oracle::FromValues(oracle::Element::kBF16, want);
    const auto got = BytesOf(plain, "a.weight");
    ASSERT_EQ(got.size(), bits.size());
    EXPECT_EQ(std::memcmp(got.data(), bits.data(), bits.size()), 0);
  }
}

// There are more scales than the decoder holds at once.
TEST_F(DecodeTest, AppliesEachOfManyBlockScalesToItsRows) {
  constexpr int64_t kRows = 1100;
  constexpr int64_t kCols = 2048;
  std::mt19937 random(9);
  WrittenTensor codes = {"a.weight", "F8_E4M3", {kRows, kCols}, {}};
  WrittenTensor scales = {"a.weight_scale", "U8", {kRows, kCols / 32}, {}};
  for (int64_t i = 0; i < kRows * kCols; ++i) {
    codes.bytes.push_back(static_cast<std::byte>(random() % 0x7F));
  }
  for (int64_t i = 0; i < kRows * kCols / 32; ++i) {
    scales.bytes.push_back(static_cast<std::byte>(120 + random() % 10));
  }
  const size_t zeros = 1050 * kCols / 32 + 3;
  scales.bytes[zeros] = std::byte{0xFF};
  std::fill_n(codes.bytes.begin() + 32 * zeros, 32, std::byte{0});
  std::vector<float> want;
  for (size_t i = 0; i < codes.bytes.size(); ++i) {
    const float code = oracle::E4m3Value(static_cast<uint8_t>(codes.bytes[i]));
    const float scale =
        oracle::E8m0Value(static_cast<uint8_t>(scales.bytes[i / 32]));
    want.push_back(code == 0 ? 0 : code * scale);
  }
  WriteModel(At("q"), LlamaConfig(), {{codes, scales}});
  ASSERT_THAT(Decode(), IsOk());
  ASSERT_OK_AND_ASSIGN(const auto plain, Model::Open(At("plain")));
  const auto bits = oracle::FromValues(oracle::Element::kBF16, want);
  const auto got = BytesOf(plain, "a.weight");
  ASSERT_EQ(got.size(), bits.size());
  EXPECT_EQ(std::memcmp(got.data(), bits.data(), bits.size()), 0);
}

TEST_F(DecodeTest, RefusesPlainAndUnclearModels) {
  WriteLlama(At("q"));
  EXPECT_THAT(Decode(), Refused(HasSubstr("no weight is quantized")));
  std::filesystem::remove_all(At("q"));
  MadeNvfp4 made = MakeNvfp4("model.layers.0.x.q_proj", 32, 64,
                             Nvfp4Names::kCompressedTensors);
  made.parts.pop_back();
  WriteModel(At("q"), LlamaConfig(), {made.parts});
  EXPECT_THAT(Decode(), Refused(HasSubstr("fit no known dialect")));
  EXPECT_FALSE(std::filesystem::exists(At("plain")));
}

// Engines undo the rotation of such weights by rotating activations at run
// time, which a bf16 model does not declare.
TEST_F(DecodeTest, RefusesRotatedWeightsDeclaredAtAnyDepth) {
  const MadeNvfp4 made = MakeNvfp4("model.layers.0.x.q_proj", 32, 64,
                                   Nvfp4Names::kCompressedTensors);
  for (const bool nested : {false, true}) {
    ModelJson q = CompressedTensorsJson();
    q["transform_config"] = {
        {"config_groups", {{"v", {{"type", "hadamard"}}}}}};
    ModelJson config = LlamaConfig();
    (nested ? config["text_config"] : config)["quantization_config"] = q;
    std::filesystem::remove_all(At("q"));
    WriteModel(At("q"), config, {made.parts});
    const char* place = nested ? "text_config.quantization_config"
                               : "config.json's quantization_config";
    EXPECT_THAT(Decode(), Refused(AllOf(HasSubstr(place),
                                        HasSubstr("transform_config (v)"),
                                        HasSubstr("take the original model"))));
  }
}

// Llama 4's class in transformers does not join single experts to stacks.
TEST_F(DecodeTest, NotesExpertsThatTheClassLoadsOnlyAsStacks) {
  const MadeNvfp4 made =
      MakeNvfp4("model.layers.0.feed_forward.experts.0.gate_proj", 32, 64,
                Nvfp4Names::kCompressedTensors);
  for (const char* type : {"llama4_text", "qwen3_moe"}) {
    ModelJson config = LlamaConfig();
    config["model_type"] = type;
    std::filesystem::remove_all(At("q"));
    WriteModel(At("q"), config, {made.parts});
    ASSERT_OK_AND_ASSIGN(const auto model, Model::Open(At("q")));
    ASSERT_OK_AND_ASSIGN(
        const auto plan,
        MakeConversionPlan(
            model, {.dialect = Dialect::kNone, .format = WeightFormat::kBf16}));
    const bool stacks = std::string_view(type) == "llama4_text";
    EXPECT_EQ(plan.experts_apart, stacks);
    EXPECT_EQ(plan.notes.size(), stacks ? 1u : 0u);
  }
}

// Ministral 3 has one scale for a tensor, named like the scales of blocks.
TEST_F(DecodeTest, ASingleScaleNamedLikeBlockScalesIsForTheTensor) {
  const std::string name = "model.layers.0.x.q_proj.";
  const auto number = [&](const char* leaf, uint16_t bits) {
    WrittenTensor t = {name + leaf, "BF16", {}, std::vector<std::byte>(2)};
    std::memcpy(t.bytes.data(), &bits, 2);
    return t;
  };
  ModelJson config = LlamaConfig();
  config["quantization_config"] = {{"quant_method", "fp8"},
                                   {"activation_scheme", "static"},
                                   {"weight_block_size", nullptr}};
  WriteModel(At("q"), config,
             {{{name + "weight",
                "F8_E4M3",
                {128, 256},
                std::vector<std::byte>(128 * 256, std::byte{0x38})},
               number("weight_scale_inv", 0x3E80),
               number("activation_scale", 0x4000)}});
  ASSERT_THAT(Decode(), IsOk());
  ASSERT_OK_AND_ASSIGN(const auto plain, Model::Open(At("plain")));
  ASSERT_EQ(plain.tensors().size(), 1u);
  const auto bytes = BytesOf(plain, name + "weight");
  ASSERT_EQ(bytes.size(), size_t{2} * 128 * 256);
  EXPECT_EQ(bytes[0], std::byte{0x80});
  EXPECT_EQ(bytes[1], std::byte{0x3E});
}

}  // namespace
}  // namespace quantd::checkpoint
