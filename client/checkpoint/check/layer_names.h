// Splits names of modules and tensors at the numbers of layers and experts.
#ifndef QUANTD_CLIENT_CHECKPOINT_CHECK_LAYER_NAMES_H_
#define QUANTD_CLIENT_CHECKPOINT_CHECK_LAYER_NAMES_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace quantd::checkpoint {

// "model.layers", 3 and "mlp.down_proj.weight" of
// "model.layers.3.mlp.down_proj.weight".
struct NumberedName {
  std::string before;
  int64_t number = -1;  // -1 if the name has no such number
  std::string rest;

  // "model.layers.3", or "".
  std::string whole() const;
};

// Splits the name at the number of its layer, or at that of its expert.
NumberedName LayerOf(std::string_view name);
NumberedName ExpertOf(std::string_view name);

// The prefix of all names in a decoder except those of the head.
inline constexpr char kModelPrefix[] = "model.";
bool IsOfHead(std::string_view name);

// The name with '#' for numbers, such as "model.layers.#.mlp.down_proj".
std::string ClassOf(std::string_view name);
bool IsExperts(std::string_view name);

// "model.layers", 3 and "mlp.experts.*.up_proj" for
// "model.layers.3.mlp.experts.17.up_proj".
struct Place {
  std::string stack;   // the list of layers; "" if the module is in none
  int64_t layer = -1;  // -1 if the module is in none
  std::string name;    // the name within the layer, with * for numbers
};

Place PlaceOf(std::string_view module);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CHECK_LAYER_NAMES_H_
