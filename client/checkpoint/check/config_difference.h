// Compares a model's config.json with that of its original.
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
  // The repair: set this path in the model's config.json to `value`, or remove
  // the member if `value` is nullopt.
  Json::json_pointer place;
  std::optional<Json> value;
};

// The differences in settings that quantizing does not change. Empty if one of
// the models has no config.json.
std::vector<ConfigDifference> DifferencesOf(const Model& original,
                                            const Model& model);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CHECK_CONFIG_DIFFERENCE_H_
