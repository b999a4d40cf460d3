// Position of a module in a model: its layer, and its name within the layer.
#ifndef QUANTD_CLIENT_CHECKPOINT_REPORT_PLACE_H_
#define QUANTD_CLIENT_CHECKPOINT_REPORT_PLACE_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace quantd::checkpoint {

// "model.layers", 3 and "mlp.experts.*.up_proj" of
// "model.layers.3.mlp.experts.17.up_proj".
struct Place {
  std::string stack;   // the name of the list of layers; empty: in none
  int64_t layer = -1;  // -1: in none
  std::string name;    // within the layer, with * for further numbers
};

Place PlaceOf(std::string_view module);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_REPORT_PLACE_H_
