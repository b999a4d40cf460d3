// Tests of the scales of KV caches: those that a model has, and those that a
// calibration gives.
#include "tests/client/quantctl/convert_fixture.h"
#include "tests/testing/matchers.h"

namespace quantd {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using ConvertCache = Convert;

TEST_F(ConvertCache, ScalesOfCachesAreCopiedAndReported) {
  const std::vector<std::byte> one = {std::byte{0}, std::byte{0},
                                      std::byte{0x80}, std::byte{0x3F}};
  struct Case {
    const char* dialect;
    const char* name;
    bool configured;
  };
  for (const Case& c :
       {Case{"compressed-tensors", "model.layers.0.self_attn.k_scale", true},
        Case{"modelopt", "model.layers.0.self_attn.k_proj.k_scale", true},
        Case{"modelopt", "model.layers.0.self_attn.k_scale", false}}) {
    SCOPED_TRACE(c.name);
    auto shards = LlamaShards();
    shards[0].push_back({c.name, "F32", {}, one});
    WriteModel(Fresh("m"), LlamaConfig(), shards);
    ASSERT_THAT(
        RunServed({"convert", At("m"), Fresh("made"), "--dialect", c.dialect}),
        Prints(0, HasSubstr("1 scales of the KV cache are copied")));
    ASSERT_OK_AND_ASSIGN(const auto model, checkpoint::Model::Open(At("made")));
    EXPECT_EQ(BytesOf(model, model.Find(c.name)), one);
    if (std::string_view(c.dialect) == "modelopt") {
      const auto own =
          ModelJson::parse(ReadFile(At("made/hf_quant_config."
                                       "json")));
      EXPECT_EQ(own["quantization"]["kv_cache_quant_algo"],
                c.configured ? ModelJson("FP8") : ModelJson(nullptr));
      // Engines that read config.json look for another key.
      EXPECT_EQ(
          model.config()["quantization_config"].contains("kv_cache_scheme"),
          c.configured);
    } else {
      EXPECT_EQ(
          model.config()["quantization_config"]["kv_cache_scheme"]["num_bits"],
          8);
    }
  }
}

TEST_F(ConvertCache, WritesScalesOfCachesWhenAsked) {
  WriteLlama(Fresh("m"));
  const auto convert = [&](const char* dialect) {
    return RunServed({"convert", At("m"), Fresh("made"), "--dialect", dialect,
                      "--only", "*.down_proj", "--kv-cache", "fp8",
                      "--input-amax", At("amax.json")});
  };
  ModelJson file = {{"schema", "quantd.calibration/1"},
                    {"input_amax", ModelJson::object()}};
  ModelJson kv = ModelJson::object();
  for (const char* layer : {"model.layers.0.", "model.layers.1."}) {
    file["input_amax"][std::string(layer) + "mlp.down_proj"] = 3;
    kv[std::string(layer) + "self_attn"] = {{"k", 56}, {"v", 28}};
  }
  WriteFile(At("amax.json"), file.dump());
  EXPECT_THAT(convert("modelopt").err, HasSubstr("no \"kv_amax\""));
  file["kv_amax"] = kv;
  file["kv_amax"]["model.layers.1.self_attn"]["v"] = 0;
  WriteFile(At("amax.json"), file.dump());
  EXPECT_THAT(convert("modelopt").err, HasSubstr("a finite number > 0, got 0"));
  file["kv_amax"] = kv;
  WriteFile(At("amax.json"), file.dump());
  for (const char* dialect : {"compressed-tensors", "modelopt"}) {
    SCOPED_TRACE(dialect);
    ASSERT_THAT(convert(dialect),
                Prints(0, HasSubstr("scales of 2 FP8 caches")));
    const auto model = checkpoint::Model::Open(At("made"));
    ASSERT_THAT(model, IsOk());
    const bool own = std::string_view(dialect) == "modelopt";
    const std::string first = "model.layers.1.self_attn.";
    EXPECT_EQ(FloatOf(*model,
                      model->Find(first + (own ? "k_proj." : "") + "k_scale")),
              0.125f);
    EXPECT_EQ(FloatOf(*model,
                      model->Find(first + (own ? "v_proj." : "") + "v_scale")),
              0.0625f);
    const Outcome lint = Run({"lint", At("made"), "--original", At("m")});
    EXPECT_EQ(lint.code, 0) << lint.out;
    EXPECT_THAT(
        Run({"inspect", At("made")}).out,
        AllOf(HasSubstr("2 scales of inputs, for largest magnitudes of 3"),
              HasSubstr("4 scales of keys and values, for largest "
                        "magnitudes of 28 to 56")));
    // A report has them, and no tensor is in one model only.
    const Outcome compared =
        Run({"compare", At("m"), At("made"), "--report", Fresh("report")});
    EXPECT_THAT(compared.out, Not(HasSubstr("only in")));
    const auto report = ModelJson::parse(ReadFile(At("report/report.json")));
    EXPECT_EQ(report["cache_scales"],
              ModelJson({{"count", 4}, {"least", 28}, {"most", 56}}));
    EXPECT_THAT(ReadFile(At("report/report.html")),
                HasSubstr("4 scales of keys and values, for"));
    ASSERT_EQ(Run({"convert", At("made"), Fresh("plain"), "--dialect", "none",
                   "--format", "bf16"})
                  .code,
              0);
    ASSERT_OK_AND_ASSIGN(const auto plain,
                         checkpoint::Model::Open(At("plain")));
    EXPECT_EQ(plain.tensors().size(), Llama().size());
    EXPECT_FALSE(plain.config().contains("quantization_config"));
  }
  const Outcome alone =
      Run({"convert", At("m"), Fresh("made"), "--kv-cache", "fp8"});
  EXPECT_THAT(alone.err, HasSubstr("--kv-cache fp8 needs --input-amax"));
}

}  // namespace
}  // namespace quantd
