// Every option changes the reply or is refused, alone and together with one or
// two other options, for every format and usage.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "kernels/device/devices.h"
#include "quantd/field_error.h"
#include "quantd/plan.h"
#include "tests/kernels/device/plan_rows.h"
#include "tests/testing/device.h"
#include "tests/testing/tensors.h"

namespace quantd {
namespace {

using O = QuantizeOptions;

constexpr int64_t kRows = 64;
constexpr int64_t kCols = 128;

// A field or an option, set to a value other than its default.
struct Use {
  std::string name;  // the field and its value
  std::function<void(O&)> set;
};
// Options whose fields are listed below, one by one. All others are set as in
// plan_rows.
constexpr uint32_t kListed = kOptRht | kOptStochastic | kOptFourOverSix |
                             kOptGivenAmax | kOptEstimation | kOptEpsilon |
                             kOptPowerOfTwo | kOptGivenScale | kOptHistory;

bool IsBlockScaled(const O& o) {
  return FindFormat(o.format)->scaling == Scaling::kBlock;
}

std::vector<Use> MakeUses() {
  std::vector<Use> uses = {
      {"rht.rowwise", [](O& o) { o.rht.rowwise = true; }},
      {"rht.columnwise", [](O& o) { o.rht.columnwise = true; }},
      {"rht.dimension", [](O& o) { o.rht.dimension = 32; }},
      {"rht.sign_mask",
       [](O& o) {
         o.rht.sign_mask = SignMask{{0x1234, 0}};
       }},
      {"non_finite propagate",
       [](O& o) { o.non_finite = NonFinite::kPropagate; }},
      {"non_finite reject", [](O& o) { o.non_finite = NonFinite::kReject; }},
      {"rowwise_amax", [](O& o) { o.rowwise_amax = {11}; }},
      {"columnwise_amax", [](O& o) { o.columnwise_amax = {13}; }},
      {"scale_256", [](O& o) { o.form.scale_256 = true; }},
      {"stochastic", [](O& o) { o.rounding = Rounding::kStochastic; }},
      {"seed", [](O& o) { o.stochastic.seed = 7; }},
      {"seed_offset", [](O& o) { o.stochastic.seed_offset = 1; }},
      {"row_offset", [](O& o) { o.shard.row_offset = 128; }},
      {"column_offset", [](O& o) { o.shard.column_offset = 128; }},
      {"total_columns", [](O& o) { o.shard.total_columns = 4096; }},
      {"four_over_six mae",
       [](O& o) { o.nvfp4.four_over_six = FourOverSix::kMae; }},
      {"four_over_six mse",
       [](O& o) { o.nvfp4.four_over_six = FourOverSix::kMse; }},
      {"fast_error", [](O& o) { o.nvfp4.fast_error = true; }},
      {"estimation", [](O& o) { o.nvfp4.amax_estimation_scale = 1.5f; }},
      {"epsilon", [](O& o) { o.fp8.epsilon = 10000; }},
      {"power_of_two", [](O& o) { o.fp8.power_of_two = !IsBlockScaled(o); }},
      {"scale", [](O& o) { o.fp8.scale = {0.37f}; }},
      {"history",
       [](O& o) {
         o.fp8.history = {{0, 3, 5}, HistoryRule::kMostRecent, 1};
       }},
      {"amax", [](O& o) { o.want_amax = true; }},
      {"dbias_dtype", [](O& o) { o.dbias_dtype = DType::kF32; }},
  };
  for (const OptionSpec& option : Options()) {
    if ((option.option & kListed) != 0) continue;
    for (const Setting& s : SettingsOf(option.option)) {
      uses.push_back({s.name, [set = s.set](O& o) {
                        TensorDesc tensor = {DType::kBF16, {kRows, kCols}};
                        set(tensor, o);
                      }});
    }
  }
  return uses;
}

const std::vector<Use>& Uses() {
  static const auto& uses = *new std::vector<Use>(MakeUses());
  return uses;
}

std::string_view FieldOf(const Use& use) {
  const std::string_view name = use.name;
  return name.substr(0, name.find(' '));
}

// Whether an option may have no effect on this test's inputs. `propagate`
// changes only some of the replies to NaN, and the fast error of 4over6 matters
// only at a tie. A profile may have TransformerEngine's bytes. Without copies,
// requesting dbias changes nothing, because Run then requests it anyway.
bool MayHaveNoEffect(Usage usage, std::string_view name) {
  return (usage == Usage::kNone && name == "dbias") ||
         name == "non_finite propagate" || name == "fast_error" ||
         name == "profile";
}

// Values of many magnitudes, and a NaN if requested.
oracle::Bytes Input(bool nan) {
  std::vector<float> x = oracle::Values(
      oracle::Element::kF32,
      MakeTensor(oracle::Element::kF32, kRows * kCols, Flavor::kGaussian, 3));
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] *= std::ldexp(1.0f, static_cast<int>(i / 640) - 6);
  }
  // A square that is encoded better for a maximum of 4 than of 6.
  for (int64_t i = 0; i < 256; ++i) {
    x[i / 16 * kCols + i % 16] = i % 2 == 0 ? 1.0f : 0.75f;
  }
  if (nan) x[4000] = NAN;
  return oracle::FromValues(oracle::Element::kBF16, x);
}

// A hash of the complete reply; nullopt for a refused request.
using Seen = std::optional<std::string>;

