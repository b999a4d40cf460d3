// The subject that is asked for a golden vector: the oracle, or a device.
#ifndef QUANTD_TESTS_KERNELS_GOLDEN_GOLDEN_SUBJECT_H_
#define QUANTD_TESTS_KERNELS_GOLDEN_GOLDEN_SUBJECT_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/oracle/oracle.h"
#include "tests/testing/device.h"

namespace quantd {

inline constexpr uint16_t kDefaultMask = 0xD7E8;

// An error of the device fails the test and gives an empty answer.
class Subject {
 public:
  // Without a device, the oracle.
  explicit Subject(std::optional<Device> device) : device_(std::move(device)) {}

  oracle::Quantized Quantize(const oracle::QuantizeSpec& spec,
                             const oracle::Bytes& input);
  // With every NaN canonical.
  oracle::Bytes Dequantize(const oracle::DequantizeSpec& spec,
                           const oracle::Copy& copy);
  // Maxima of bf16: all that the size allows.
  oracle::Amaxes RhtAmax(int64_t rows, int64_t cols, uint16_t mask,
                         const oracle::Bytes& input);
  // In rows of 16.
  oracle::Bytes ApplyRht(oracle::Element in, oracle::Element out, uint16_t mask,
                         bool inverse, const oracle::Bytes& input);

 private:
  std::optional<Device> device_;
};

// The oracle, then every target.
std::vector<Target> Subjects();
std::string SubjectName(const testing::TestParamInfo<Target>& info);

class GoldenTest : public testing::TestWithParam<Target> {
 protected:
  void SetUp() override;

  std::optional<Subject> subject_;
};

}  // namespace quantd

#endif  // QUANTD_TESTS_KERNELS_GOLDEN_GOLDEN_SUBJECT_H_
