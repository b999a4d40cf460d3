// Splits a module's name into its layer and its name within the layer.
#ifndef QUANTD_CLIENT_CHECKPOINT_REPORT_PLACE_H_
#define QUANTD_CLIENT_CHECKPOINT_REPORT_PLACE_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace quantd::checkpoint {

// "model.layers", 3 and "mlp.experts.*.up_proj" for
// "model.layers.3.mlp.experts.17.up_proj".
struct Place {
  std::string stack;   // the list of layers; "" if the module is in none
  int64_t layer = -1;  // -1 if the module is in none
  std::string name;    // the name within the layer, with * for numbers
};

Place PlaceOf(std::string_view module);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_REPORT_PLACE_H_
