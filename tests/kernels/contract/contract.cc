#include "tests/kernels/contract/contract.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iostream>
#include <map>
#include <tuple>

#include "fmt/format.h"
#include "kernels/device/devices.h"
#include "tests/testing/matchers.h"

namespace quantd {
namespace {

using oracle::Bytes;
using oracle::Element;

uint32_t Bits(float v) { return std::bit_cast<uint32_t>(v); }

testing::AssertionResult SameBits(const std::string& what,
                                  const std::vector<float>& want,
                                  const std::vector<float>& got) {
  if (want.size() != got.size()) {
    return testing::AssertionFailure() << fmt::format(
               "{}: expected {} values, got {}", what, want.size(), got.size());
  }
  for (size_t i = 0; i < want.size(); ++i) {
    if (Bits(want[i]) == Bits(got[i])) continue;
    return testing::AssertionFailure() << fmt::format(
               "{}, {}: expected {} (0x{:08X}), got {} (0x{:08X})", what, i,
               want[i], Bits(want[i]), got[i], Bits(got[i]));
  }
  return testing::AssertionSuccess();
}

}  // namespace

const Bytes& SuiteTensor(Element e, int64_t count, Flavor f) {
  static auto& tensors =
      *new std::map<std::tuple<Element, int64_t, Flavor>, Bytes>;
  const auto [at, fresh] = tensors.try_emplace({e, count, f});
  if (fresh) {
    at->second = MakeTensor(e, count, f, Mix(count) + static_cast<int>(f));
  }
  return at->second;
}

uint16_t SuiteMask(size_t turn) {
  constexpr uint16_t kMasks[] = {0xD7E8, 0x0000, 0xFFFF, 0x0001,
                                 0x8000, 0x5A3C, 0x7FFE};
  return kMasks[turn % std::size(kMasks)];
}

std::vector<Flavor> FlavorsFor(const Shape& shape, size_t turn) {
  if (shape.rows * shape.cols <= 3000) {
    return {std::begin(kFlavors), std::end(kFlavors)};
  }
  return {kFlavors[turn % std::size(kFlavors)]};
}

void ContractTest::SetUp() {
  if (GetParam().device == "cuda") GTEST_SKIP() << CudaUnavailableReason();
  BackendOptions options;
  options.threads = 2;
  auto device = Device::Open(GetParam(), options);
  ASSERT_THAT(device, IsOk());
  device_.emplace(*std::move(device));
}

void ContractTest::TearDown() {
  if (!device_) return;
  std::cout << fmt::format(
      "[ COMPARED ] {} on {}: {} combinations, {} elements\n",
      testing::UnitTest::GetInstance()->current_test_info()->name(),
      device_->backend().info().description, combinations_, elements_);
}

void ContractTest::Check(const testing::AssertionResult& result) {
  if (!result) ++failures_;
  EXPECT_TRUE(result) << "on " << ToString(GetParam());
}

void ContractTest::Expect(const std::string& what,
                          const oracle::Quantized& want,
                          const absl::StatusOr<oracle::Quantized>& got,
                          int64_t elements) {
  if (!got.ok()) {
    Check(testing::AssertionFailure() << what << ": " << got.status());
    return;
  }
  elements_ += elements;
  if (want.rejected || got->rejected) {
    if (want.rejected != got->rejected) {
      Check(testing::AssertionFailure()
            << what << ": rejected: expected " << want.rejected << ", got "
            << got->rejected);
    }
    return;
  }
  if (want.saw_nan != got->saw_nan || want.saw_inf != got->saw_inf) {
    Check(testing::AssertionFailure()
          << what << ": saw NaN, Inf: expected " << want.saw_nan << ", "
          << want.saw_inf << ", got " << got->saw_nan << ", " << got->saw_inf);
  }
  const auto copy = [&](const std::string& name, const oracle::Copy& expected,
                        const oracle::Copy& actual) {
    Check(SameBits(what + name + " amax", expected.amax, actual.amax));
    Check(BytesEq(what + name + " scales", expected.scale, actual.scale));
    Check(BytesEq(what + name + " codes", expected.data, actual.data));
  };
  copy(" rowwise", want.rowwise, got->rowwise);
  copy(" columnwise", want.columnwise, got->columnwise);
}

void ContractTest::Expect(const std::string& what, Element e, const Bytes& want,
                          const absl::StatusOr<Bytes>& got) {
  if (!got.ok()) {
    Check(testing::AssertionFailure() << what << ": " << got.status());
    return;
  }
  elements_ += static_cast<int64_t>(want.size()) / oracle::ElementSize(e);
  Check(BytesEq(what, oracle::CanonicalNaNs(e, want),
                oracle::CanonicalNaNs(e, *got)));
}

void ContractTest::Expect(const std::string& what, const oracle::Amaxes& want,
                          const AmaxFlags& flags,
                          const absl::StatusOr<oracle::Amaxes>& got,
                          int64_t elements) {
  if (!got.ok()) {
    Check(testing::AssertionFailure() << what << ": " << got.status());
    return;
  }
  elements_ += elements;
  if (want.rejected != got->rejected) {
    Check(testing::AssertionFailure()
          << what << ": rejected: expected " << want.rejected << ", got "
          << got->rejected);
  }
  if (want.rejected || got->rejected) return;
  const auto one = [&](bool wanted, const char* name,
                       const std::vector<float>& expected,
                       const std::vector<float>& actual) {
    if (wanted) Check(SameBits(what + name, expected, actual));
  };
  one(flags.row, " row", want.row, got->row);
  one(flags.row_rotated, " row, rotated", want.row_rotated, got->row_rotated);
  one(flags.column, " column", want.column, got->column);
  one(flags.column_rotated, " column, rotated", want.column_rotated,
      got->column_rotated);
}

void ContractTest::ExpectSeen(const std::string& what, Element e,
                              const Bytes& input) {
  const auto x = oracle::Values(e, input);
  const bool nan =
      std::any_of(x.begin(), x.end(), [](float v) { return std::isnan(v); });
  const bool inf =
      std::any_of(x.begin(), x.end(), [](float v) { return std::isinf(v); });
  const JobReport& report = device_->report();
  if (report.saw_nan == nan && report.saw_inf == inf) return;
  Check(testing::AssertionFailure()
        << what << ": saw NaN, Inf: expected " << nan << ", " << inf << ", got "
        << report.saw_nan << ", " << report.saw_inf);
}

}  // namespace quantd
