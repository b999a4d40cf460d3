// The options that formats_test.cc varies, besides format, dtype, usage,
// layout, groups and dbias.
#ifndef QUANTD_TESTS_KERNELS_CONTRACT_FORMATS_VARIANTS_H_
#define QUANTD_TESTS_KERNELS_CONTRACT_FORMATS_VARIANTS_H_

#include <cstddef>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "quantd/format.h"
#include "tests/oracle/oracle.h"

namespace quantd {

struct Variant {
  std::string name;
  std::function<void(oracle::QuantizeSpec&, size_t turn)> set;
};

// Changes nothing.
inline void Nearest(oracle::QuantizeSpec&, size_t) {}

// Values for given amaxes, including zero, those at which the encode scale S
// saturates, and the largest number.
inline constexpr float kGivenAmaxes[] = {
    3.0f,    0.0f, 1e-45f, 448.0f,   1e-37f,
    3e38f,   1.0f, 1e-4f,  7.9e-36f, std::numeric_limits<float>::max(),
    60000.0f};

// All variants that are legal with a format.
std::vector<Variant> VariantsFor(const FormatSpec& format);

}  // namespace quantd

#endif  // QUANTD_TESTS_KERNELS_CONTRACT_FORMATS_VARIANTS_H_
