// Whose arithmetic made a weight: what the metadata of shards says of it.
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

// Of all weights that nothing else is said of.
void SayMadeWith(Profile profile, safetensors::Metadata* metadata);
// Of one weight.
void SayMadeWith(const std::string& module, const MadeWith& made,
                 safetensors::Metadata* metadata);

// For metadata of weights that are made anew.
void DropMadeWith(safetensors::Metadata* metadata);

// What the model says of all weights; empty: nothing.
std::string ProfileSaid(const Model& model);
// What it says of this one; else its layout and that one's library.
MadeWith MadeWithOf(const Model& model, const StoredWeight& weight);

// That the scales of a module's blocks were fitted to another global scale, so
// that they are not quite those by which its codes were made.
void SayFitted(const std::string& module, safetensors::Metadata* metadata);
bool IsFitted(const Model& model, const StoredWeight& w);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_MADE_WITH_H_
