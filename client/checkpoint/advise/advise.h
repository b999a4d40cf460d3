// Chooses a format for each weight: the smallest one that meets a target. The
// errors are measured in one pass over the model.
#ifndef QUANTD_CLIENT_CHECKPOINT_ADVISE_ADVISE_H_
#define QUANTD_CLIENT_CHECKPOINT_ADVISE_ADVISE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "client/checkpoint/convert/service.h"
#include "client/checkpoint/model.h"
#include "client/checkpoint/plan.h"

namespace quantd::checkpoint {

// The lowest SQNR that a weight may have.
struct LeastDb {
  double db = 0;
};
// The largest size of all tensors together.
struct MostBytes {
  uint64_t bytes = 0;
};
using Target = std::variant<LeastDb, MostBytes>;

// Parses the target of --format auto, a size or an accuracy: "25dB", "4.5GiB"
// or "800MB". INVALID_ARGUMENT for anything else.
absl::StatusOr<Target> ParseTarget(const std::string& text);

// The candidate formats. The first one wins if several have equal size and
// SQNR.
inline constexpr WeightFormat kCandidates[] = {
    WeightFormat::kNvfp4, WeightFormat::kNvfp4FourOverSix, WeightFormat::kMxfp8,
    WeightFormat::kFp8};

// Size and accuracy of a group in one format.
struct Candidate {
  WeightFormat format = WeightFormat::kBf16;  // kBf16: not quantized
  uint64_t bytes = 0;
  double sqnr_db = 0;  // +infinity if not quantized
};

// Weights that engines fuse and that must therefore have one format. Most
// groups hold a single weight.
struct AdvisedGroup {
  std::vector<std::string> modules;
  std::vector<Candidate> candidates;  // from smallest to largest
  size_t chosen = 0;
};

struct Advice {
  std::vector<AdvisedGroup> groups;
  uint64_t bytes_in = 0;   // of all tensors
  uint64_t bytes_out = 0;  // with the chosen formats
  // Lines for `convert --rules`.
  std::vector<std::string> rules;
  // Formats of the dialect that were ruled out, each with the reason.
  std::vector<std::string> notes;
};

// Chooses among the dialect's formats for each weight of `selection`. Weights
// with rules keep the format of their rule. INVALID_ARGUMENT if the model
// cannot be converted to nvfp4 or the target cannot be met. `progress` receives
// the input bytes measured, once for each candidate, from one thread at a time.
absl::StatusOr<Advice> Advise(const Model& model, const Selection& selection,
                              const Target& target, const Pace& pace,
                              Service* service,
                              absl::FunctionRef<void(size_t bytes)> progress);

// Sets `chosen` of groups whose candidates are measured. `others` is the output
// bytes of all tensors outside the groups.
absl::Status Choose(const Target& target, uint64_t others,
                    std::vector<AdvisedGroup>* groups);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_ADVISE_ADVISE_H_
