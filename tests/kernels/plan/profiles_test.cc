// The formats, options and tensors of each profile, written from the libraries,
// not from the table under test.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>
#include <string>

#include "fmt/format.h"
#include "kernels/plan/profile/profile.h"
#include "tests/kernels/plan/plan_request.h"

namespace quantd {
namespace {

PlanRequest Request(Profile profile, Format format) {
  PlanRequest r(format);
  r.quantize.usage = Usage::kRowwise;
  r.quantize.profile = r.dequantize.profile = profile;
  return r;
}

TEST(ProfilesTest, FormatsOfEveryProfile) {
  const std::set<std::string> all = {
      "nvfp4", "fp8_e4m3",          "mxfp8_e4m3",
      "mxfp4", "fp8_block_2d_e4m3", "fp8_channel_e4m3"};
  const std::set<std::string> fp8 = {"fp8_e4m3", "fp8_block_2d_e4m3",
                                     "fp8_channel_e4m3"};
  std::set<std::string> modelopt_cuda = fp8;
  modelopt_cuda.insert("nvfp4");
  const std::map<std::string, std::set<std::string>> has = {
      {"modelopt@0.47", all},
      {"modelopt@0.47+cuda", modelopt_cuda},
      {"compressed-tensors@0.20", all},
      {"compressed-tensors@0.20+cuda", fp8},
      {"torchao@0.18", {"nvfp4", "mxfp8_e4m3", "mxfp4"}},
      {"torchao@0.18+cuda", {"nvfp4"}},
      {"comfy@0.2.40", {"nvfp4"}},
      {"comfy@0.2.40+cuda", {"nvfp4"}},
      {"deepgemm", {"fp8_block_2d_e4m3"}},
      {"deepgemm+cuda", {"fp8_block_2d_e4m3"}},
      {"miles", {"nvfp4"}},
  };
  EXPECT_EQ(Profiles().size(), has.size() + 1);  // and TE
  for (const ProfileSpec& spec : Profiles()) {
    EXPECT_EQ(ParseProfile(spec.name), spec.profile);
    for (const FormatSpec& f : kFormats) {
      SCOPED_TRACE(fmt::format("{} {}", spec.name, f.name));
      const auto row = has.find(std::string(spec.name));
      const bool legal =
          row == has.end() || row->second.contains(std::string(f.name));
      const PlanRequest r = Request(spec.profile, f.format);
      EXPECT_EQ(Make(kQuantize, r).ok(), legal) << Make(kQuantize, r).status();
      EXPECT_EQ(Make(kDequantize, r).ok(), legal);
    }
  }
  EXPECT_EQ(ParseProfile("modelopt"), std::nullopt);
}

// The errors name the illegal field and its legal values.
TEST(ProfilesTest, RefusesWhatTheLibraryLacks) {
  using O = QuantizeOptions;
  const struct {
    Profile profile;
    Format format;
    std::string_view field, expected, got;
    std::function<void(O&)> edit;
  } kCases[] = {
      {Profile::kDeepgemm, Format::kNvfp4, "format",
       "fp8_block_2d_e4m3, the formats of deepgemm", "nvfp4", [](O&) {}},
      {Profile::kMiles, Format::kNvfp4Square, "profile",
       "profile only with nvfp4, fp8_e4m3, mxfp8_e4m3, mxfp4, "
       "fp8_block_2d_e4m3, fp8_channel_e4m3",
       "profile with nvfp4_2d", [](O&) {}},
      {Profile::kMiles, Format::kNvfp4, "usage", "rowwise with miles", "both",
       [](O& o) { o.usage = Usage::kBoth; }},
      {Profile::kMiles, Format::kNvfp4, "usage", "rowwise with miles",
       "columnwise", [](O& o) { o.usage = Usage::kColumnwise; }},
      {Profile::kModelopt047, Format::kNvfp4, "profile",
       "profile or rht, not both", "both", [](O& o) { o.rht.rowwise = true; }},
      {Profile::kModelopt047, Format::kMxfp4, "profile",
       "profile or stochastic, not both", "both",
       [](O& o) { o.rounding = Rounding::kStochastic; }},
      {Profile::kModelopt047, Format::kNvfp4, "profile",
       "profile or row_scaled, not both", "both",
       [](O& o) { o.form.row_scaled = true; }},
      {Profile::kModelopt047, Format::kNvfp4, "profile",
       "profile or four_over_six, not both", "both",
       [](O& o) { o.nvfp4.four_over_six = FourOverSix::kMse; }},
      {Profile::kModelopt047, Format::kFp8E4M3, "profile",
       "profile or epsilon, not both", "both", [](O& o) { o.fp8.epsilon = 1; }},
      {Profile::kDeepgemm, Format::kFp8SquareE4M3, "profile",
       "profile or power_of_two, not both", "both",
       [](O& o) { o.fp8.power_of_two = true; }},
      {Profile::kModelopt047, Format::kFp8E4M3, "profile",
       "profile or given_scale, not both", "both",
       [](O& o) { o.fp8.scale = {1}; }},
      {Profile::kModelopt047, Format::kNvfp4, "profile",
       "profile or dbias, not both", "both", [](O& o) { o.dbias = true; }},
      {Profile::kTorchao018, Format::kNvfp4, "scale_rule",
       "scale_rule only with mxfp8_e4m3, mxfp8_e5m2, mxfp4",
       "scale_rule with nvfp4", [](O& o) { o.mx.scale_rule = ScaleRule::kUp; }},
      {Profile::kModelopt047, Format::kMxfp4, "scale_rule",
       "none, because modelopt@0.47 determines it", "up",
       [](O& o) { o.mx.scale_rule = ScaleRule::kUp; }},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(fmt::format("{}: {}", c.field, c.expected));
    PlanRequest r = Request(c.profile, c.format);
    c.edit(r.quantize);
    ExpectRefused(Make(kQuantize, r).status(), c.field, c.expected, c.got);
  }
  PlanRequest half = Request(Profile::kTorchao018, Format::kNvfp4);
  half.tensor.dtype = DType::kF16;
  ExpectRefused(Make(kQuantize, half).status(), "tensor.dtype",
                "f32 or bf16, the input types of torchao@0.18", "f16");
  // Decoding does not depend on the type of the original.
  EXPECT_THAT(Make(kDequantize, half), IsOk());
  PlanRequest unknown = Request(static_cast<Profile>(99), Format::kNvfp4);
  ExpectRefused(Make(kQuantize, unknown).status(), "profile", ProfileNames(),
                "number 99");
  ExpectRefused(Make(kDequantize, unknown).status(), "profile", ProfileNames(),
                "number 99");
  // Scales are stored in the input's type, so the request must have it.
  PlanRequest blind = Request(Profile::kCompressedTensors020, Format::kFp8E4M3);
  blind.tensor.dtype = DType::kUnspecified;
  ExpectRefused(Make(kDequantize, blind).status(), "tensor.dtype",
                "f32, f16 or bf16", "none");
}

TEST(ProfilesTest, LegalOptions) {
  for (const ProfileSpec& spec : Profiles()) {
    if (spec.profile == Profile::kTe) continue;
    for (const ProfileFormat& f : spec.formats) {
      if (f.format == Format::kUnspecified) continue;
      SCOPED_TRACE(fmt::format("{} {}", spec.name, Name(f.format)));
      PlanRequest r = Request(spec.profile, f.format);
      r.quantize.splits = {{16, 0, 16}};
      r.quantize.statistics = r.quantize.want_amax = true;
      const FormatSpec& format = *FindFormat(f.format);
      if (format.options & kOptSwizzled) {
        r.quantize.form.scale_layout = Layout::kSwizzled;
      }
      if (HasAmax(format)) {
        const bool lines = format.scaling == Scaling::kChannel;
        r.quantize.rowwise_amax.assign(lines ? 32 : 3, 1.0f);
      }
      if (spec.scale_rule && format.options & kOptScaleRule) {
        r.quantize.mx.scale_rule = ScaleRule::kEven;
      }
      EXPECT_THAT(Make(kQuantize, r), IsOk());
    }
  }
}

// Global scales and divisors are separate tensors with one value per group, and
// come last. Decoding uses them instead of the amax.
TEST(ProfilesTest, GlobalScalesAreSeparateTensors) {
  const std::map<Profile, TensorKind> kinds = {
      {Profile::kModelopt047, TensorKind::kRowwiseGlobalScale},
      {Profile::kTorchao018, TensorKind::kRowwiseGlobalScale},
      {Profile::kComfy0240, TensorKind::kRowwiseGlobalScale},
      {Profile::kMiles, TensorKind::kRowwiseGlobalScale},
      {Profile::kCompressedTensors020, TensorKind::kRowwiseGlobalDivisor},
  };
  for (const auto& [profile, kind] : kinds) {
    SCOPED_TRACE(Name(profile));
    PlanRequest r = Request(profile, Format::kNvfp4);
    r.quantize.splits = r.dequantize.splits = {{16, 16}};
    const auto plan = Make(kQuantize, r);
    ASSERT_THAT(plan, IsOk());
    EXPECT_NE(plan->output(TensorKind::kRowwiseAmax), nullptr);
    const TensorSpec& last = plan->outputs().back();
    EXPECT_EQ(last.kind, kind);
    EXPECT_EQ(last.dtype, DType::kF32);
    EXPECT_EQ(last.shape, std::vector<int64_t>{2});
    const auto back = Make(kDequantize, r);
    ASSERT_THAT(back, IsOk());
    EXPECT_EQ(back->input(TensorKind::kRowwiseAmax), nullptr);
    EXPECT_NE(back->input(kind), nullptr);
  }
  const auto te = Make(kQuantize, Request(Profile::kTe, Format::kNvfp4));
  ASSERT_THAT(te, IsOk());
  EXPECT_EQ(te->outputs().back().kind, TensorKind::kRowwiseAmax);
}

TEST(ProfilesTest, ScalesInTheTypeOfTheInput) {
  for (const DType t : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const Format f :
         {Format::kFp8E4M3, Format::kFp8ChannelE4M3, Format::kFp8SquareE4M3}) {
      PlanRequest r = Request(Profile::kCompressedTensors020, f);
      r.tensor.dtype = t;
      const auto plan = Make(kQuantize, r);
      ASSERT_THAT(plan, IsOk());
      EXPECT_EQ(plan->output(TensorKind::kRowwiseScale)->dtype, t);
      r.quantize.profile = Profile::kModelopt047;
      if (f == Format::kFp8SquareE4M3) r.quantize.profile = Profile::kDeepgemm;
      const auto other = Make(kQuantize, r);
      ASSERT_THAT(other, IsOk());
      EXPECT_EQ(other->output(TensorKind::kRowwiseScale)->dtype, DType::kF32);
    }
  }
}

TEST(ProfilesTest, DefaultScaleRules) {
  const auto rule = [](Profile profile) {
    const auto plan = Make(kQuantize, Request(profile, Format::kMxfp4));
    return std::get<QuantizeOptions>(plan->options()).mx.scale_rule;
  };
  EXPECT_EQ(rule(Profile::kTe), ScaleRule::kUp);
  EXPECT_EQ(rule(Profile::kTorchao018), ScaleRule::kFloor);
  EXPECT_EQ(rule(Profile::kModelopt047), std::nullopt);
  EXPECT_EQ(rule(Profile::kCompressedTensors020), std::nullopt);
}

}  // namespace
}  // namespace quantd
