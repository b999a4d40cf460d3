#include "tests/kernels/gpu/random_request.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "kernels/plan/profile/profile.h"
#include "kernels/plan/support.h"
#include "tests/kernels/device/plan_rows.h"

namespace quantd {
namespace {

// Random choices as a function of a seed.
class Dice {
 public:
  explicit Dice(uint64_t seed) : state_(Mix(seed)) {}
  uint64_t Next() { return state_ = Mix(state_); }
  int64_t Below(int64_t n) { return static_cast<int64_t>((Next() >> 8) % n); }
  bool OneIn(int64_t n) { return Below(n) == 0; }
  template <typename T, size_t N>
  T Of(const T (&list)[N]) {
    return list[Below(N)];
  }

 private:
  uint64_t state_;
};

constexpr DType kTypes[] = {DType::kBF16, DType::kF32, DType::kF16};
// Extreme and ordinary amaxes for global scales.
constexpr float kAmaxes[] = {1.7f,     0.0f,  1e-45f,  1e-38f,  7.9e-36f, 3e-5f,
                             65504.0f, 3e38f, 1.2e30f, 3.4e38f, 448.0f,   6.0f};

// Options that have their own lines in DrawQuantize and DrawTeOptions. All
// others are set as in plan_rows.
constexpr uint32_t kDrawn =
    kOptRht | kOptStochastic | kOptFourOverSix | kOptSwizzled | kOptGivenAmax |
    kOptEstimation | kOptEpsilon | kOptPowerOfTwo | kOptGivenScale |
    kOptHistory | kOptScaleRule | kOptAlways | kOptProfile;

// Draws a request that is usually legal.
class Drawing {
 public:
  Drawing(uint64_t seed, double largest) : dice_(seed), largest_(largest) {}

  RandomRequest Draw(int number) {
    const Flavor flavor = dice_.Of(kFlavors);
    DrawTensor();
    const int64_t what = dice_.Below(10);
    const char* kind = "quantize";
    Profile profile = Profile::kTe;
    bool statistics = false;
    absl::StatusOr<Plan> plan = absl::UnknownError("not drawn");
    std::string options;
    if (what < 8) {
      const QuantizeOptions o = DrawQuantize();
      profile = o.profile;
      statistics = o.statistics;
      plan = MakeQuantizePlan(tensor_, o);
      options = fmt::format("{} {} used {:x} non-finite {}", Name(o.format),
                            Name(o.usage), UsedOptions(o),
                            static_cast<int>(o.non_finite));
    } else if (what == 8) {
      kind = "dequantize";
      const DequantizeOptions o = DrawDequantize();
      profile = o.profile;
      plan = MakeDequantizePlan(tensor_, o);
      options = fmt::format("{} {} to {}", Name(o.format), Name(o.usage),
                            Name(o.output));
    } else if (dice_.OneIn(2)) {
      kind = "amax";
      plan = MakeRhtAmaxPlan(tensor_, DrawAmax());
    } else {
      kind = "rotate";
      ApplyRhtOptions o;
      o.inverse = dice_.OneIn(2);
      o.rht_dimension = dice_.Of(kRhtDimensions);
      plan = MakeApplyRhtPlan(tensor_, o);
    }
    return {fmt::format("request {}: {} {} {} {}x{} {} {}", number, kind,
                        Name(profile), Name(tensor_.dtype), tensor_.shape[0],
                        tensor_.shape[1], Name(flavor), options),
            std::move(plan),
            flavor,
            dice_.Next(),
            std::string(Name(profile)),
            statistics};
  }

 private:
  // Draws a tensor, which is usually small. The large ones have most of the
  // elements.
  void DrawTensor() {
    constexpr int64_t kLarge[][2] = {
        {8192, 4096},  {4099, 8208},  {65536, 512},
        {1000, 32768}, {33, 1048576}, {2097152, 16},
        {16, 2097152}, {1048583, 7},  {2111, 16384}};
    constexpr int64_t kMultiples[] = {1, 8, 16, 32, 128};
    tensor_.dtype = dice_.Of(kTypes);
    const auto& large = kLarge[dice_.Below(std::size(kLarge))];
    if (dice_.OneIn(96) &&
        static_cast<double>(large[0] * large[1]) < largest_) {
      tensor_.shape = {large[0], large[1]};
      return;
    }
    const int64_t multiple = dice_.Of(kMultiples);
    tensor_.shape = {
        dice_.Below(dice_.OneIn(3) ? 400 : 40),
        (1 + dice_.Below(dice_.OneIn(4) ? 1000 : 300) / multiple) * multiple};
    if (dice_.OneIn(30)) tensor_.shape[1] = 0;
  }

