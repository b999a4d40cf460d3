// Shapes of tensors that config.json implies, for model types whose code was
// examined. For other types nothing is known.
#ifndef QUANTD_CLIENT_CHECKPOINT_CHECK_SHAPE_TABLE_H_
#define QUANTD_CLIENT_CHECKPOINT_CHECK_SHAPE_TABLE_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "client/checkpoint/model.h"

namespace quantd::checkpoint {

// Whether the type is Llama, or differs from it only in numbers, biases and
// experts.
bool IsPlainDecoder(std::string_view type);
// Whether all layers of the type have the same parts, apart from experts.
bool HasUniformLayers(std::string_view type);
// Tensors that all layers of the type have. Empty if the type was not examined.
std::vector<std::string_view> PartsOfLayers(std::string_view type);
// Modules that may occur in the type's layers. Empty if the type was not
// examined.
absl::Span<const std::string_view> ModulesOfLayers(std::string_view type);
// Whether attention_bias and mlp_bias of config.json fully determine the type's
// biases.
bool SaysBiases(std::string_view type);
// The number of experts in a layer.
std::optional<int64_t> ExpertsOf(const Json& config);

class ShapeTable {
 public:
  ShapeTable(const Json& config, std::string_view type);

  // Returns nullopt if config.json does not determine the shape.
  std::optional<std::vector<int64_t>> Of(std::string_view tensor) const;

 private:
  bool known_ = false;
  bool own_attention_ = false;  // q_norm and k_norm do not have size head_dim
  std::optional<int64_t> hidden_;
  std::optional<int64_t> wide_;    // rows of gate and up
  std::optional<int64_t> expert_;  // intermediate size of an expert
  std::optional<int64_t> queries_;
  std::optional<int64_t> keys_;
  std::optional<int64_t> head_;
  std::optional<int64_t> words_;
};

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CHECK_SHAPE_TABLE_H_
