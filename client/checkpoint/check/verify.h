// Quantizes an original again and counts the bytes that differ from those of a
// quantized model.
#ifndef QUANTD_CLIENT_CHECKPOINT_CHECK_VERIFY_H_
#define QUANTD_CLIENT_CHECKPOINT_CHECK_VERIFY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/checkpoint/convert/service.h"
#include "client/checkpoint/model.h"
#include "quantd/format.h"

namespace quantd::checkpoint {

struct VerifiedPart {
  std::string name;  // name of the tensor
  uint64_t bytes = 0;
  uint64_t differing = 0;
};

struct Verification {
  std::string profile;              // the profiles used, separated by commas
  std::vector<VerifiedPart> parts;  // all compared tensors, sorted by name
  // Weights that were not compared, each with the reason.
  std::vector<std::string> unmatched;

  uint64_t bytes() const;
  uint64_t differing() const;
};

// Quantizes with `profile`, or with the profile that the file names, or else
// with the dialect's own. The original is read into `room` piece by piece.
// INVALID_ARGUMENT if the model is not quantized.
absl::StatusOr<Verification> VerifyModel(
    const Model& original, const Model& quantized,
    std::optional<Profile> profile, absl::Span<std::byte> room,
    Service* service, absl::FunctionRef<void(size_t bytes)> progress);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CHECK_VERIFY_H_
