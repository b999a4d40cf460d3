// The GPU against the CPU backend, over more elements than the oracle could
// do. QUANTD_GPU_ELEMENTS says how many (default 4e9) and
// QUANTD_GPU_PROFILE_ELEMENTS how many of each profile (default 1e9); the
// totals go to files in the folder QUANTD_RESULTS_DIR, if that is set.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <vector>

#include "fmt/format.h"
#include "kernels/device/devices.h"
#include "kernels/plan/profile/profile.h"
#include "kernels/plan/support.h"
#include "tests/testing/device.h"
#include "tests/testing/matchers.h"

namespace quantd {
namespace {

using oracle::Bytes;

constexpr uint32_t Hash(uint32_t x) {
  x = (x ^ (x >> 16)) * 0x21F0AAADu;
  x = (x ^ (x >> 15)) * 0xD35A2D97u;
  return x ^ (x >> 15);
}

enum class Fill { kOrdinary, kWide, kRaw };

// Numbers of a type with `mantissa` stored bits and `exponents` finite exponent
// fields, from element `first` to `last`.
template <typename T>
void FillRange(T* out, size_t first, size_t last, Fill fill, uint32_t seed,
               int mantissa, uint32_t exponents) {
  const uint32_t middle = exponents / 2;
  const uint32_t sign = uint32_t{1} << (8 * sizeof(T) - 1);
  for (size_t i = first; i < last; ++i) {
    const uint32_t h = Hash(static_cast<uint32_t>(i) + seed);
    const uint32_t low = (h >> 4) & ((uint32_t{1} << mantissa) - 1);
    const uint32_t block = Hash(static_cast<uint32_t>(i / 16) ^ ~seed);
    uint32_t exponent = middle - 4 + (h >> 28) % 8;
    if (fill == Fill::kWide) {
      exponent = (block % (exponents - 10)) + (h >> 28) % 8;
    }
    uint32_t v = (h & 1 ? sign : 0) | exponent << mantissa | low;
    v = (h >> 20 & 0xFF) == 0 ? 0 : v;  // one zero in 256
    out[i] = static_cast<T>(fill == Fill::kRaw ? h : v);
  }
}

Bytes MakeInput(DType dtype, size_t count, Fill fill, uint32_t seed) {
  Bytes bytes(count * SizeOf(dtype));
  const size_t threads = std::max(1u, std::thread::hardware_concurrency());
  const size_t step = (count + threads - 1) / threads;
  std::vector<std::thread> workers;
  for (size_t first = 0; first < count; first += step) {
    workers.emplace_back([&, first] {
      const size_t last = std::min(count, first + step);
      if (dtype == DType::kF32) {
        FillRange(reinterpret_cast<uint32_t*>(bytes.data()), first, last, fill,
                  seed, 23, 255);
      } else {
        FillRange(reinterpret_cast<uint16_t*>(bytes.data()), first, last, fill,
                  seed, dtype == DType::kBF16 ? 7 : 10,
                  dtype == DType::kBF16 ? 255 : 31);
      }
    });
  }
  for (auto& worker : workers) worker.join();
  return bytes;
}

struct Case {
  std::string name;
  absl::StatusOr<Plan> plan;
};

TensorDesc Matrix(DType dtype, int64_t rows, int64_t cols) {
  TensorDesc tensor;
  tensor.dtype = dtype;
  tensor.shape = {rows, cols};
  return tensor;
}

// Case `n` of an endless series in which options, types and shapes turn at
// different speeds.
Case MakeCase(int n) {
  constexpr DType kTypes[] = {DType::kBF16, DType::kF32, DType::kF16};
  constexpr int64_t kShapes[][2] = {
      {8192, 4096}, {4099, 8208}, {65536, 512}, {1000, 32768}, {33, 1048576}};
  const DType dtype = kTypes[n % 3];
  const auto& shape = kShapes[n / 2 % 5];
  const TensorDesc tensor = Matrix(dtype, shape[0], shape[1]);
  const auto where = fmt::format("{} {}x{}", Name(dtype), shape[0], shape[1]);
  const SignMask mask = {
      {static_cast<uint64_t>(n * 7919 + 0xD7E8) & 0xFFFF, 0}};
  switch (n % 8) {
    default: {
      QuantizeOptions o;
      o.format = Format::kNvfp4;
      o.usage = n % 8 == 5   ? Usage::kRowwise
                : n % 8 == 6 ? Usage::kColumnwise
                             : Usage::kBoth;
      o.rht.rowwise = n % 8 == 2 || n % 8 == 3 || n % 8 == 5;
      o.rht.columnwise = n % 8 == 1 || n % 8 == 3 || n % 8 == 6;
      if (o.rht.rowwise || o.rht.columnwise) o.rht.sign_mask = mask;
      if (n % 16 >= 8) o.non_finite = NonFinite::kPropagate;
      if (n % 5 == 0 && HasRowwise(o.usage)) o.rowwise_amax = {1.7f};
      if (n % 5 == 0 && HasColumnwise(o.usage)) o.columnwise_amax = {1.7f};
      return {fmt::format("quantize {} {} rht {}{}{}", where, Name(o.usage),
                          o.rht.rowwise, o.rht.columnwise,
                          n % 5 == 0 ? ", amax given" : ""),
              MakeQuantizePlan(tensor, o)};
    }
    case 4: {
      DequantizeOptions o;
      o.format = Format::kNvfp4;
      o.usage = n % 16 == 4 ? Usage::kColumnwise : Usage::kRowwise;
      o.output = dtype;
      o.inverse_rht = n / 16 % 2 == 0;
      if (o.inverse_rht) o.sign_mask = mask;
      return {fmt::format("dequantize {} {} {}", where, Name(o.usage),
                          o.inverse_rht),
              MakeDequantizePlan(tensor, o)};
    }
    case 7: {
      if (n % 16 == 7) {
        RhtAmaxOptions o;
        o.rowwise = o.columnwise = o.rowwise_rht = o.columnwise_rht = true;
        o.sign_mask = mask;
        return {"amax " + where, MakeRhtAmaxPlan(tensor, o)};
      }
      ApplyRhtOptions o;
      o.inverse = n / 16 % 2 == 0;
      o.sign_mask = mask;
      return {fmt::format("rotate {} {}", where, o.inverse),
              MakeApplyRhtPlan(tensor, o)};
    }
  }
}

// Case `n` of another series: any format, options by chance as far as they are
// legal together.
Case MakeFormatCase(int n) {
  constexpr DType kTypes[] = {DType::kBF16, DType::kF32, DType::kF16};
  constexpr int64_t kShapes[][2] = {
      {8192, 4096}, {4099, 8192}, {65536, 512}, {1000, 32768}, {33, 1048576}};
  const FormatSpec& format = kFormats[n % std::size(kFormats)];
  const DType dtype = kTypes[n % 3];
  const auto& shape = kShapes[n / 3 % 5];
  const TensorDesc tensor = Matrix(dtype, shape[0], shape[1]);
  for (uint32_t attempt = 0;; ++attempt) {
    uint32_t h = Hash(static_cast<uint32_t>(n) * 1009 + attempt);
    const auto chance = [&](uint32_t of) {
      h = Hash(h + 1);
      return h % of == 0;
    };
    QuantizeOptions o;
    o.format = format.format;
    o.usage = static_cast<Usage>(h % 3 + 1);
    o.rht.rowwise = chance(4);
    o.rht.columnwise = chance(3);
    if (o.rht.rowwise || o.rht.columnwise) {
      o.rht.dimension = kRhtDimensions[h / 7 % 4];
      if (chance(4)) o.amax_estimation_scale = 1.5f;
    }
    o.non_finite = chance(3) ? NonFinite::kPropagate : NonFinite::kIgnore;
    o.form.scale_layout = chance(3) ? Layout::kSwizzled : Layout::kLinear;
    o.form.compact_scales = chance(4);
    o.form.row_scaled = chance(4);
    if (chance(3)) {
      o.rounding = Rounding::kStochastic;
      o.stochastic.seed = h;
    }
    if (chance(5)) {
      o.four_over_six = h / 5 % 2 ? FourOverSix::kMae : FourOverSix::kMse;
      o.form.scale_256 = chance(2);
      o.fast_error = chance(2);
    }
    if (chance(3)) o.power_of_two = h / 3 % 2 == 0;
    o.scale_rule = static_cast<ScaleRule>(h / 11 % 4);
    if (chance(3)) {
      std::vector<int64_t> splits;
      for (int64_t left = shape[0]; left > 0; left -= splits.back()) {
        h = Hash(h + 1);
        splits.push_back(std::min<int64_t>(left, h % 300));
      }
      o.splits = splits;
    }
    o.dbias = chance(3);
    o.want_amax = chance(4);
    o.statistics = chance(6);
    auto plan = MakeQuantizePlan(tensor, o);
    if (!plan.ok()) continue;
    return {fmt::format("{} {} {}x{} {} options {:x}{}", format.name,
                        Name(dtype), shape[0], shape[1], Name(o.usage),
                        UsedOptions(o), o.rht.dimension),
            std::move(plan)};
  }
}

// Case `n` of the series of a profile: its formats by turns.
Case MakeProfileCase(const ProfileSpec& profile, int n) {
  constexpr DType kTypes[] = {DType::kBF16, DType::kF32, DType::kF16};
  constexpr int64_t kShapes[][2] = {{8192, 4096}, {4099, 8192}, {65536, 512}};
  int formats = 0;
  for (const ProfileFormat& f : profile.formats) {
    formats += f.format != Format::kUnspecified;
  }
  const Format format = profile.formats[n % formats].format;
  const FormatSpec& spec = *FindFormat(format);
  const int turn = n / formats;
  const DType dtype = kTypes[turn % (profile.f16 ? 3 : 2)];
  const auto& shape = kShapes[turn % 5 % 3];
  QuantizeOptions o;
  o.profile = profile.profile;
  o.format = format;
  o.non_finite = turn % 7 == 3 ? NonFinite::kPropagate : NonFinite::kIgnore;
  if (turn % 2 == 1 && (spec.options & kOptSwizzled) != 0) {
    o.form.scale_layout = Layout::kSwizzled;
  }
  if (spec.scaling == Scaling::kNvfp4 && turn % 4 == 1) o.rowwise_amax = {1.7f};
  if (spec.scaling == Scaling::kMx && profile.scale_rule) {
    o.scale_rule = static_cast<ScaleRule>(turn % 4);
  }
  o.statistics = turn % 6 == 5;
  return {fmt::format("{} {} {} {}x{} turn {}", profile.name, Name(format),
                      Name(dtype), shape[0], shape[1], turn),
          MakeQuantizePlan(Matrix(dtype, shape[0], shape[1]), o)};
}

bool Same(const std::optional<ErrorStatistics>& a,
          const std::optional<ErrorStatistics>& b) {
  if (!a || !b) return a.has_value() == b.has_value();
  return a->elements == b->elements && a->clipped == b->clipped &&
         a->flushed == b->flushed && a->max_error == b->max_error &&
         a->signal == b->signal && a->noise == b->noise;
}

std::vector<Bytes> MakeInputs(const Plan& plan, int n) {
  const auto fill = static_cast<Fill>(n / 3 % 3);
  if (plan.inputs().size() == 1) {
    return {MakeInput(plan.inputs()[0].dtype, plan.rows() * plan.cols(), fill,
                      n * 1000003u)};
  }
  // Codes and scales of any kind.
  std::vector<Bytes> inputs;
  for (const TensorSpec& spec : plan.inputs()) {
    Bytes bytes = MakeInput(DType::kF32, spec.size / 4, Fill::kRaw, n + 1);
    bytes.resize(spec.size);
    inputs.push_back(std::move(bytes));
  }
  inputs[2] = oracle::FromValues(oracle::Element::kF32, {n % 2 ? 3.3f : 1e36f});
  return inputs;
}

double Wanted(const char* variable, double otherwise) {
  const char* text = std::getenv(variable);
  return text ? std::atof(text) : otherwise;
}

// Both devices, and what was compared between them.
class GpuContractTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto target = GpuTarget();
    if (!target) GTEST_SKIP() << CudaUnavailableReason();
    BackendOptions options;
    options.memory_limit = size_t{4} << 30;
    auto gpu = Device::Open(*target, options);
    auto cpu = Device::Open({"cpu", "auto"}, options);
    ASSERT_THAT(gpu, IsOk());
    ASSERT_THAT(cpu, IsOk());
    gpu_.emplace(*std::move(gpu));
    cpu_.emplace(*std::move(cpu));
  }

