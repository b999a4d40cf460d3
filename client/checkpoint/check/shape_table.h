// The shapes that config.json says tensors to have, of model types whose code
// somebody looked at: those of others are anything.
#ifndef QUANTD_CLIENT_CHECKPOINT_CHECK_SHAPE_TABLE_H_
#define QUANTD_CLIENT_CHECKPOINT_CHECK_SHAPE_TABLE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "client/checkpoint/model.h"

namespace quantd::checkpoint {

// Llama and those that differ from it in numbers, biases and experts only.
bool IsPlainDecoder(std::string_view type);
// Those whose layers all have the same parts, but for experts.
bool HasUniformLayers(std::string_view type);
// What all of their layers have; nothing for a type whose code nobody looked
// at.
std::vector<std::string_view> PartsOfLayers(std::string_view type);
// The modules that their layers are made of; nothing for such a type.
absl::Span<const std::string_view> ModulesOfLayers(std::string_view type);
// Those that have biases just where config.json's attention_bias and mlp_bias
// say so.
bool SaysBiases(std::string_view type);
// How many experts a layer has.
std::optional<int64_t> ExpertsOf(const Json& config);

class ShapeTable {
 public:
  ShapeTable(const Json& config, std::string_view type);

  // nullopt: config.json does not say.
  std::optional<std::vector<int64_t>> Of(std::string_view tensor) const;

 private:
  bool known_ = false;
  bool own_attention_ = false;  // not that of Llama
  std::optional<int64_t> hidden_;
  std::optional<int64_t> wide_;    // rows of gate and up
  std::optional<int64_t> expert_;  // the same of an expert
  std::optional<int64_t> queries_;
  std::optional<int64_t> keys_;
  std::optional<int64_t> head_;
  std::optional<int64_t> words_;
};

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CHECK_SHAPE_TABLE_H_