class Effects : public testing::TestWithParam<FormatSpec> {
 protected:
  void SetUp() override {
    auto backend = OpenBackend("cpu", {.threads = 1});
    ASSERT_TRUE(backend.ok());
    backend_ = *std::move(backend);
  }

  // The reply to a request with the options `used`, which are indices in Uses.
  const Seen& Reply(Usage usage, const std::vector<size_t>& used) {
    const auto [entry, fresh] = seen_.try_emplace({usage, used});
    if (fresh) entry->second = Run(usage, used);
    return entry->second;
  }

  Seen Run(Usage usage, const std::vector<size_t>& used) {
    O o;
    o.format = GetParam().format;
    o.usage = usage;
    // At least one output is needed.
    o.dbias = usage == Usage::kNone;
    for (size_t i : used) Uses()[i].set(o);
    const TensorDesc tensor = {DType::kBF16, {kRows, kCols}};
    const auto plan = MakeQuantizePlan(tensor, o);
    if (!plan.ok()) {
      EXPECT_TRUE(GetFieldViolation(plan.status())) << plan.status();
      return std::nullopt;
    }
    // A request made of the plan's options must be legal, too.
    const auto& understood = std::get<O>(plan->options());
    const auto again = MakeQuantizePlan(tensor, understood);
    EXPECT_TRUE(again.ok()) << again.status();
    ++legal_;
    std::string seen;
    for (const oracle::Bytes& input : inputs_) Add(*plan, input, &seen);
    return fmt::format("{}", std::hash<std::string>()(seen));
  }

  void Add(const Plan& plan, const oracle::Bytes& input, std::string* to) {
    std::string& seen = *to;
    const auto reply = RunPlan(*backend_, plan, {input});
    if (!reply.ok()) {
      seen += std::string(reply.status().message());
      return;
    }
    for (const TensorSpec& spec : plan.outputs()) {
      seen +=
          fmt::format("{} {} {} {} {};", Name(spec.kind), Name(spec.dtype),
                      Name(spec.layout), spec.size, spec.group_offsets.size());
    }
    const auto* data = reinterpret_cast<const char*>(reply->payload.data());
    seen.append(data, reply->payload.size());
    for (const auto& s : {reply->report.rowwise, reply->report.columnwise}) {
      if (s) seen += fmt::format("{} {} {};", s->elements, s->signal, s->noise);
    }
  }

  // Compares the reply to all options in `used` with the replies that lack one
  // of them.
  void Check(Usage usage, const std::vector<size_t>& used) {
    for (size_t i : used) {
      for (size_t k : used) {
        if (i < k && FieldOf(Uses()[i]) == FieldOf(Uses()[k])) return;
      }
    }
    const Seen& with = Reply(usage, used);
    if (!with) return;
    for (size_t i : used) {
      std::vector<size_t> rest;
      for (size_t k : used) {
        if (k != i) rest.push_back(k);
      }
      const Seen& without = Reply(usage, rest);
      if (!without || *with != *without ||
          MayHaveNoEffect(usage, Uses()[i].name)) {
        continue;
      }
      std::string names;
      for (size_t k : rest) names += fmt::format(" {}", Uses()[k].name);
      ADD_FAILURE() << GetParam().name << ", usage " << Name(usage) << ": "
                    << Uses()[i].name << " changes nothing together with"
                    << names;
    }
  }

  int legal_ = 0;

 private:
  std::unique_ptr<Backend> backend_;
  const oracle::Bytes inputs_[2] = {Input(false), Input(true)};
  std::map<std::pair<Usage, std::vector<size_t>>, Seen> seen_;
};

TEST_P(Effects, EveryOptionChangesTheReplyOrIsRefused) {
  const size_t n = Uses().size();
  for (const Usage usage :
       {Usage::kRowwise, Usage::kColumnwise, Usage::kBoth, Usage::kNone}) {
    for (size_t a = 0; a < n; ++a) {
      Check(usage, {a});
      for (size_t b = a + 1; b < n; ++b) {
        Check(usage, {a, b});
        for (size_t c = b + 1; c < n; ++c) Check(usage, {a, b, c});
      }
    }
  }
  EXPECT_GT(legal_, 50);
}

// An estimate makes the search for the rotated amax unnecessary, in every
// dimension, and does not turn on statistics.
TEST(Estimate, NeedsNoSearchForRotatedMaxima) {
  auto backend = OpenBackend("cpu", {.threads = 1});
  ASSERT_TRUE(backend.ok());
  for (const int dimension : kRhtDimensions) {
    O o;
    o.format = Format::kNvfp4;
    o.usage = Usage::kBoth;
    o.rht.columnwise = true;
    o.rht.dimension = dimension;
    const auto rotations = [&] {
      const uint64_t before = (*backend)->stats().rht_launches;
      const auto plan = MakeQuantizePlan({DType::kBF16, {kRows, kCols}}, o);
      const auto reply = RunPlanOnOwnMemory(**backend, *plan, {Input(false)});
      EXPECT_TRUE(reply.ok());
      EXPECT_FALSE(reply->report.rowwise || reply->report.columnwise);
      return (*backend)->stats().rht_launches - before;
    };
    EXPECT_EQ(rotations(), 2u);
    o.nvfp4.amax_estimation_scale = 2.0f;
    EXPECT_EQ(rotations(), 1u);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Effects, testing::ValuesIn(kFormats),
                         [](const auto& info) {
                           return std::string(info.param.name);
                         });

}  // namespace
}  // namespace quantd
