// The fixture of the contract test: one device, and a count of what was
// compared.
#ifndef QUANTD_TESTS_KERNELS_CONTRACT_CONTRACT_H_
#define QUANTD_TESTS_KERNELS_CONTRACT_CONTRACT_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/oracle/oracle.h"
#include "tests/testing/device.h"
#include "tests/testing/tensors.h"

namespace quantd {

inline constexpr oracle::Element kElements[] = {
    oracle::Element::kF32, oracle::Element::kF16, oracle::Element::kBF16};
inline constexpr oracle::Policy kPolicies[] = {oracle::Policy::kIgnore,
                                               oracle::Policy::kPropagate,
                                               oracle::Policy::kReject};

// A tensor of the suite; made once. The seed is a function of the arguments.
const oracle::Bytes& SuiteTensor(oracle::Element e, int64_t count, Flavor f);
// Sign masks of the suite, by turns.
uint16_t SuiteMask(size_t turn);
// Which flavors a shape is tried with in a combination: all for a small one,
// one by turns for a large one.
std::vector<Flavor> FlavorsFor(const Shape& shape, size_t turn);

class ContractTest : public testing::TestWithParam<Target> {
 protected:
  void SetUp() override;
  void TearDown() override;

  Device& device() { return *device_; }
  // Enough failures to see a pattern; then a test stops.
  bool TooMany() const { return failures_ >= 20; }

  // Each counts `elements` and fails with `what` on a difference.
  void Expect(const std::string& what, const oracle::Quantized& want,
              const absl::StatusOr<oracle::Quantized>& got, int64_t elements);
  // As tensors of `e`; NaN equals NaN.
  void Expect(const std::string& what, oracle::Element e,
              const oracle::Bytes& want,
              const absl::StatusOr<oracle::Bytes>& got);
  void Expect(const std::string& what, const oracle::Amaxes& want,
              const AmaxFlags& flags, const absl::StatusOr<oracle::Amaxes>& got,
              int64_t elements);
  // What the last job said about its input.
  void ExpectSeen(const std::string& what, oracle::Element e,
                  const oracle::Bytes& input);
  void Combination() { ++combinations_; }

 private:
  void Check(const testing::AssertionResult& result);

  std::optional<Device> device_;
  int64_t elements_ = 0;
  int combinations_ = 0;
  int failures_ = 0;
};

}  // namespace quantd

#endif  // QUANTD_TESTS_KERNELS_CONTRACT_CONTRACT_H_
