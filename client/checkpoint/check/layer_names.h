// Splits names of tensors at the numbers of layers and experts.
#ifndef QUANTD_CLIENT_CHECKPOINT_CHECK_LAYER_NAMES_H_
#define QUANTD_CLIENT_CHECKPOINT_CHECK_LAYER_NAMES_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace quantd::checkpoint {

// "model.layers", 3 and "mlp.down_proj.weight".
struct LayerName {
  std::string stack;  // "" if it is in no layer
  int64_t number = -1;
  std::string rest;

  static LayerName Of(std::string_view name);
};

// "mlp.experts", 7 and "down_proj.weight", from a name below a layer.
struct ExpertName {
  std::string parent;
  int64_t number = -1;  // -1 if it is not an expert
  std::string rest;

  static ExpertName Of(std::string_view name);
};

// Prefix of everything in a decoder except the head.
inline constexpr char kModelPrefix[] = "model.";
bool IsOfHead(std::string_view name);

// "model.layers.#.mlp.down_proj": common to all layers.
std::string ClassOf(std::string_view name);
bool IsExperts(std::string_view name);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CHECK_LAYER_NAMES_H_
