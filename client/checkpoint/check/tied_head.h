// Whether the head of a language model is the matrix of its embeddings.
#ifndef QUANTD_CLIENT_CHECKPOINT_CHECK_TIED_HEAD_H_
#define QUANTD_CLIENT_CHECKPOINT_CHECK_TIED_HEAD_H_

#include <optional>
#include <string_view>

#include "client/checkpoint/python_json.h"

namespace quantd::checkpoint {

inline constexpr char kTiedHead[] = "tie_word_embeddings";

// As libraries take it: what config.json says, else what the type of the model
// means. Nothing where neither does, or where it says both.
std::optional<bool> IsHeadTied(const Json& config, std::string_view type);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CHECK_TIED_HEAD_H_
