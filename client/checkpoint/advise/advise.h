// Chooses a format for each weight: the cheapest that meets a target, by errors
// measured in one pass over the model.
#ifndef QUANTD_CLIENT_CHECKPOINT_ADVISE_ADVISE_H_
#define QUANTD_CLIENT_CHECKPOINT_ADVISE_ADVISE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "client/checkpoint/advise/target.h"
#include "client/checkpoint/convert/service.h"
#include "client/checkpoint/model.h"
#include "client/checkpoint/plan.h"

namespace quantd::checkpoint {

// The result of one format for a group.
struct Candidate {
  WeightFormat format = WeightFormat::kBf16;  // kBf16: not quantized
  uint64_t bytes = 0;
  double sqnr_db = 0;  // +infinity if not quantized
};

// Weights that engines fuse, which must have one format; most groups are a
// single weight.
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
  // Formats of the dialect that the model cannot have, and why.
  std::vector<std::string> notes;
};

// Advises on a conversion to nvfp4 with `selection`, choosing among the
// dialect's formats; weights with rules keep theirs. INVALID_ARGUMENT if the
// dialect has only one format or the target cannot be met. `progress` is told
// input bytes, once for each candidate, by one thread at a time.
absl::StatusOr<Advice> Advise(const Model& model, const Selection& selection,
                              const Target& target, const Pace& pace,
                              Service* service,
                              absl::FunctionRef<void(size_t bytes)> progress);

// Chooses for groups with measured candidates. `others` is the bytes of all
// other tensors.
absl::Status Choose(const Target& target, uint64_t others,
                    std::vector<AdvisedGroup>* groups);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_ADVISE_ADVISE_H_
