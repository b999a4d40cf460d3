// Tests of quantctl's flags for formats and options, and of `quantctl plan`.
#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "client/files/quantized_file.h"
#include "fmt/ranges.h"
#include "quantd/plan.h"
#include "tests/client/quantctl/cli_fixture.h"

namespace quantd {
namespace {

using nlohmann::json;
using testing::Contains;
using testing::HasSubstr;
using Words = std::vector<std::string>;

class CliFormats : public Cli {};
// The fixture of tests that compute; CliFormats only plans.
class CliComputes : public Cli {};

Words Plus(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// Flags for a tensor of 64 x 160, and the options that they mean.
struct Flags {
  Words words;
  QuantizeOptions options;
};

std::vector<Flags> LegalFlags() {
  std::vector<Flags> all;
  const auto add = [&](Format format, Words words, auto change) {
    Flags f;
    f.words =
        Plus({"--format", std::string(Name(format)), "--usage", "both"}, words);
    f.options.format = format;
    f.options.usage = Usage::kBoth;
    change(f.options);
    all.push_back(std::move(f));
  };
  for (const FormatSpec& f : kFormats) add(f.format, {}, [](auto&) {});
  add(Format::kNvfp4,
      {"--rht", "columnwise", "--rht-dimension", "64", "--sign-seed", "3",
       "--estimate", "activations", "--scale-layout", "swizzled"},
      [](auto& o) {
        o.rht = {false, true, 64, RandomSignMask(3, 64)};
        o.nvfp4.amax_estimation_scale = 2;
        o.form.scale_layout = Layout::kSwizzled;
      });
  add(Format::kNvfp4Square,
      {"--compact-scales", "--four-over-six", "mse", "--scale-256",
       "--fast-error", "--statistics", "--plain-amax"},
      [](auto& o) {
        o.form.compact_scales = o.form.scale_256 = true;
        o.nvfp4.four_over_six = FourOverSix::kMse;
        o.nvfp4.fast_error = o.statistics = o.want_amax = true;
      });
  add(Format::kNvfp4Square,
      {"--rounding", "stochastic", "--seed", "7", "--row-offset", "16",
       "--column-offset", "32", "--total-columns", "512"},
      [](auto& o) {
        o.rounding = Rounding::kStochastic;
        o.stochastic.seed = 7;
        o.shard = {16, 32, 512};
      });
  add(Format::kNvfp4, {"--row-scaled"},
      [](auto& o) { o.form.row_scaled = true; });
  add(Format::kFp8E4M3,
      {"--splits", "16,0,48", "--scale", "2,4,8", "--dbias", "--dbias-dtype",
       "f32"},
      [](auto& o) {
        o.splits = {16, 0, 48};
        o.fp8.scale = {2, 4, 8};
        o.dbias = true;
        o.dbias_dtype = DType::kF32;
      });
  // Neither flag is allowed with a given scale.
  add(Format::kFp8E4M3, {"--epsilon", "0.5", "--power-of-two", "yes"},
      [](auto& o) {
        o.fp8.epsilon = 0.5f;
        o.fp8.power_of_two = true;
      });
  add(Format::kMxfp4, {"--scale-rule", "even", "--dbias"}, [](auto& o) {
    o.mx.scale_rule = ScaleRule::kEven;
    o.dbias = true;
  });
  return all;
}

TEST_F(CliFormats, PlanNeedsNoServer) {
  for (const Flags& f : LegalFlags()) {
    SCOPED_TRACE(fmt::format("{}", fmt::join(f.words, " ")));
    ASSERT_OK_AND_ASSIGN(
        const auto plan,
        MakeQuantizePlan({DType::kBF16, {64, 160}}, f.options));
    const Outcome run =
        Run(Plus({"plan", "--shape", "64,160", "--json"}, f.words));
    ASSERT_EQ(run.code, 0) << run.err;
    const json report = run.Json();
    const json& tensor = report["tensors"][0];
    EXPECT_EQ(tensor["scratch_bytes"], plan.scratch_bytes());
    EXPECT_EQ(tensor["input_bytes"], plan.input_bytes());
    EXPECT_EQ(tensor["output_bytes"], plan.output_bytes());
    ASSERT_EQ(tensor["parts"].size(), plan.outputs().size());
    for (size_t i = 0; i < plan.outputs().size(); ++i) {
      const TensorSpec& spec = plan.outputs()[i];
      const json& part = tensor["parts"][i];
      EXPECT_EQ(part["kind"], Name(spec.kind));
      EXPECT_EQ(part["dtype"], Name(spec.dtype));
      EXPECT_EQ(part["shape"], spec.shape);
      EXPECT_EQ(part["layout"], Name(spec.layout));
      EXPECT_EQ(part["offset"], spec.offset);
      EXPECT_EQ(part["bytes"], spec.size);
      EXPECT_EQ(part.contains("group_offsets"), !spec.group_offsets.empty());
    }
  }
  EXPECT_THAT(Run({"plan", "--shape", "300,64", "--dtype", "f16", "--format",
                   "mxfp8_e5m2"}),
              Prints(0, testing::AllOf(HasSubstr("rowwise_scale"),
                                       HasSubstr("384x4"))));
}

TEST_F(CliFormats, PlanOfAFile) {
  const Outcome run = Run({"plan", At("model.safetensors"), "--json"});
  ASSERT_EQ(run.code, 0) << run.err;
  const json tensors = run.Json()["tensors"];
  ASSERT_EQ(tensors.size(), 2u);
  EXPECT_EQ(tensors[0]["dtype"], "f32");
  EXPECT_EQ(Run({"plan", At("model.safetensors"), "--tensor", "w"}).code, 0);
  EXPECT_EQ(Run({"plan"}).code, 2);
  EXPECT_EQ(Run({"plan", At("x.npy"), "--shape", "4,16"}).code, 2);
  EXPECT_EQ(Run({"plan", At("x.npy"), "--tensor", "y"}).code, 3);
  EXPECT_EQ(Run({"plan", "--shape", "4,24"}).code, 2);
  const Outcome illegal = Run({"plan", "--shape", "4,32", "--format",
                               "mxfp8_e4m3", "--row-scaled", "--json"});
  EXPECT_EQ(illegal.code, 2);
  EXPECT_EQ(illegal.Json()["error"]["field"], "form.row_scaled");
}

TEST_F(CliFormats, PlanNamesKernels) {
  const Words one = {"plan",       "--shape", "300,64", "--format",
                     "nvfp4",      "--usage", "both",   "--rounding",
                     "stochastic", "--seed",  "7",      "--kernels"};
  EXPECT_THAT(
      Run(one),
      Prints(0,
             HasSubstr("\ncuda: amax PlainAmax, encode "
                       "EncodeNvfp4StochasticTiles\ncpu: amax Amax, encode "
                       "rows QuantizeNvfp4, encode columns QuantizeNvfp4\n")));
  const json tensor = Run(Plus(one, {"--json"})).Json()["tensors"][0];
  EXPECT_EQ(tensor["kernels"]["cuda"],
            "amax PlainAmax, encode EncodeNvfp4StochasticTiles");
  EXPECT_FALSE(Run({"plan", "--shape", "4,16", "--json"})
                   .Json()["tensors"][0]
                   .contains("kernels"));
}

TEST_F(CliFormats, PlanNamesTheKernelsOfEveryFormat) {
  const json plain = Run({"plan", "--kernels", "--json"}).Json()["kernels"];
  std::set<std::string> formats;
  for (const json& row : plain) formats.insert(row["format"]);
  EXPECT_EQ(formats.size(), std::size(kFormats));
  const auto row = [](const char* format, const char* copies, const char* type,
                      const char* cuda, const char* cpu) {
    return json{{"format", format},
                {"copies", copies},
                {"type", type},
                {"cuda", cuda},
                {"cpu", cpu}};
  };
  EXPECT_THAT(plain, Contains(row("nvfp4", "rowwise", "f32",
                                  "amax PlainAmax, encode QuantizeRows",
                                  "amax Amax, encode rows QuantizeNvfp4")));
  EXPECT_THAT(plain, Contains(row("mxfp8_e4m3", "columnwise", "bf16, f16",
                                  "encode EncodeMxfp8Strips",
                                  "encode columns QuantizeFp8Columns")));
  EXPECT_THAT(plain,
              Contains(row("mxfp4", "decode columnwise", "bf16, f16, f32",
                           "decode DecodeColumns", "decode DequantizeLines")));
  const json rotated = Run({"plan", "--kernels", "--rht", "both", "--usage",
                            "both", "--rht-dimension", "64", "--json"})
                           .Json()["kernels"];
  EXPECT_THAT(rotated, Contains(row("mxfp8_e5m2", "both", "bf16, f16, f32",
                                    "encode FrameMxfp8Rotated",
                                    "encode rows QuantizeLines, encode columns "
                                    "QuantizeLines")));
  // The table has a heading and a line for each row.
  const std::string table = Run({"plan", "--kernels"}).out;
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'),
            static_cast<int64_t>(plain.size()) + 1);
}

TEST_F(CliFormats, MistakesAreUsageErrors) {
  const std::string x = At("x.npy");
  for (const Words& bad :
       std::vector<Words>{{"--rounding", "sideways"},
                          {"--seed", "1"},
                          {"--seed", "-1", "--rounding", "stochastic"},
                          {"--scale-layout", "spiral"},
                          {"--four-over-six", "best"},
                          {"--estimate", "much"},
                          {"--estimate", "2x"},
                          {"--power-of-two", "maybe"},
                          {"--scale", "x"},
                          {"--scale-rule", "left"},
                          {"--rht-dimension", "24"},
                          {"--sign-mask", "0x12345"},
                          {"--sign-mask", "0xD7E8", "--sign-seed", "1"},
                          {"--splits", "1,x"},
                          {"--dbias-dtype", "e4m3"},
                          {"--epsilon", "small"}}) {
    EXPECT_EQ(RunServed(Plus({"roundtrip", x}, bad)).code, 2)
        << fmt::format("{}", fmt::join(bad, " "));
  }
  EXPECT_EQ(RunServed({"amax", x, "--domain", "planet"}).code, 2);
  // Options that are legal alone but not together are refused before anything
  // is sent.
  EXPECT_THAT(RunServed({"roundtrip", x, "--four-over-six", "mae", "--rounding",
                         "stochastic"}),
              Errs(2, HasSubstr("four_over_six or stochastic, not both")));
}

TEST_F(CliComputes, RoundTripsEveryFormat) {
  for (const FormatSpec& f : kFormats) {
    SCOPED_TRACE(f.name);
    const Words format = {"--format", std::string(f.name), "--usage", "both"};
    const Outcome trip = RunServed(
        Plus({"roundtrip", At("x.npy"), "--statistics", "--json"}, format));
    ASSERT_EQ(trip.code, 0) << trip.err;
    const json copies = trip.Json()["tensors"][0]["copies"];
    for (const char* copy : {"rowwise", "columnwise"}) {
      // Four bits give about 18 dB, E5M2 25 dB and E4M3 30 dB.
      const double least = f.element == DType::kE2M1x2 ? 15
                           : f.element == DType::kE5M2 ? 23
                                                       : 28;
      EXPECT_GT(copies[copy]["sqnr_db"].get<double>(), least) << copy;
      const json& s = copies[copy]["statistics"];
      EXPECT_EQ(s["elements"], 64 * 160);
      // From fp32 to fp32, the client measures the same SQNR as the server.
      EXPECT_NEAR(s["sqnr_db"].get<double>(),
                  copies[copy]["sqnr_db"].get<double>(), 1e-4);
      EXPECT_EQ(copies[copy].contains("amax"), HasAmax(f));
    }
  }
}

TEST_F(CliComputes, AppliesEveryFlag) {
  for (const Flags& f : LegalFlags()) {
    SCOPED_TRACE(fmt::format("{}", fmt::join(f.words, " ")));
    const Outcome run = RunServed(
        Plus({"quantize", At("x.npy"), "-o", At("g.safetensors"), "--json"},
             f.words));
    ASSERT_EQ(run.code, 0) << run.err;
    ASSERT_OK_AND_ASSIGN(const auto q,
                         QuantizedTensor::Load(At("g.safetensors")));
    EXPECT_EQ(q.format(), f.options.format);
    EXPECT_EQ(q.options().splits, f.options.splits);
    EXPECT_EQ(q.part(TensorKind::kDbias) != nullptr, f.options.dbias);
    for (const char* usage : {"rowwise", "columnwise"}) {
      EXPECT_EQ(RunServed({"dequantize", At("g.safetensors"), "-o", At("g.npy"),
                           "--usage", usage})
                    .code,
                0);
    }
  }
}

TEST_F(CliComputes, OneSeedGivesOneFile) {
  const auto quantize = [&](const char* out, const Words& seed) {
    const Outcome run = RunServed(Plus(
        {"quantize", At("x.npy"), "-o", At(out), "--rounding", "stochastic"},
        seed));
    EXPECT_EQ(run.code, 0) << run.err;
    return ReadFile(At(out));
  };
  const std::string a = quantize("1.safetensors", {"--seed", "5"});
  EXPECT_EQ(a, quantize("2.safetensors", {"--seed", "5"}));
  EXPECT_NE(a, quantize("3.safetensors", {"--seed", "6"}));
  // A drawn seed has 64 bits, so the top bit is set in half of all runs.
  const std::string b =
      quantize("3.safetensors", {"--seed", "18446744073709551615"});
  EXPECT_THAT(b, HasSubstr("18446744073709551615"));
  EXPECT_NE(a, b);
  // The file records the drawn seed.
  quantize("4.safetensors", {});
  ASSERT_OK_AND_ASSIGN(const auto drawn,
                       QuantizedTensor::Load(At("4.safetensors")));
  EXPECT_EQ(
      ReadFile(At("4.safetensors")),
      quantize("5.safetensors",
               {"--seed", fmt::to_string(drawn.options().stochastic.seed)}));
}

TEST_F(CliComputes, PrintsAmaxesOfRowsAndGroups) {
  const Outcome run =
      RunServed({"amax", At("x.npy"), "--domain", "row", "--rht-dimension",
                 "32", "--splits", "30,34", "--json"});
  ASSERT_EQ(run.code, 0) << run.err;
  const json copies = run.Json()["tensors"][0]["copies"];
  EXPECT_EQ(copies["rowwise"]["amax"].size(), 64u);
  EXPECT_EQ(copies["rowwise_rht"]["amax"].size(), 64u);
  EXPECT_EQ(copies["columnwise_rht"]["amax"].size(), 320u);
}

}  // namespace
}  // namespace quantd
