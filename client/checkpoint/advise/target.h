// The target of --format auto: a size or an accuracy.
#ifndef QUANTD_CLIENT_CHECKPOINT_ADVISE_TARGET_H_
#define QUANTD_CLIENT_CHECKPOINT_ADVISE_TARGET_H_

#include <cstdint>
#include <string>
#include <variant>

#include "absl/status/statusor.h"

namespace quantd::checkpoint {

// The least SQNR of each weight.
struct LeastDb {
  double db = 0;
};
// The most bytes of all tensors together.
struct MostBytes {
  uint64_t bytes = 0;
};
using Target = std::variant<LeastDb, MostBytes>;

// Parses "25dB", "4.5GiB" or "800MB". INVALID_ARGUMENT for anything else.
absl::StatusOr<Target> ParseTarget(const std::string& text);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_ADVISE_TARGET_H_
