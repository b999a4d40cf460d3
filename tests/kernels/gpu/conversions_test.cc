// Tests that instructions that convert fp32 numbers give the codes of
// kernels/arith/codec.h and e2m1.h for all 2^32 numbers, including NaN, Inf,
// subnormal numbers and zeros. With QUANTD_CONTRACT_STRIDE=n it tests every
// n-th group of eight, and all numbers near a bf16.
#include "tests/kernels/gpu/conversions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "kernels/device/devices.h"
#include "tests/testing/device.h"

namespace quantd {
namespace {

TEST(GpuConversionsTest, GiveTheCodesOfTheArithmetic) {
  if (!GpuTarget()) GTEST_SKIP() << CudaUnavailableReason();
  int major = 0;
  ASSERT_EQ(
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0),
      cudaSuccess);
  const char* text = std::getenv("QUANTD_CONTRACT_STRIDE");
  const uint64_t stride =
      text ? std::max<uint64_t>(1, std::strtoull(text, nullptr, 10)) : 1;
  constexpr uint64_t kAll = uint64_t{1} << 29;
  const std::vector<PatternGroups> numbers = {
      {0, stride, (kAll - 1) / stride + 1},
      {0, 1 << 13, 1 << 16},
      {(1 << 13) - 1, 1 << 13, 1 << 16}};
  const std::vector<PatternGroups> codes = {{0, 1, 1 << 13}};
  for (const auto& [conversion, name] :
       {std::pair(Conversion::kToE2M1, "to E2M1"),
        {Conversion::kFromE2M1, "from E2M1"},
        {Conversion::kToE4M3, "to E4M3"},
        {Conversion::kToE5M2, "to E5M2"}}) {
    const bool e2m1 = conversion == Conversion::kToE2M1 ||
                      conversion == Conversion::kFromE2M1;
    for (const PatternGroups& groups :
         conversion == Conversion::kFromE2M1 ? codes : numbers) {
      Compared compared = {};
      ASSERT_EQ(Compare(conversion, groups, &compared), cudaSuccess) << name;
      EXPECT_EQ(compared.instruction, !e2m1 || major >= 10) << name;
      EXPECT_EQ(compared.differing, 0u)
          << name << ", groups of eight; one begins with pattern " << std::hex
          << compared.pattern;
    }
  }
}

}  // namespace
}  // namespace quantd
