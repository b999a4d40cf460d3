// Which format each weight should have: the cheapest that meets a target, by
// the errors that one pass over the model shows.
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

// What weights come to in a format.
struct Candidate {
  WeightFormat format = WeightFormat::kBf16;  // kBf16: as they are
  uint64_t bytes = 0;
  double sqnr_db = 0;  // +infinity as they are
};

// Weights that engines fuse, which have one format; most are alone.
struct AdvisedGroup {
  std::vector<std::string> modules;
  std::vector<Candidate> candidates;  // from the cheapest to the dearest
  size_t chosen = 0;
};

struct Advice {
  std::vector<AdvisedGroup> groups;
  uint64_t bytes_in = 0;   // of all tensors
  uint64_t bytes_out = 0;  // with what is chosen
  // What `convert --rules` takes, a line each.
  std::vector<std::string> rules;
  // Formats of the dialect that the model cannot have, and why.
  std::vector<std::string> notes;
};

// Of candidates that the dialect has. `selection`: as for a conversion to
// nvfp4; what its rules are about stays with them. INVALID_ARGUMENT where the
// dialect has no choice, or where the target cannot be met. `progress`: told of
// bytes of the input, for every candidate again, by one thread at a time.
absl::StatusOr<Advice> Advise(const Model& model, const Selection& selection,
                              const Target& target, const Pace& pace,
                              Service* service,
                              absl::FunctionRef<void(size_t bytes)> progress);

// Chooses for groups whose candidates are known. `others`: bytes of all other
// tensors.
absl::Status Choose(const Target& target, uint64_t others,
                    std::vector<AdvisedGroup>* groups);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_ADVISE_ADVISE_H_
