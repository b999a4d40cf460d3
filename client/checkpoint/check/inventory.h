// Summarizes a model: its quantized weights by format, its other tensors by
// type.
#ifndef QUANTD_CLIENT_CHECKPOINT_CHECK_INVENTORY_H_
#define QUANTD_CLIENT_CHECKPOINT_CHECK_INVENTORY_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "client/checkpoint/model.h"
#include "client/checkpoint/stored.h"

namespace quantd::checkpoint {

// All tensors of one format and dialect.
struct Kind {
  std::string format;  // "nvfp4", or the type of tensors that are not quantized
  std::string dialect;  // empty: not quantized
  size_t tensors = 0;
  uint64_t parameters = 0;
  uint64_t bytes = 0;  // including scales
};

// Sorted by format and dialect.
std::vector<Kind> InventoryOf(const Model& model, const StoredModel& stored);
Json JsonOf(const std::vector<Kind>& kinds);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CHECK_INVENTORY_H_
