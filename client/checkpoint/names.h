// Splits and compares names of modules and tensors.
#ifndef QUANTD_CLIENT_CHECKPOINT_NAMES_H_
#define QUANTD_CLIENT_CHECKPOINT_NAMES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quantd::checkpoint {

// The parts of a module's name between its dots.
using NameParts = std::vector<std::string_view>;

// Whether the part is the number of a layer or an expert, like "0" or "17".
bool IsIndex(std::string_view part);

// Removes ".weight" from a tensor's name: "model.layers.0.mlp.down_proj".
std::string_view ModuleOf(std::string_view tensor);

// "model.layers.0.mlp.gate_proj" has the parent "model.layers.0.mlp" and the
// leaf "gate_proj".
struct ModuleName {
  std::string_view parent;
  std::string_view leaf;
};
ModuleName SplitModule(std::string_view module);

// The module that contains the experts: "model.layers.0.mlp.experts" for
// "model.layers.0.mlp.experts.7.up_proj". "" if the module is not part of a
// single expert.
std::string_view ExpertsAbove(std::string_view module);

// Replaces each number by '#', so that all layers and experts get one name.
std::string WithoutNumbers(std::string_view name);

// The part of the name that a training wrapper added, such as "module."; "" if
// no wrapper changed it.
std::string_view WrapperOf(std::string_view name);

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
// Whether a part of the name is "experts".
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

#endif  // QUANTD_CLIENT_CHECKPOINT_NAMES_H_
