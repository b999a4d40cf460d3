// How often each code of a block scale occurs.
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

// What a code of a scale stands for.
enum class ScaleKind : uint8_t {
  kE4M3,      // the code itself
  kE8M0,      // the code itself
  kExponent,  // of a floating-point scale: its binary exponent, plus 127
};
std::string_view Name(ScaleKind kind);

struct ScaleCodes {
  ScaleKind kind = ScaleKind::kE4M3;
  std::array<uint64_t, 256> counts = {};

  void Add(const ScaleCodes& other);
  uint64_t total() const;
  // The code that half of all are not above.
  int median() const;
  // The share of those that are zero; and of those that have fewer digits than
  // the others, of E4M3 only.
  double zero_share() const;
  double subnormal_share() const;
};

// "0.0156" or "2^-7": what a code stands for.
std::string ValueText(ScaleKind kind, int code);

// Without padding.
absl::StatusOr<ScaleCodes> CountScales(const Model& model,
                                       const StoredWeight& weight);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_REPORT_SCALE_CODES_H_
