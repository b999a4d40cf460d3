// Weights that lie beside a model's and that its index does not name.
#ifndef QUANTD_CLIENT_CHECKPOINT_ANATOMY_STRAYS_H_
#define QUANTD_CLIENT_CHECKPOINT_ANATOMY_STRAYS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/checkpoint/model.h"

namespace quantd::checkpoint {

// INVALID_ARGUMENT where one of these files is a shard that the index forgot:
// it has what other layers of the model have. Files of another form, or of
// layers beyond the last one, are beside many models: a note for each.
absl::Status CheckStrays(const Model& model, std::vector<std::string>* notes);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_ANATOMY_STRAYS_H_