  float DrawAmaxValue() {
    if (dice_.OneIn(2)) return dice_.Of(kAmaxes);
    return std::ldexp(1.0f + static_cast<float>(dice_.Below(256)) / 256,
                      static_cast<int>(dice_.Below(277)) - 149);
  }
  std::vector<float> DrawAmaxes(int64_t count) {
    std::vector<float> amaxes(static_cast<size_t>(count));
    for (float& a : amaxes) a = DrawAmaxValue();
    return amaxes;
  }
  // Draws the rows of groups. If `*partial`, rows remain after the last group.
  std::vector<int64_t> DrawSplits(bool* partial) {
    std::vector<int64_t> splits;
    const int64_t most = std::max<int64_t>(300, tensor_.shape[0] / 2000);
    for (int64_t left = tensor_.shape[0]; left > 0; left -= splits.back()) {
      splits.push_back(std::min(left, dice_.Below(most)));
    }
    *partial = splits.size() > 1 && dice_.OneIn(3);
    if (*partial) splits.pop_back();
    if (splits.empty()) splits.push_back(0);
    return splits;
  }

  QuantizeOptions DrawQuantize() {
    const ProfileSpec& profile = DrawProfile();
    QuantizeOptions o;
    o.profile = profile.profile;
    const FormatSpec& f = *FindFormat(DrawFormat(profile));
    o.format = f.format;
    const auto has = [&](uint32_t option, int64_t one_in) {
      return (f.options & option) != 0 && dice_.OneIn(one_in);
    };
    constexpr NonFinite kPolicies[] = {
        NonFinite::kIgnore,    NonFinite::kIgnore,    NonFinite::kIgnore,
        NonFinite::kPropagate, NonFinite::kPropagate, NonFinite::kReject};
    o.non_finite = dice_.Of(kPolicies);
    if (has(kOptSwizzled, 3)) o.form.scale_layout = Layout::kSwizzled;
    if (dice_.OneIn(3)) o.splits = DrawSplits(&o.partial_splits);
    o.want_amax = dice_.OneIn(4);
    o.statistics = dice_.OneIn(3);
    if (f.scaling == Scaling::kMx &&
        (profile.scale_rule || o.profile == Profile::kTe)) {
      o.mx.scale_rule = static_cast<ScaleRule>(dice_.Below(4));
    }
    if (o.profile == Profile::kTe) DrawTeOptions(f, &o);
    if (has(kOptGivenAmax, 3) && o.fp8.scale.empty()) DrawGivenAmax(f, &o);
    return o;
  }
  // Draws the options that only profile TE has.
  void DrawTeOptions(const FormatSpec& f, QuantizeOptions* o) {
    const auto has = [&](uint32_t option, int64_t one_in) {
      return (f.options & option) != 0 && dice_.OneIn(one_in);
    };
    o->usage = static_cast<Usage>(1 + dice_.Below(3));
    if (has(kOptRht, 2)) {
      o->rht.rowwise = HasRowwise(o->usage) && dice_.OneIn(2);
      o->rht.columnwise = HasColumnwise(o->usage) && dice_.OneIn(2);
      if (o->rht.rowwise || o->rht.columnwise) {
        o->rht.dimension = dice_.OneIn(2) ? 16 : dice_.Of(kRhtDimensions);
        o->rht.sign_mask = {{dice_.Next() & 0xFFFF, 0}};
        if (has(kOptEstimation, 4)) o->nvfp4.amax_estimation_scale = 1.5f;
      }
    }
    if (has(kOptStochastic, 3)) {
      o->rounding = Rounding::kStochastic;
      o->stochastic.seed = dice_.Next();
    } else if (has(kOptFourOverSix, 4)) {
      o->nvfp4.four_over_six =
          dice_.OneIn(2) ? FourOverSix::kMae : FourOverSix::kMse;
      o->form.scale_256 = dice_.OneIn(2);
      o->nvfp4.fast_error = dice_.OneIn(2);
    }
    if (has(kOptGivenScale, 4)) {
      o->fp8.scale = DrawAmaxes(o->splits ? int64_t(o->splits->size()) : 1);
      for (float& s : o->fp8.scale) s = std::max(s, 1e-45f);
    } else {
      if (has(kOptPowerOfTwo, 3)) o->fp8.power_of_two = dice_.OneIn(2);
      if (has(kOptEpsilon, 4)) o->fp8.epsilon = DrawAmaxValue();
    }
    o->dbias = dice_.OneIn(4);
    // Options that are not drawn above.
    for (const OptionSpec& spec : Options()) {
      if ((spec.option & kDrawn) != 0 || !has(spec.option, 4)) continue;
      const std::vector<Setting> settings = SettingsOf(spec.option);
      settings[dice_.Below(std::ssize(settings))].set(tensor_, *o);
    }
  }
  void DrawGivenAmax(const FormatSpec& f, QuantizeOptions* o) {
    int64_t rows = tensor_.shape[0];
    int64_t groups = 1;
    if (o->splits) {
      groups = static_cast<int64_t>(o->splits->size());
      rows = 0;
      for (const int64_t n : *o->splits) rows += n;
    }
    const bool lines = HasAmaxOfLines(f, o->form);
    if (HasRowwise(o->usage)) {
      o->rowwise_amax = DrawAmaxes(lines ? rows : groups);
    }
    if (HasColumnwise(o->usage)) {
      o->columnwise_amax =
          DrawAmaxes(lines ? groups * tensor_.shape[1] : groups);
    }
  }

