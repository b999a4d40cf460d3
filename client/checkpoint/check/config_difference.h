// Differences between a model's config.json and its original's.
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
  // How to restore the original's setting: this value at this place in the
  // model's own file; nullopt: remove what is there.
  Json::json_pointer place;
  std::optional<Json> value;
};

// Differences in settings that quantizing does not change. Empty if one of the
// models has no config.json.
std::vector<ConfigDifference> DifferencesOf(const Model& original,
                                            const Model& model);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CHECK_CONFIG_DIFFERENCE_H_
