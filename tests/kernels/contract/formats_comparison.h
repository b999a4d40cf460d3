// What the contract of every format compares, and how: one answer of the oracle
// with those of all devices here.
#ifndef QUANTD_TESTS_KERNELS_CONTRACT_FORMATS_COMPARISON_H_
#define QUANTD_TESTS_KERNELS_CONTRACT_FORMATS_COMPARISON_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/plan/format.h"
#include "tests/oracle/oracle.h"
#include "tests/testing/device.h"

namespace quantd {

class FormatsComparison : public testing::TestWithParam<FormatSpec> {
 protected:
  void SetUp() override;
  // Says how much was compared.
  void TearDown() override;

  // Enough failures to see a pattern; then a test stops.
  bool TooMany() const { return failures_ >= 10; }
  // Whether a slow build (a sanitizer's) compares the next combination: it
  // takes one in so many.
  bool Chosen();

  // Quantizes `x` on every device and fails with `what` on a difference from
  // the oracle in anything that comes back. With dbias the copies are decoded
  // again as well.
  void Quantize(const std::string& what, const oracle::QuantizeSpec& spec,
                const oracle::Bytes& x);

  size_t turn_ = 0;  // of tensors; what is decoded takes its type by turns
  int combinations_ = 0;

 private:
  void Check(const testing::AssertionResult& result);
  void SameFloats(const std::string& what, const std::vector<float>& want,
                  const std::vector<float>& got);
  void Same(const std::string& what, const oracle::Copy& want,
            const oracle::Copy& got, bool statistics);
  void Decode(const std::string& what, const oracle::QuantizeSpec& made,
              bool columnwise, const oracle::Copy& copy);

  std::vector<std::string> names_;
  std::vector<Device> devices_;
  size_t run_ = 0;
  int64_t elements_ = 0;
  int failures_ = 0;
};

}  // namespace quantd

#endif  // QUANTD_TESTS_KERNELS_CONTRACT_FORMATS_COMPARISON_H_
