// The subject of a golden test: the oracle, or a device.
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

// Computes with the oracle or a device. An error of a device fails the test and
// gives an empty result.
class Subject {
 public:
  // Without a device it uses the oracle.
  explicit Subject(std::optional<Device> device) : device_(std::move(device)) {}

  oracle::Quantized Quantize(const oracle::QuantizeSpec& spec,
                             const oracle::Bytes& input);
  // Decodes; every NaN in the result is canonical.
  oracle::Bytes Dequantize(const oracle::DequantizeSpec& spec,
                           const oracle::Copy& copy);
  // All maxima of a bf16 matrix that its size allows.
  oracle::Amaxes RhtAmax(int64_t rows, int64_t cols, uint16_t mask,
                         const oracle::Bytes& input);
  // Rotates rows of 16.
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
