// Compares the output of `quantctl convert` with direct calls of the service.
#include <map>
#include <sstream>

#include "client/checkpoint/dialect.h"
#include "client/checkpoint/stored.h"
#include "kernels/plan/geometry.h"
#include "quantd/client.h"
#include "tests/client/quantctl/convert_fixture.h"

namespace quantd {
namespace {

using checkpoint::Dialect;
using checkpoint::Model;
using checkpoint::PartSource;
using checkpoint::StoredWeight;
using checkpoint::WeightFormat;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Words = std::vector<std::string>;

// Returns the service's scales in the layout of files: linear and without
// padding.
std::vector<std::byte> Cropped(const Result& result, Format format,
                               int64_t rows, int64_t cols) {
  const FormatSpec& spec = *FindFormat(format);
  const auto padded = result.bytes(TensorKind::kRowwiseScale);
  if (spec.scaling == Scaling::kTensor || spec.scaling == Scaling::kChannel) {
    return {padded.begin(), padded.end()};
  }
  const auto& shape = result.part(TensorKind::kRowwiseScale)->shape;
  const int64_t down = spec.square ? CeilDiv(rows, spec.block) : rows;
  const size_t element = SizeOf(result.part(TensorKind::kRowwiseScale)->dtype);
  const size_t used = static_cast<size_t>(CeilDiv(cols, spec.block)) * element;
  std::vector<std::byte> out;
  for (int64_t line = 0; line < down; ++line) {
    const auto row =
        padded.subspan(static_cast<size_t>(line * shape[1]) * element, used);
    out.insert(out.end(), row.begin(), row.end());
  }
  return out;
}

std::vector<std::byte> Vector(absl::Span<const std::byte> bytes) {
  return {bytes.begin(), bytes.end()};
}

// Expected bytes come from stacking fused weights, quantizing the stack in one
// call, and separating the rows. The weights then share an amax.
TEST_F(Convert, WritesTheBytesOfStackedCallsInEveryDialect) {
  WriteLlama(Fresh("m"));
  const auto original = Llama();
  ASSERT_OK_AND_ASSIGN(auto client, Client::Create(address_));
  const std::string l1 = "model.layers.1.";
  const std::vector<Words> groups = {
      {l1 + "self_attn.q_proj", l1 + "self_attn.k_proj",
       l1 + "self_attn.v_proj"},
      {l1 + "mlp.gate_proj", l1 + "mlp.up_proj"},
      {l1 + "mlp.down_proj"}};
  struct Case {
    Dialect dialect;
    WeightFormat format;
  };
  const Case cases[] = {
      {Dialect::kCompressedTensors, WeightFormat::kNvfp4},
      {Dialect::kCompressedTensors, WeightFormat::kFp8},
      {Dialect::kCompressedTensors, WeightFormat::kFp8Dynamic},
      {Dialect::kCompressedTensors, WeightFormat::kFp8Block},
      {Dialect::kCompressedTensors, WeightFormat::kMxfp8},
      {Dialect::kCompressedTensors, WeightFormat::kMxfp4},
      {Dialect::kModelOpt, WeightFormat::kNvfp4},
      {Dialect::kModelOpt, WeightFormat::kMxfp8},
      {Dialect::kDeepSeek, WeightFormat::kFp8Block}};
  for (const auto& [dialect, format] : cases) {
    SCOPED_TRACE(fmt::format("{} {}", Name(dialect), Name(format)));
    const Outcome run = RunServed({"convert", At("m"), Fresh("made"),
                                   "--dialect", std::string(Name(dialect)),
                                   "--format", std::string(Name(format))});
    ASSERT_EQ(run.code, 0) << run.err;
    ASSERT_OK_AND_ASSIGN(const auto model, Model::Open(At("made")));
    ASSERT_OK_AND_ASSIGN(const auto stored, FindStored(model));
    // In both layers q, k and v stay unquantized in this format, because blocks
    // of 128 rows would span two of them.
    const bool cut = format == WeightFormat::kFp8Block;
    EXPECT_EQ(stored.weights.size(), cut ? 8u : 14u);
    std::map<std::string, StoredWeight> found;
    for (const StoredWeight& w : stored.weights) found[w.module] = w;
    const auto& layout = *checkpoint::FindLayout(dialect, format);
    for (const Words& modules : groups) {
      if (cut && modules == groups[0]) continue;
      // Weights are quantized alone, or together if the format has an amax.
      const bool together = NeedsAmax(layout);
      std::vector<std::byte> all;
      int64_t rows = 0;
      for (const std::string& m : modules) {
        const WrittenTensor& t = original.at(m + ".weight");
        all.insert(all.end(), t.bytes.begin(), t.bytes.end());
        rows += t.shape[0];
      }
      const int64_t cols = original.at(modules[0] + ".weight").shape[1];
      ASSERT_OK_AND_ASSIGN(const auto whole,
                           client->Quantize({DType::kBF16, {rows, cols}}, all,
                                            OptionsOf(layout, layout.profile)));
      int64_t row = 0;
      for (const std::string& m : modules) {
        SCOPED_TRACE(m);
        const WrittenTensor& t = original.at(m + ".weight");
        const StoredWeight& w = found[m];
        ASSERT_EQ(w.layout, &layout);
        auto codes = Vector(whole.bytes(TensorKind::kRowwiseData));
        auto scales = Cropped(whole, layout.codes, rows, cols);
        if (together) {
          const size_t line = codes.size() / rows;
          codes = {codes.begin() + row * line,
                   codes.begin() + (row + t.shape[0]) * line};
          if (layout.scale_shape == checkpoint::ScaleShape::kBlocks) {
            const size_t some = scales.size() / rows;
            scales = {scales.begin() + row * some,
                      scales.begin() + (row + t.shape[0]) * some};
          }
        } else {
          ASSERT_OK_AND_ASSIGN(
              const auto one,
              client->Quantize({DType::kBF16, t.shape}, t.bytes,
                               OptionsOf(layout, layout.profile)));
          codes = Vector(one.bytes(TensorKind::kRowwiseData));
          scales = Cropped(one, layout.codes, t.shape[0], cols);
        }
        EXPECT_TRUE(BytesOf(model, w.part(PartSource::kCodes)) == codes);
        EXPECT_TRUE(BytesOf(model, w.part(PartSource::kScales)) == scales);
        if (layout.global != checkpoint::Global::kNone) {
          const auto global =
              whole.bytes(layout.global == checkpoint::Global::kDivisor
                              ? TensorKind::kRowwiseGlobalDivisor
                              : TensorKind::kRowwiseGlobalScale);
          EXPECT_EQ(global.size(), 4u);
          EXPECT_TRUE(BytesOf(model, w.part(PartSource::kGlobal)) ==
                      Vector(global));
        }
        row += t.shape[0];
      }
    }
  }
}

TEST_F(Convert, CopiesOtherFilesAndSuggestsTheNextCommand) {
  WriteLlama(Fresh("m"));
  ASSERT_THAT(RunServed({"convert", At("m"), Fresh("made")}),
              Prints(0, AllOf(HasSubstr("14 weights to nvfp4"),
                              HasSubstr("4 groups of weights share an amax"),
                              HasSubstr("activations: not quantized"),
                              HasSubstr("next: vllm serve " + At("made")))));
  const Files files = FilesOf(At("made"));
  EXPECT_THAT(NamesOf(files),
              ElementsAre("config.json", "model-00001-of-00002.safetensors",
                          "model-00002-of-00002.safetensors",
                          "model.safetensors.index.json", "tokenizer.json"));
  EXPECT_EQ(files.at("tokenizer.json"), ReadFile(At("m/tokenizer.json")));
  const auto model = Model::Open(At("made"));
  ASSERT_THAT(model, IsOk());
  for (const auto& [name, tensor] : Llama()) {
    const auto* t = model->Find(name);
    if (tensor.shape.size() == 2 && name.find("proj") != std::string::npos) {
      EXPECT_EQ(t, nullptr) << name;
    } else {
      ASSERT_NE(t, nullptr) << name;
      EXPECT_TRUE(BytesOf(*model, t) == tensor.bytes) << name;
    }
  }
  // Every tensor begins at a multiple of its element size, as readers expect.
  for (const auto& t : model->tensors()) {
    EXPECT_EQ(t.stored.offset * 8 % safetensors::BitsOf(t.stored.dtype), 0u);
  }
  const auto& config = model->config();
  EXPECT_EQ(config["hidden_size"], 128);
  const auto& q = config["quantization_config"];
  EXPECT_EQ(q["quant_method"], "compressed-tensors");
  EXPECT_EQ(q["format"], "nvfp4-pack-quantized");
  EXPECT_EQ(q["ignore"], ModelJson({"re:.*lm_head$"}));
  EXPECT_EQ(q["config_groups"]["NVFP4A16"]["input_activations"], nullptr);
  const auto index = ModelJson::parse(files.at("model.safetensors.index.json"));
  EXPECT_EQ(index["weight_map"].size(), model->tensors().size());
  // A model in NVFP4 is not quantized again.
  EXPECT_THAT(RunServed({"convert", At("made"), Fresh("made2")}),
              Errs(3, HasSubstr("already quantized")));
}

TEST_F(Convert, WritesModelOptsFileAndInputScales) {
  WriteLlama(Fresh("m"));
  MustConvert("m", "w", {"--dialect", "modelopt"});
  auto own = ModelJson::parse(ReadFile(At("w/hf_quant_config.json")));
  EXPECT_EQ(own["quantization"]["quant_algo"], "W4A16_NVFP4");
  EXPECT_EQ(own["quantization"]["group_size"], 16);
  EXPECT_EQ(own["quantization"]["exclude_modules"],
            ModelJson({"*embed_tokens", "*lm_head"}));
  EXPECT_TRUE(own["quantization"].contains("kv_cache_quant_algo"));

  // For these amaxes, the reciprocal of 2688 / amax differs from amax / 2688.
  constexpr float kLess = 2.375f, kMore = 3.3125f;
  ModelJson amax = ModelJson::object();
  for (const auto& [name, t] : Llama()) {
    if (name.find("proj") == std::string::npos) continue;
    amax[name.substr(0, name.size() - 7)] =
        name.find("k_proj") == std::string::npos ? kLess : kMore;
  }
  WriteFile(At("amax.json"), amax.dump());
  for (const char* format : {"nvfp4", "fp8"}) {
    const Outcome run =
        RunServed({"convert", At("m"), Fresh("a"), "--dialect", "modelopt",
                   "--format", format, "--input-amax", At("amax.json")});
    ASSERT_EQ(run.code, 0) << run.err;
    own = ModelJson::parse(ReadFile(At("a/hf_quant_config.json")));
    const bool four = std::string_view(format) == "nvfp4";
    EXPECT_EQ(own["quantization"]["quant_algo"], four ? "NVFP4" : "FP8");
    ASSERT_OK_AND_ASSIGN(const auto model, Model::Open(At("a")));
    const std::string l0 = "model.layers.0.";
    const float range = four ? 2688 : 448;
    // q, k and v have the same input, so they share the larger amax.
    EXPECT_EQ(FloatOf(model, model.Find(l0 + "self_attn.q_proj.input_scale")),
              kMore / range);
    EXPECT_EQ(FloatOf(model, model.Find(l0 + "mlp.down_proj.input_scale")),
              kLess / range);
  }
  // A file of `quantd calibrate` holds the same numbers and further keys.
  const auto with = [&](const char* schema, const char* key) {
    WriteFile(At("amax.json"), ModelJson({{"schema", schema},
                                          {key, amax},
                                          {"unmeasured", {{"a", "why"}}}})
                                   .dump());
    return RunServed({"convert", At("m"), Fresh("b"), "--dialect", "modelopt",
                      "--format", "fp8", "--input-amax", At("amax.json")});
  };
  ASSERT_EQ(with("quantd.calibration/1", "input_amax").code, 0);
  EXPECT_EQ(ReadFile(At("b/model-00001-of-00002.safetensors")),
            ReadFile(At("a/model-00001-of-00002.safetensors")));
  EXPECT_THAT(with("quantd.calibration/2", "input_amax").err,
              HasSubstr("got \"quantd.calibration/2\""));
  EXPECT_THAT(with("quantd.calibration/1", "amaxes").err,
              HasSubstr("an object \"input_amax\""));
  WriteFile(At("amax.json"), "{\"a\": -1}");
  EXPECT_THAT(RunServed({"convert", At("m"), Fresh("a"), "--input-amax",
                         At("amax.json")}),
              Errs(3, HasSubstr("expected a finite number > 0, got -1")));
}

TEST_F(Convert, VerifyCountsTheBytesThatDiffer) {
  WriteLlama(Fresh("m"));
  for (const char* profile : {"compressed-tensors@0.20", "te"}) {
    SCOPED_TRACE(profile);
    MustConvert("m", "made", {"--profile", profile});
    EXPECT_THAT(
        RunServed({"verify", At("made"), "--original", At("m")}),
        Prints(0, AllOf(HasSubstr("total: 0 of "), HasSubstr(profile))));
  }
  // The bytes of te differ from those of another library.
  EXPECT_THAT(RunServed({"verify", At("made"), "--original", At("m"),
                         "--profile", "compressed-tensors@0.20"}),
              Prints(8, Not(HasSubstr("total: 0 of "))));
  const std::string shard = At("made/model-00002-of-00002.safetensors");
  std::string bytes = ReadFile(shard);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  WriteFile(shard, bytes);
  const Outcome spoiled =
      RunServed({"verify", At("made"), "--original", At("m"), "--json"});
  EXPECT_EQ(spoiled.code, 8);
  EXPECT_EQ(spoiled.Json()["differing"], 1);
}

TEST_F(Convert, StackedExpertsEqualSeparateExperts) {
  ModelJson config = LlamaConfig();
  config["model_type"] = "qwen3_5_moe";
  const std::string experts = "model.layers.0.mlp.experts";
  const WrittenTensor gate_up = Bf16(experts + ".gate_up_proj", {2, 64, 128});
  const WrittenTensor down = Bf16(experts + ".down_proj", {2, 128, 32});
  std::vector<WrittenTensor> apart;
  std::vector<WrittenTensor> stacked = {gate_up, down};
  std::vector<WrittenTensor> swapped;
  const auto slice = [](const WrittenTensor& t, const std::string& name,
                        size_t at, std::vector<int64_t> shape) {
    const size_t size = static_cast<size_t>(shape[0] * shape[1]) * 2;
    return WrittenTensor{name + ".weight",
                         "BF16",
                         shape,
                         {t.bytes.begin() + at, t.bytes.begin() + at + size}};
  };
  for (int e = 0; e < 2; ++e) {
    const std::string expert = fmt::format("{}.{}.", experts, e);
    const size_t up = 32 * 128 * 2;
    apart.push_back(
        slice(gate_up, expert + "gate_proj", e * 2 * up, {32, 128}));
    apart.push_back(
        slice(gate_up, expert + "up_proj", e * 2 * up + up, {32, 128}));
    apart.push_back(slice(down, expert + "down_proj", e * up, {128, 32}));
  }
  for (const WrittenTensor& t : stacked) {
    WrittenTensor s = t;
    const int64_t n = t.shape[1], k = t.shape[2];
    s.shape = {2, k, n};
    for (int64_t e = 0; e < 2; ++e) {
      for (int64_t i = 0; i < n * k * 2; ++i) {
        const int64_t row = i / 2 / k, column = i / 2 % k;
        s.bytes[(e * n * k + column * n + row) * 2 + i % 2] =
            t.bytes[e * n * k * 2 + i];
      }
    }
    swapped.push_back(s);
  }
  std::map<std::string, std::vector<std::byte>> want;
  for (const auto* tensors : {&apart, &stacked, &swapped}) {
    WriteModel(Fresh("m"), config, {*tensors});
    const Outcome run = RunServed({"convert", At("m"), Fresh("made")});
    ASSERT_EQ(run.code, 0) << run.err;
    ASSERT_OK_AND_ASSIGN(const auto model, Model::Open(At("made")));
    std::map<std::string, std::vector<std::byte>> got;
    for (const auto& t : model.tensors()) got[t.name()] = BytesOf(model, &t);
    EXPECT_EQ(got.size(), 18u);
    if (want.empty()) want = got;
    EXPECT_TRUE(got == want);
  }
}

TEST_F(Convert, DryRunsNeedNoServerAndWriteNothing) {
  WriteLlama(Fresh("m"));
  const Outcome run = Run({"convert", At("m"), Fresh("made"), "--dry-run",
                           "--server", "127.0.0.1:1", "-v"});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_FALSE(std::filesystem::exists(At("made")));
  EXPECT_THAT(
      run.out,
      AllOf(HasSubstr("model.layers.1.self_attn.v_proj 64x128 nvfp4, "
                      "shares an amax with model.layers.1.self_attn.q_proj"),
            HasSubstr("left: lm_head: one of the output heads"),
            HasSubstr("of memory in this process")));
  const Outcome events =
      Run({"convert", At("m"), Fresh("made"), "--dry-run", "--json"});
  const auto plan = events.Json();
  EXPECT_EQ(plan["event"], "plan");
  EXPECT_EQ(plan["groups"].size(), 8u);
  const Outcome gone =
      Run({"convert", At("m"), Fresh("made"), "--server", "127.0.0.1:1"});
  EXPECT_EQ(gone.code, 4);
  EXPECT_FALSE(std::filesystem::exists(At("made")));
}

TEST_F(Convert, PrintsEachEventOnALine) {
  WriteLlama(Fresh("m"));
  const Outcome run =
      RunServed({"convert", At("m"), Fresh("made"), "--json", "--statistics"});
  ASSERT_EQ(run.code, 0) << run.err;
  std::istringstream lines(run.out);
  std::map<std::string, int> events;
  nlohmann::json last;
  for (std::string line; std::getline(lines, line);) {
    last = nlohmann::json::parse(line);
    ++events[last["event"].get<std::string>()];
    if (last["event"] == "group") {
      EXPECT_GT(last["sqnr_db"].get<double>(), 19);
    }
  }
  EXPECT_THAT(events, testing::UnorderedElementsAre(testing::Pair("plan", 1),
                                                    testing::Pair("group", 8),
                                                    testing::Pair("done", 1)));
  EXPECT_EQ(last["weights"], 14);
  EXPECT_EQ(last["exit_code"], 0);
}

}  // namespace
}  // namespace quantd
