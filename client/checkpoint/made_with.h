// Reads and writes metadata of shards about how weights were made: the profile,
// which is the library whose arithmetic was used, and fitted scales.
#ifndef QUANTD_CLIENT_CHECKPOINT_MADE_WITH_H_
#define QUANTD_CLIENT_CHECKPOINT_MADE_WITH_H_

#include <optional>
#include <string>

#include "client/checkpoint/dialect.h"
#include "client/checkpoint/model.h"
#include "client/checkpoint/stored.h"

namespace quantd::checkpoint {

struct MadeWith {
  const WeightLayout* layout = nullptr;
  Profile profile = Profile::kTe;
};

// Records the profile of all weights that have no entry of their own.
void SayMadeWith(Profile profile, safetensors::Metadata* metadata);
// Records the profile of one weight.
void SayMadeWith(const std::string& module, const MadeWith& made,
                 safetensors::Metadata* metadata);

// Removes all entries of quantd, because the weights are about to be replaced.
void DropMadeWith(safetensors::Metadata* metadata);

// The profile recorded for all weights, "" if none is recorded.
std::string ProfileSaid(const Model& model);
// The recorded profile and layout of the weight. If none is recorded, its
// stored layout and that layout's default profile.
MadeWith MadeWithOf(const Model& model, const StoredWeight& weight);

// Records that a module's block scales were fitted to another global scale.
// They then differ slightly from the scales with which its codes were made.
void SayFitted(const std::string& module, safetensors::Metadata* metadata);
bool IsFitted(const Model& model, const StoredWeight& w);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_MADE_WITH_H_
