// Metadata of shards about how weights were made: the profile (whose
// arithmetic) and whether scales were fitted.
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

// Records the profile of all weights without an entry of their own.
void SayMadeWith(Profile profile, safetensors::Metadata* metadata);
// Records the profile of one weight.
void SayMadeWith(const std::string& module, const MadeWith& made,
                 safetensors::Metadata* metadata);

// Removes these entries, for weights that are made anew.
void DropMadeWith(safetensors::Metadata* metadata);

// The profile recorded for all weights; empty: none.
std::string ProfileSaid(const Model& model);
// What is recorded for the weight, or else its layout with that dialect's
// library.
MadeWith MadeWithOf(const Model& model, const StoredWeight& weight);

// Records that a module's block scales were fitted to another global scale, so
// that they are not exactly those by which its codes were made.
void SayFitted(const std::string& module, safetensors::Metadata* metadata);
bool IsFitted(const Model& model, const StoredWeight& w);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_MADE_WITH_H_