  DequantizeOptions DrawDequantize() {
    const ProfileSpec& profile = DrawProfile();
    DequantizeOptions o;
    o.profile = profile.profile;
    const FormatSpec& f = *FindFormat(DrawFormat(profile));
    o.format = f.format;
    o.output = dice_.Of(kTypes);
    if (o.profile == Profile::kTe) {
      o.usage = dice_.OneIn(2) ? Usage::kRowwise : Usage::kColumnwise;
      if ((f.options & kOptRht) != 0) o.inverse_rht = dice_.OneIn(3);
      if (o.inverse_rht && dice_.OneIn(2)) {
        o.rht_dimension = dice_.Of(kRhtDimensions);
      }
      o.form.compact_scales = (f.options & kOptCompact) && dice_.OneIn(4);
      o.form.row_scaled = (f.options & kOptRowScaled) && dice_.OneIn(4);
      o.form.scale_256 = (f.options & kOptFourOverSix) && dice_.OneIn(4);
    }
    if ((f.options & kOptSwizzled) && !o.form.compact_scales &&
        dice_.OneIn(3)) {
      o.form.scale_layout = Layout::kSwizzled;
    }
    if (dice_.OneIn(3)) o.splits = DrawSplits(&o.partial_splits);
    return o;
  }

  RhtAmaxOptions DrawAmax() {
    RhtAmaxOptions o;
    o.rowwise = dice_.OneIn(2);
    o.columnwise = dice_.OneIn(2);
    o.rowwise_rht = dice_.OneIn(2);
    o.columnwise_rht = dice_.OneIn(2);
    if (o.rowwise_rht || o.columnwise_rht) {
      o.rht_dimension = dice_.Of(kRhtDimensions);
    }
    o.non_finite = dice_.OneIn(3) ? NonFinite::kPropagate : NonFinite::kIgnore;
    if (dice_.OneIn(4)) o.domain = AmaxDomain::kRow;
    if (dice_.OneIn(3)) o.splits = DrawSplits(&o.partial_splits);
    return o;
  }

  const ProfileSpec& DrawProfile() {
    return dice_.OneIn(2) ? *FindProfile(Profile::kTe)
                          : Profiles()[dice_.Below(Profiles().size())];
  }
  Format DrawFormat(const ProfileSpec& profile) {
    if (profile.profile == Profile::kTe) {
      return kFormats[dice_.Below(std::size(kFormats))].format;
    }
    Format format = Format::kUnspecified;
    while (format == Format::kUnspecified) {
      format = profile.formats[dice_.Below(std::size(profile.formats))].format;
    }
    return format;
  }

  Dice dice_;
  const double largest_;
  TensorDesc tensor_;
};

}  // namespace

RandomRequest DrawRequest(int number, double largest) {
  return Drawing(static_cast<uint64_t>(number), largest).Draw(number);
}

}  // namespace quantd