  // Runs a case on both.
  void Compare(const Case& c) {
    SCOPED_TRACE(c.name);
    ASSERT_THAT(c.plan, IsOk());
    const std::vector<Bytes> inputs = MakeInputs(*c.plan, cases_++);
    const auto want = RunPlanOnOwnMemory(cpu_->backend(), *c.plan, inputs);
    const auto got = RunPlan(gpu_->backend(), *c.plan, inputs);
    ASSERT_THAT(want, IsOk());
    ASSERT_THAT(got, IsOk());
    const auto same =
        BytesEq(c.name, want->payload.bytes(), got->payload.bytes());
    EXPECT_TRUE(same);
    const bool same_report =
        want->report.saw_nan == got->report.saw_nan &&
        want->report.saw_inf == got->report.saw_inf &&
        Same(want->report.rowwise, got->report.rowwise) &&
        Same(want->report.columnwise, got->report.columnwise);
    EXPECT_TRUE(same_report) << "other findings";
    mismatches_ += !same || !same_report;
    elements_ += static_cast<double>(c.plan->rows()) * c.plan->cols();
    bytes_ += static_cast<double>(want->payload.size());
  }

  void Report(const char* file_name) {
    const nlohmann::json totals = {
        {"gpu", gpu_->backend().info().description},
        {"cpu", cpu_->backend().info().description},
        {"elements", elements_},
        {"output_bytes_compared", bytes_},
        {"combinations", cases_},
        {"combinations_with_mismatch", mismatches_},
        {"seconds", std::chrono::duration<double>(
                        std::chrono::steady_clock::now() - start_)
                        .count()},
    };
    std::cout << "[ COMPARED ] " << totals.dump() << "\n";
    if (const char* folder = std::getenv("QUANTD_RESULTS_DIR")) {
      std::ofstream file(fmt::format("{}/{}", folder, file_name));
      file << totals.dump(1) << "\n";
      EXPECT_TRUE(file.good()) << "cannot write to " << folder;
    }
  }

