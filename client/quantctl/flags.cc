#include "client/quantctl/flags.h"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "client/checkpoint/dialect.h"
#include "client/files/sign_mask_text.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "kernels/plan/profile/profile.h"
#include "quantd/format.h"
#include "quantd/quantizer.h"

namespace quantd::quantctl {
namespace {

// Headings of options in help.
constexpr char kRotation[] = "Rotation";
constexpr char kAmax[] = "Amax and scales";
constexpr char kForm[] = "Form of the scales";
constexpr char kRounding[] = "Rounding";
constexpr char kBeside[] = "Beside the copies";
constexpr char kParts[] = "Parts of a tensor";

std::optional<RhtOptions> ParseRht(std::string_view text) {
  RhtOptions rht;
  if (text == "none") return rht;
  const auto usage = ParseUsage(text);
  if (!usage) return std::nullopt;
  rht.rowwise = HasRowwise(*usage);
  rht.columnwise = HasColumnwise(*usage);
  return rht;
}

std::optional<DType> ParseFloat(std::string_view text) {
  const auto dtype = ParseDType(text);
  return dtype && IsFloat(*dtype) ? dtype : std::nullopt;
}

std::optional<bool> ParseYesNo(std::string_view text) {
  if (text == "yes" || text == "no") return text == "yes";
  return std::nullopt;
}

std::optional<float> ParseEstimate(const std::string& text) {
  if (text == "activations") return kActivationEstimation;
  if (text == "gradients") return kGradientEstimation;
  float value = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  // Does not check for finite and positive values; the plan does.
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return value;
}

std::string FormatNames() {
  std::vector<std::string_view> names;
  for (const FormatSpec& f : kFormats) names.push_back(f.name);
  for (const checkpoint::WeightLayout& row : checkpoint::AllLayouts()) {
    const std::string_view name = Name(row.format);
    if (std::ranges::find(names, name) == names.end()) {
      names.push_back(name);
    }
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

// Parses the name of a format of tensors, or of a format of models.
std::optional<QuantizeOptions> ParseFormatWord(const std::string& text) {
  QuantizeOptions options;
  if (const auto format = ParseFormat(text)) {
    options.format = *format;
    return options;
  }
  const auto weight = checkpoint::ParseWeightFormat(text);
  for (const checkpoint::WeightLayout& row : checkpoint::AllLayouts()) {
    if (row.format == weight) return OptionsOf(row, Profile::kTe);
  }
  return std::nullopt;
}

constexpr std::pair<Scaling, std::string_view> kFamilies[] = {
    {Scaling::kNvfp4, "NVFP4"},
    {Scaling::kChannel, "FP8 channel"},
    {Scaling::kTensor, "FP8 tensor"},
    {Scaling::kMx, "MX"},
    {Scaling::kBlock, "FP8 block"}};

// The formats and families of formats to which an option applies, for its help:
// " [NVFP4, mxfp4]".
std::string For(Option option) {
  std::vector<std::string_view> names;
  for (const auto& [scaling, family] : kFamilies) {
    std::vector<std::string_view> some;
    bool all = true;
    for (const FormatSpec& f : kFormats) {
      if (f.scaling != scaling) continue;
      (f.options & option) != 0 ? some.push_back(f.name) : void(all = false);
    }
    if (all) some = {family};
    names.insert(names.end(), some.begin(), some.end());
  }
  return fmt::format(" [{}]", fmt::join(names, ", "));
}

void AddScales(CLI::App* app, Options* o) {
  app->option_defaults()->group(kAmax);
  QuantizeOptions& q = o->quantize;
  AddList(
      app, "--given-amax-rowwise,--rowwise-amax", &q.rowwise_amax, "FLOAT",
      "Use this amax for the rowwise copy instead of computing it: one value, "
      "or one for each group or row; without RHT one value serves both copies" +
          For(kOptGivenAmax));
  AddList(app, "--given-amax-columnwise,--columnwise-amax", &q.columnwise_amax,
          "FLOAT", "Use this amax for the columnwise copy");
  Named(app, "--amax-estimation-scale,--estimate", "C",
        "Estimate the amax after rotation as C times the amax before",
        "a number, activations (2) or gradients (1)", ParseEstimate,
        &o->quantize.nvfp4.amax_estimation_scale);
  Named(app, "--four-over-six", "METRIC",
        "Scale each block to 4 or to 6, whichever errs less" +
            For(kOptFourOverSix),
        "off, mae or mse", ParseFourOverSix, &o->quantize.nvfp4.four_over_six);
  app->add_flag("--scale-256", q.form.scale_256,
                "With --four-over-six: limit block scales to 256");
  app->add_flag("--fast-error", q.nvfp4.fast_error,
                "With --four-over-six: compare errors before scaling back");
  app->add_flag("--scale-search", q.nvfp4.scale_search,
                "Try six scales for each block, and keep the best" +
                    For(kOptScaleSearch));
  app->add_option("--epsilon", q.fp8.epsilon,
                  "Replace smaller amaxes by this one" + For(kOptEpsilon));
  Named(app, "--power-of-two", "YES/NO",
        "Use only powers of two as scales (default: yes in block scaling)" +
            For(kOptPowerOfTwo),
        "yes or no", ParseYesNo, &o->quantize.fp8.power_of_two);
  AddList(app, "--scale", &q.fp8.scale, "FLOAT",
          "Delayed scaling: use this scale, or one for each group" +
              For(kOptGivenScale));
  Named(app, "--scale-rule", "RULE",
        "Rounding of the exponent that a block shares" + For(kOptScaleRule),
        "up, floor, ceil or even", ParseScaleRule, &o->quantize.mx.scale_rule);
}

void AddForm(CLI::App* app, Options* o) {
  app->option_defaults()->group(kForm);
  CopyForm& form = o->quantize.form;
  Named(
      app, "--scale-layout", "LAYOUT",
      "Order of the scales; swizzled means tiles of 128x4" + For(kOptSwizzled),
      "linear or swizzled", ParseLayout, &o->quantize.form.scale_layout);
  app->add_flag(
      "--compact-scales", form.compact_scales,
      "One scale for each square, not for each of its rows" + For(kOptCompact));
  app->add_flag("--row-scaled", form.row_scaled,
                "Use one amax for each row of a copy" + For(kOptRowScaled));
}

void AddRounding(CLI::App* app, Options* o) {
  app->option_defaults()->group(kRounding);
  Named(app, "--rounding", "HOW",
        "Rounding between two codes; stochastic only for" + For(kOptStochastic),
        "nearest or stochastic", ParseRounding, &o->quantize.rounding);
  app->add_option("--seed", o->seed,
                  "Seed of stochastic rounding (default: a random one, which "
                  "the file records)")
      ->check(CLI::NonNegativeNumber);
  app->add_option("--seed-offset", o->quantize.stochastic.seed_offset,
                  "Number of another random stream of the same seed")
      ->check(CLI::NonNegativeNumber);
}

void AddBeside(CLI::App* app, Options* o) {
  app->option_defaults()->group(kBeside);
  QuantizeOptions& q = o->quantize;
  app->add_flag(
      "--statistics", q.statistics,
      "Also count clipped and flushed values, and find the largest error");
  app->add_flag("--dbias", q.dbias, "Sums of the columns of the input");
  Named(app, "--dbias-dtype", "DTYPE",
        "Type of the sums of --dbias (default: the input's)",
        "f32, f16 or bf16", ParseFloat, &o->quantize.dbias_dtype);
  app->add_flag("--amax,--plain-amax", q.want_amax,
                "Also compute the largest magnitude, in any format");
}

void AddShard(CLI::App* app, Options* o) {
  app->option_defaults()->group(kParts);
  ShardPosition& shard = o->quantize.shard;
  app->add_option(
      "--row-offset", shard.row_offset,
      "First row of this shard in the whole tensor, for stochastic rounding");
  app->add_option("--column-offset", shard.column_offset,
                  "First column of this shard");
  app->add_option("--total-columns", shard.total_columns,
                  "Columns of the whole tensor");
}

absl::Status SettleSigns(Options* o) {
  RhtOptions& rht = o->quantize.rht;
  const bool legal = std::ranges::find(kRhtDimensions, rht.dimension) !=
                     std::end(kRhtDimensions);
  if (!legal) {
    return absl::InvalidArgumentError(fmt::format(
        "--rht-dimension: expected 16, 32, 64 or 128, got {}", rht.dimension));
  }
  if (!o->sign_mask.empty() && o->sign_seed) {
    return absl::InvalidArgumentError(
        "--sign-mask and --sign-seed exclude each other");
  }
  if (o->sign_seed) {
    rht.sign_mask = RandomSignMask(*o->sign_seed, rht.dimension);
  }
  if (o->sign_mask.empty()) return absl::OkStatus();
  rht.sign_mask = SignMaskFromHex(o->sign_mask, rht.dimension);
  if (rht.sign_mask) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "--sign-mask: expected {} bits in hexadecimal, like 0xD7E8, got {}",
      rht.dimension, o->sign_mask));
}

absl::Status SettleUsage(Options* o) {
  QuantizeOptions& q = o->quantize;
  const int rotated = (q.rht.rowwise ? 1 : 0) | (q.rht.columnwise ? 2 : 0);
  if (o->usage == Usage::kUnspecified) {
    q.usage = rotated == 0 ? Usage::kRowwise : static_cast<Usage>(rotated);
    return absl::OkStatus();
  }
  q.usage = o->usage;
  if ((rotated & ~static_cast<int>(q.usage)) == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("--rht rotates a copy that --usage {} does not make; add the "
                  "copy to --usage or remove it from --rht",
                  Name(q.usage)));
}

}  // namespace

void AddJson(CLI::App* app, Options* o, const char* json, const char* verbose) {
  app->add_flag("--json", o->json, json);
  app->add_flag("-v,--verbose", o->verbose, verbose);
}

void AddInput(CLI::App* app, Options* o, const char* what) {
  Add(app, "FILE", &o->input, "FILE", what)->required();
  Add(app, "--tensor", &o->tensors, "NAME",
      "Process only this tensor of the file (may be repeated)")
      ->allow_extra_args(false);
}

void AddOutput(CLI::App* app, Options* o, const char* help) {
  const bool npy = std::string_view(help).find(".npy") != std::string::npos;
  const auto check = [npy](const std::string& name) -> std::string {
    // Only regular files need the extension. Links and devices, which may be
    // standard output, receive .safetensors content.
    struct stat info = {};
    const bool stream = name == "-" || (lstat(name.c_str(), &info) == 0 &&
                                        !S_ISREG(info.st_mode));
    if (stream || HasExtension(name, ".safetensors") ||
        (npy && HasExtension(name, ".npy"))) {
      return "";
    }
    return fmt::format("expected a name that ends with {}.safetensors, got {}",
                       npy ? ".npy or " : "", name);
  };
  Add(app, "-o,--output,--out", &o->output, "FILE", help)
      ->required()
      ->check(CLI::Validator(check, ""));
}

void AddFlatten(CLI::App* app, Options* o) {
  app->add_option("--flatten-axis", o->flatten_axis,
                  "First dimension that counts as columns instead of rows")
      ->capture_default_str();
}

void AddRotation(CLI::App* app, Options* o) {
  app->add_option("--rht-dimension", o->quantize.rht.dimension,
                  "Elements that are rotated together: 16, 32, 64 or 128")
      ->capture_default_str()
      ->group(kRotation);
  Add(app, "--sign-mask", &o->sign_mask, "HEX",
      "Signs of the rotation: bit i is set if sign i is -1; as many bits as "
      "the dimension (default: 0xD7E8, repeated)")
      ->group(kRotation);
  app->add_option("--sign-seed", o->sign_seed,
                  "Random signs of the rotation from this seed")
      ->check(CLI::NonNegativeNumber)
      ->group(kRotation);
  Named(app, "--non-finite", "POLICY", "Treatment of NaN and Inf in the input",
        "ignore, propagate or reject", ParseNonFinite, &o->quantize.non_finite);
}

void AddSplits(CLI::App* app, Options* o) {
  app->add_option_function<std::vector<int64_t>>(
         "--splits",
         [o](const std::vector<int64_t>& rows) { o->quantize.splits = rows; },
         "Numbers of rows of the groups, each of which is quantized "
         "separately; zeros are allowed")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("ROWS,...")
      ->group(kParts);
}

void AddQuantize(CLI::App* app, Options* o) {
  AddFlatten(app, o);
  Named(app, "--format", "FORMAT", "Format of the codes (default nvfp4)",
        FormatNames(), ParseFormatWord, [o](const QuantizeOptions& q) {
          o->quantize.format = q.format;
          o->quantize.nvfp4.scale_search |= q.nvfp4.scale_search;
          if (q.nvfp4.four_over_six == FourOverSix::kOff) return;
          o->quantize.nvfp4.four_over_six = q.nvfp4.four_over_six;
          o->quantize.form.scale_256 = q.form.scale_256;
        });
  Named(app, "--profile", "LIBRARY",
        "Library whose bytes to write (default te)" + For(kOptProfile),
        ProfileNames(), ParseProfile, &o->quantize.profile);
  Named(app, "--usage", "USAGE",
        "Copies to make (default: the ones to rotate, else rowwise)",
        "rowwise, columnwise, both, or none (only the other parts)", ParseUsage,
        &o->usage);
  Named(app, "--rht", "USAGE",
        "Copies to rotate before quantizing (default none)" + For(kOptRht),
        "none, rowwise, columnwise or both", ParseRht,
        [o](RhtOptions r) {
          o->quantize.rht.rowwise = r.rowwise;
          o->quantize.rht.columnwise = r.columnwise;
        })
      ->group(kRotation);
  AddRotation(app, o);
  const std::string usual = app->option_defaults()->get_group();
  AddScales(app, o);
  AddForm(app, o);
  AddRounding(app, o);
  AddBeside(app, o);
  AddSplits(app, o);
  AddShard(app, o);
  app->option_defaults()->group(usual);
}

CLI::Option* AddDType(CLI::App* app, Options* o, const char* help) {
  return Named(app, "--dtype", "DTYPE", help, "f32, f16 or bf16", ParseFloat,
               &o->dtype);
}

absl::Status Settle(Options* o) {
  if (o->input == "-") {
    return absl::InvalidArgumentError(
        "-: cannot read standard input, because tensors are read out of order; "
        "name a file (./- for a file named -)");
  }
  if (auto s = SettleUsage(o); !s.ok()) return s;
  if (auto s = SettleSigns(o); !s.ok()) return s;
  QuantizeOptions& q = o->quantize;
  if (o->seed && q.rounding != Rounding::kStochastic) {
    return absl::InvalidArgumentError("--seed needs --rounding stochastic");
  }
  if (q.rounding == Rounding::kStochastic) {
    // The seed is drawn here, so that all tensors of a command use the same.
    q.stochastic.seed = o->seed ? *o->seed : DrawSeed();
  }
  return absl::OkStatus();
}

}  // namespace quantd::quantctl
