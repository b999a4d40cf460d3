// What config.json says otherwise than the one of the original.
#ifndef QUANTD_CLIENT_CHECKPOINT_CHECK_CONFIG_DIFFERENCE_H_
#define QUANTD_CLIENT_CHECKPOINT_CHECK_CONFIG_DIFFERENCE_H_

#include <optional>
#include <string>
#include <vector>

#include "client/checkpoint/model.h"

namespace quantd::checkpoint {

struct ConfigDifference {
  std::string key;  // "rope_theta", "vision_config.hidden_act"
  std::string text;
  // What makes it the original's: that value at that place of the model's own
  // file; nothing: what is there goes.
  Json::json_pointer place;
  std::optional<Json> value;
};

// In all that quantizing does not change. None where one of them has no
// config.json.
std::vector<ConfigDifference> DifferencesOf(const Model& original,
                                            const Model& model);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CHECK_CONFIG_DIFFERENCE_H_
