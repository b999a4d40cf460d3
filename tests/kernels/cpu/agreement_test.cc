// All instruction sets and thread counts give the same bytes, on tensors too
// large for the oracle. Every NaN in fp32 results has the same bits, too.
#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <iostream>
#include <memory>
#include <optional>
#include <vector>

#include "fmt/format.h"
#include "kernels/device/devices.h"
#include "tests/testing/device.h"
#include "tests/testing/matchers.h"
#include "tests/testing/tensors.h"

namespace quantd {
namespace {

using oracle::Bytes;
using oracle::Element;

struct Cpu {
  std::string name;
  Device device;
};

// The CPU configurations to compare. The first is the reference.
std::vector<Cpu> Cpus() {
  std::vector<Cpu> cpus;
  for (const std::string& isa : ListCpuIsas()) {
    for (int threads : {1, 2, 3}) {
      BackendOptions options;
      options.threads = threads;
      auto device = Device::Open({"cpu", isa}, options);
      EXPECT_THAT(device, IsOk());
      if (!device.ok()) continue;
      cpus.push_back(
          {fmt::format("{}, {} threads", isa, threads), *std::move(device)});
    }
  }
  return cpus;
}

// Runs one plan on every CPU; all payloads must equal the first.
void ExpectAgreement(std::vector<Cpu>& cpus, const std::string& what,
                     const absl::StatusOr<Plan>& plan,
                     const std::vector<Bytes>& inputs) {
  ASSERT_THAT(plan, IsOk());
  std::optional<Reply> reference;
  for (Cpu& cpu : cpus) {
    auto reply = RunPlan(cpu.device.backend(), *plan, inputs);
    ASSERT_THAT(reply, IsOk());
    if (!reference) {
      reference = *std::move(reply);
      continue;
    }
    EXPECT_TRUE(BytesEq(what + " on " + cpu.name, reference->payload.bytes(),
                        reply->payload.bytes()));
    EXPECT_EQ(reference->report.saw_nan, reply->report.saw_nan);
    EXPECT_EQ(reference->report.saw_inf, reply->report.saw_inf);
  }
}

constexpr int64_t kRows = 1003;
constexpr int64_t kCols = 1200;

TensorDesc Large(DType dtype) {
  TensorDesc tensor;
  tensor.dtype = dtype;
  tensor.shape = {kRows, kCols};
  return tensor;
}

TEST(CpuAgreementTest, Quantize) {
  auto cpus = Cpus();
  int64_t elements = 0;
  for (Element e : {Element::kF32, Element::kF16, Element::kBF16}) {
    for (Flavor f : {Flavor::kGaussian, Flavor::kSpread, Flavor::kRaw}) {
      const Bytes x = MakeTensor(e, kRows * kCols, f, 7);
      for (int turn = 0; turn < 8; ++turn) {
        const int rotated = turn % 4;
        QuantizeOptions options;
        options.format = Format::kNvfp4;
        options.usage = Usage::kBoth;
        if (turn >= 4) {
          options.rounding = Rounding::kStochastic;
          options.stochastic.seed = 99;
          options.shard.row_offset = 128;
        }
        options.rht.rowwise = rotated & 1;
        options.rht.columnwise = rotated & 2;
        options.non_finite =
            rotated % 2 ? NonFinite::kPropagate : NonFinite::kIgnore;
        // A NaN makes every scale saturate unless an amax is given.
        if (f == Flavor::kRaw) options.rowwise_amax = {1e20f};
        if (f == Flavor::kRaw) options.columnwise_amax = {1e20f};
        ExpectAgreement(
            cpus, fmt::format("{} {} {}", Name(DTypeOf(e)), Name(f), turn),
            MakeQuantizePlan(Large(DTypeOf(e)), options), {x});
        elements += kRows * kCols;
      }
    }
  }
  EXPECT_GE(elements, 10'000'000);
  std::cout << elements << " elements on each of " << cpus.size()
            << " CPU configurations\n";
}

TEST(CpuAgreementTest, Dequantize) {
  auto cpus = Cpus();
  for (bool columnwise : {false, true}) {
    for (DType output : {DType::kF32, DType::kF16, DType::kBF16}) {
      for (bool inverse : {false, true}) {
        DequantizeOptions options;
        options.format = Format::kNvfp4;
        options.usage = columnwise ? Usage::kColumnwise : Usage::kRowwise;
        options.output = output;
        options.inverse_rht = inverse;
        const auto plan =
            MakeDequantizePlan(Large(DType::kUnspecified), options);
        ASSERT_THAT(plan, IsOk());
        std::vector<Bytes> inputs;
        for (const TensorSpec& spec : plan->inputs()) {
          inputs.push_back(RandomBytes(spec.size, inputs.size()));
        }
        inputs[2] = oracle::FromValues(Element::kF32, {3.0f});
        ExpectAgreement(
            cpus, fmt::format("to {} {} {}", Name(output), columnwise, inverse),
            plan, inputs);
      }
    }
  }
}

TEST(CpuAgreementTest, RhtAmaxAndApplyRht) {
  auto cpus = Cpus();
  for (Element e : {Element::kF32, Element::kF16, Element::kBF16}) {
    for (Flavor f : {Flavor::kOutliers, Flavor::kSpread, Flavor::kRaw}) {
      const Bytes x = MakeTensor(e, kRows * kCols, f, 8);
      RhtAmaxOptions amax;
      amax.rowwise = amax.rowwise_rht = true;
      amax.columnwise = amax.columnwise_rht = true;
      ExpectAgreement(cpus, "amax", MakeRhtAmaxPlan(Large(DTypeOf(e)), amax),
                      {x});
      for (bool inverse : {false, true}) {
        ApplyRhtOptions rotate;
        rotate.inverse = inverse;
        ExpectAgreement(cpus, fmt::format("rotate {}", inverse),
                        MakeApplyRhtPlan(Large(DTypeOf(e)), rotate), {x});
      }
    }
  }
}

// Counted pieces tell a slow job from a hanging one, so each pass over the
// tensor must count many.
TEST(CpuAgreementTest, JobsCountTheirPieces) {
  QuantizeOptions options;
  options.format = Format::kNvfp4;
  options.dbias = true;
  const auto made = MakeQuantizePlan(Large(DType::kF32), options);
  ASSERT_THAT(made, IsOk());
  const auto plan = std::make_shared<const Plan>(*made);
  for (Cpu& cpu : Cpus()) {
    std::atomic<uint64_t> pieces = 0;
    auto job = cpu.device.backend().Begin(plan);
    ASSERT_THAT(job, IsOk());
    std::memset((*job)->staging().data(), 0, plan->input_bytes());
    (*job)->CountPieces(&pieces);
    EXPECT_THAT((*job)->Run(), IsOk());
    EXPECT_GE(pieces, 3u * 2) << cpu.name;
  }
}

// Bytes read and written per tick of CPU time; 0 if the plan is illegal.
double SpeedOf(Cpu& cpu, const QuantizeOptions& options, int64_t rows,
               int64_t cols) {
  const auto made = MakeQuantizePlan({DType::kBF16, {rows, cols}, -1}, options);
  if (!made.ok()) return 0;
  const auto plan = std::make_shared<const Plan>(*made);
  double best = 0;
  for (int i = 0; i < 4; ++i) {
    auto job = *cpu.device.backend().Begin(plan);
    std::memset(job->staging().data(), 0x3C, plan->input_bytes());
    const clock_t start = clock();
    EXPECT_THAT(job->Run(), IsOk());
    const auto ticks = static_cast<double>(clock() - start + 1);
    best = std::max(
        best, static_cast<double>(plan->input_bytes() + plan->output_bytes()) /
                  ticks);
  }
  return best;
}

// A tensor with one column should reach at least a tenth of the usual speed.
// This test fails only below a 300th of the speed of 512 x 512.
TEST(CpuAgreementTest, AColumnIsNotFarSlowerThanASquare) {
  std::vector<Cpu> cpus = Cpus();
  Cpu& best = cpus[cpus.size() - 3];  // with a single thread
  for (const FormatSpec& format : kFormats) {
    for (const Usage usage : {Usage::kRowwise, Usage::kColumnwise}) {
      QuantizeOptions options;
      options.format = format.format;
      options.usage = usage;
      const double tall = SpeedOf(best, options, 1 << 18, 1);
      if (tall == 0) continue;
      EXPECT_GT(tall, SpeedOf(best, options, 512, 512) / 300) << format.name;
    }
  }
}

TEST(CpuAgreementTest, RejectsOnEveryCpu) {
  Bytes x = MakeTensor(Element::kF32, kRows * kCols, Flavor::kGaussian, 9);
  for (uint32_t bits : {0x7FC00000u, 0xFF800000u}) {
    std::memcpy(&x[x.size() - 4], &bits, 4);  // the very last element
    QuantizeOptions options;
    options.format = Format::kNvfp4;
    options.non_finite = NonFinite::kReject;
    const auto plan = MakeQuantizePlan(Large(DType::kF32), options);
    ASSERT_THAT(plan, IsOk());
    for (Cpu& cpu : Cpus()) {
      EXPECT_THAT(RunPlan(cpu.device.backend(), *plan, {x}),
                  StatusIs(absl::StatusCode::kInvalidArgument))
          << cpu.name;
    }
  }
}

}  // namespace
}  // namespace quantd
