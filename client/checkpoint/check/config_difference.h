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
  bool usual;  // saving the configuration again may cause it
};

// Whether a library saved the configuration again: it names another version.
// Libraries then also write their defaults, and leave some out.
bool IsSavedAgain(const Model& original, const Model& model);

// All differences between the settings, except those that a conversion writes.
// Empty if one of the models has no config.json.
std::vector<ConfigDifference> DifferencesOf(const Model& original,
                                            const Model& model);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CHECK_CONFIG_DIFFERENCE_H_
