// `quantctl plan --kernels`: which kernels compute a plan on each device.
#ifndef QUANTD_CLIENT_QUANTCTL_PLAN_KERNELS_H_
#define QUANTD_CLIENT_QUANTCTL_PLAN_KERNELS_H_

#include <string>
#include <vector>

#include "kernels/plan/plan.h"

namespace quantd::quantctl {

// The choice of each device as text: "amax PlainAmax, encode EncodeNvfp4Rows".
struct Kernels {
  std::string cuda;
  std::string cpu;

  bool operator==(const Kernels&) const = default;
};
Kernels KernelsOf(const Plan& plan);

// Quantize or Dequantize of 256 x 512, whatever copies `options` have.
struct KernelsRow {
  std::string format;
  std::string copies;  // "both", "decode rowwise"
  std::string types;   // of the input, or of what is decoded: "bf16, f16"
  Kernels kernels;
};
// A row for each format, its copies and types that are legal with the rest of
// `options`; types with the same kernels share one.
std::vector<KernelsRow> KernelsTable(const QuantizeOptions& options);

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_PLAN_KERNELS_H_
