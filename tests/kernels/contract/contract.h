// The fixture of the contract tests: compares every device of the machine with
// the oracle, and counts the comparisons.
#ifndef QUANTD_TESTS_KERNELS_CONTRACT_CONTRACT_H_
#define QUANTD_TESTS_KERNELS_CONTRACT_CONTRACT_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
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

// M and K of a matrix. K is rounded up to the multiple that the combination
// needs.
struct Size {
  int64_t rows;
  int64_t cols;
};
// The sizes have more than 10^5 elements together. Some cover several tiles of
// 128 x 128. Some K are multiples of 8, which tuned kernels need, and some are
// not.
inline constexpr Size kSizes[] = {{1, 1},   {1, 300},   {7, 40},   {33, 129},
                                  {0, 48},  {130, 136}, {64, 257}, {257, 72},
                                  {16, 16}, {5, 0},     {128, 640}};

// A tensor of the suite, generated once and cached. The arguments determine its
// seed.
const oracle::Bytes& SuiteTensor(oracle::Element e, int64_t count, Flavor f);
// A sign mask of the suite; successive turns give different masks.
uint16_t SuiteMask(size_t turn);
// Picks one of `options` for combination number `turn`. Picks with different
// `salt` are independent, so that all pairs of options occur.
size_t Draw(size_t turn, uint64_t salt, size_t options);
// The flavors to test a size with: all flavors for a small size, one per turn
// for a large one.
std::vector<Flavor> FlavorsFor(const Size& size, size_t turn);
// Groups for M rows: empty groups at the start, at the end and between groups
// of various sizes.
std::vector<int64_t> SplitsFor(int64_t rows, size_t turn);

class ContractTest : public testing::Test {
 protected:
  void SetUp() override;
  // Prints the number of comparisons.
  void TearDown() override;

  // Whether there are so many failures that the test should stop.
  bool TooMany() const { return failures_ >= 20; }
  // Whether the next combination is compared. For slow machines and builds,
  // QUANTD_CONTRACT_STRIDE is N, and only every N-th one is compared.
  bool Chosen();
  void Combination() { ++combinations_; }
  // Calls `fn` with each device, and with `what` extended by its name.
  void OnEveryDevice(
      const std::string& what,
      const std::function<void(Device&, const std::string& where)>& fn);

  // Each of these runs a request on every device, and fails with `what` if a
  // result differs from the oracle's. All NaN are equal in decoded and rotated
  // values. Quantize returns the oracle's result.
  oracle::Quantized Quantize(const std::string& what,
                             const oracle::QuantizeSpec& spec,
                             const oracle::Bytes& x);
  void Dequantize(const std::string& what, const oracle::DequantizeSpec& spec,
                  const oracle::Copy& copy);
  void RhtAmax(const std::string& what, const oracle::AmaxSpec& spec,
               const AmaxFlags& flags, const oracle::Bytes& x);
  void ApplyRht(const std::string& what, oracle::Element e,
                std::optional<oracle::Element> output, const Size& size,
                const oracle::Mask& mask, bool inverse, const oracle::Bytes& x,
                int dimension = 16);

 private:
  void Check(const testing::AssertionResult& result);
  void Fail(const std::string& where, std::string_view how);
  void Same(const std::string& where, const std::vector<float>& want,
            const std::vector<float>& got);
  void Same(const std::string& where, const oracle::Copy& want,
            const oracle::Copy& got, bool statistics);
  // Compares whether a job found NaN and Inf in its input.
  void SameSeen(const std::string& where, bool nan, bool inf, bool got_nan,
                bool got_inf);

  std::vector<std::string> names_;
  std::vector<Device> devices_;
  size_t run_ = 0;
  int64_t elements_ = 0;
  int combinations_ = 0;
  int failures_ = 0;
};

}  // namespace quantd

#endif  // QUANTD_TESTS_KERNELS_CONTRACT_CONTRACT_H_
