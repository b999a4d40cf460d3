// Finds the weights of an original model by the names that a model made from it
// may use.
#ifndef QUANTD_CLIENT_CHECKPOINT_CHECK_ORIGINALS_H_
#define QUANTD_CLIENT_CHECKPOINT_CHECK_ORIGINALS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/checkpoint/model.h"
#include "client/checkpoint/plan.h"
#include "client/checkpoint/stored.h"
#include "client/checkpoint/weight_values.h"

namespace quantd::checkpoint {

// A weight of the original.
struct OriginalWeight {
  const StoredWeight* stored = nullptr;  // set if the original is quantized
  int64_t expert = 0;
  // The weight as a conversion reads it; empty for a quantized stack.
  Weight plain;
  int64_t rows = 0;
  int64_t cols = 0;
};

class Originals {
 public:
  static absl::StatusOr<Originals> Of(const Model& model);

  const Model& model() const { return *model_; }
  const StoredModel& stored() const { return *stored_; }
  // Returns nullptr if there is no weight of that name.
  const OriginalWeight* Find(const std::string& name) const;
  // Returns nullptr if there is no weight of that name and shape. `expert` is
  // the expert's index in a stack.
  const OriginalWeight* Find(const StoredWeight& weight, int64_t expert) const;

  // An unquantized stack of experts, and the names of its experts when stored
  // separately: `whole` as in the tensor, `split` with gate and up apart.
  struct Stack {
    const ModelTensor* tensor = nullptr;
    std::vector<std::string> whole;
    std::vector<std::string> split;
  };
  const std::vector<Stack>& stacks() const { return stacks_; }

 private:
  const Model* model_ = nullptr;
  std::shared_ptr<const StoredModel> stored_;
  std::map<std::string, OriginalWeight> weights_;
  std::vector<Stack> stacks_;
};

// Decodes a weight of an original, or any tensor of numbers.
class OriginalValues {
 public:
  OriginalValues(const Model& model, const OriginalWeight& weight);
  // Reads a tensor of numbers that is not quantized.
  OriginalValues(const Model& model, const ModelTensor& tensor);

  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }

  // Reads rows [row, row + count): count * K numbers.
  absl::Status Read(int64_t row, int64_t count, std::vector<float>* out);

 private:
  const Model& model_;
  const OriginalWeight* weight_ = nullptr;
  // nullptr: rows are read with `weight_`
  std::unique_ptr<WeightValues> values_;
  int64_t rows_ = 0;
  int64_t cols_ = 0;
};

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CHECK_ORIGINALS_H_