  std::optional<Device> gpu_;
  std::optional<Device> cpu_;
  double elements_ = 0;

 private:
  const std::chrono::steady_clock::time_point start_ =
      std::chrono::steady_clock::now();
  double bytes_ = 0;
  int cases_ = 0;
  int mismatches_ = 0;
};

TEST_F(GpuContractTest, AgreesWithTheCpu) {
  const double wanted = Wanted("QUANTD_GPU_ELEMENTS", 4e9);
  for (int n = 0; elements_ < wanted && !HasFatalFailure(); ++n) {
    Compare(n % 2 ? MakeFormatCase(n / 2) : MakeCase(n / 2));
  }
  Report("gpu_contract.json");
}

TEST_F(GpuContractTest, AgreesWithTheCpuUnderEveryProfile) {
  const double each = Wanted("QUANTD_GPU_PROFILE_ELEMENTS", 1e9);
  for (const ProfileSpec& profile : Profiles()) {
    if (profile.profile == Profile::kTe) continue;  // the test above
    const double wanted = elements_ + each;
    for (int n = 0; elements_ < wanted && !HasFatalFailure(); ++n) {
      Compare(MakeProfileCase(profile, n));
    }
  }
  Report("gpu_contract_profiles.json");
}

}  // namespace
}  // namespace quantd
