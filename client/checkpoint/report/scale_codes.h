// Counts how often each code of a block scale occurs.
#ifndef QUANTD_CLIENT_CHECKPOINT_REPORT_SCALE_CODES_H_
#define QUANTD_CLIENT_CHECKPOINT_REPORT_SCALE_CODES_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "client/checkpoint/model.h"
#include "client/checkpoint/stored.h"

namespace quantd::checkpoint {

// The meaning of the codes that are counted.
enum class ScaleKind : uint8_t {
  kE4M3,      // the code itself
  kE8M0,      // the code itself
  kExponent,  // the binary exponent of a floating-point scale plus 127
};
std::string_view Name(ScaleKind kind);

struct ScaleCodes {
  ScaleKind kind = ScaleKind::kE4M3;
  std::array<uint64_t, 256> counts = {};

  void Add(const ScaleCodes& other);
  uint64_t total() const;
  // The median code.
  int median() const;
  // The shares of codes that are zero and of subnormal codes. Subnormal codes
  // have lower precision; only E4M3 has them.
  double zero_share() const;
  double subnormal_share() const;
};

// The value of a code as text: "0.0156" or "2^-7".
std::string ValueText(ScaleKind kind, int code);

// Counts all scales of a weight except padding.
absl::StatusOr<ScaleCodes> CountScales(const Model& model,
                                       const StoredWeight& weight);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_REPORT_SCALE_CODES_H_
