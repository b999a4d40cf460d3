// Splits names of tensors at the numbers of layers and experts.
#ifndef QUANTD_CLIENT_CHECKPOINT_CHECK_LAYER_NAMES_H_
#define QUANTD_CLIENT_CHECKPOINT_CHECK_LAYER_NAMES_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace quantd::checkpoint {

// "model.layers", 3 and "mlp.down_proj.weight" from
// "model.layers.3.mlp.down_proj.weight".
struct LayerName {
  std::string stack;  // "" if the tensor is in no layer
  int64_t number = -1;
  std::string rest;

  static LayerName Of(std::string_view name);
};

// "mlp.experts", 7 and "down_proj.weight" from
// "mlp.experts.7.down_proj.weight".
struct ExpertName {
  std::string parent;
  int64_t number = -1;  // -1 if the name is not an expert's
  std::string rest;

  static ExpertName Of(std::string_view name);
};

// The prefix of all names in a decoder except those of the head.
inline constexpr char kModelPrefix[] = "model.";
bool IsOfHead(std::string_view name);

// The name with '#' for numbers, such as "model.layers.#.mlp.down_proj".
std::string ClassOf(std::string_view name);
bool IsExperts(std::string_view name);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CHECK_LAYER_NAMES_H_
