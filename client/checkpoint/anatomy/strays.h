// Checks files of weights in the model's directory that its index does not
// name.
#ifndef QUANTD_CLIENT_CHECKPOINT_ANATOMY_STRAYS_H_
#define QUANTD_CLIENT_CHECKPOINT_ANATOMY_STRAYS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/checkpoint/model.h"

namespace quantd::checkpoint {

// INVALID_ARGUMENT if the index lacks a shard: a file has tensors with the
// names of other layers of the model. Other files, such as MTP heads or weights
// in another form, are common; a note is added for each.
absl::Status CheckStrays(const Model& model, std::vector<std::string>* notes);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_ANATOMY_STRAYS_H_
