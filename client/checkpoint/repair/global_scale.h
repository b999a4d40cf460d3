// What global scales are that are not those of their dialect.
#ifndef QUANTD_CLIENT_CHECKPOINT_REPAIR_GLOBAL_SCALE_H_
#define QUANTD_CLIENT_CHECKPOINT_REPAIR_GLOBAL_SCALE_H_

#include "absl/status/statusor.h"
#include "client/checkpoint/model.h"
#include "client/checkpoint/stored.h"

namespace quantd::checkpoint {

// Whether half of them, and half of their inverses, would mean weights as large
// as no model's, and be the largest weights of a model as they are: below 1,
// for larger ones may be 6 over a largest weight, and those that are 1 may be
// nothing.
absl::StatusOr<bool> AreAmaxes(const Model& model, const StoredModel& stored);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_REPAIR_GLOBAL_SCALE_H_
