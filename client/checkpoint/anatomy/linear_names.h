// The names of linear layers that engines and converters are known to take
// quantized. Everything else is not quantized unless the user names it.
#ifndef QUANTD_CLIENT_CHECKPOINT_ANATOMY_LINEAR_NAMES_H_
#define QUANTD_CLIENT_CHECKPOINT_ANATOMY_LINEAR_NAMES_H_

#include <string_view>
#include <vector>

namespace quantd::checkpoint {

// A module's name between its dots.
using NameParts = std::vector<std::string_view>;
NameParts PartsOfName(std::string_view text, char at);

// "0" and "17": the number of a layer or of an expert.
bool IsIndex(std::string_view part);

// Whether attention, a feed-forward layer or a mixer of a language model has a
// linear layer of that last name.
bool IsLinearName(std::string_view leaf);

// Whether the module is a linear layer of a language model by its own name and
// by the name of what it is in.
bool IsLanguageLinear(const NameParts& parts);

// Whether it is a linear layer by its own name in a block of a diffusion model.
bool IsDiffusionLinear(const NameParts& parts);

// Whether it is in a numbered block of a diffusion model: not in what prepares
// its inputs, nor in another model of the same file.
bool IsInDiffusionBlock(const NameParts& parts);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_ANATOMY_LINEAR_NAMES_H_
