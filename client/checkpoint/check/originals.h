// The weights of a model, by the names that another model of the same weights
// may have for them: what pairs an original with what was made of it.
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

// One of them, as it lies.
struct OriginalWeight {
  const StoredWeight* stored = nullptr;  // quantized itself
  int64_t expert = 0;
  Weight plain;  // of a stack that is not quantized, or of what is no stack
  int64_t rows = 0;
  int64_t cols = 0;
};

class Originals {
 public:
  static absl::StatusOr<Originals> Of(const Model& model);

  const Model& model() const { return *model_; }
  const StoredModel& stored() const { return *stored_; }
  // nullptr: there is none under the name.
  const OriginalWeight* Find(const std::string& name) const;
  // nullptr: there is none of that shape under the name. `expert`: of a stack.
  const OriginalWeight* Find(const StoredWeight& weight, int64_t expert) const;

  // Experts in one tensor, not quantized, and the names that each of them has
  // where they are apart: as the tensor has them, and with gate and up apart.
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

// The numbers of one of them.
class OriginalValues {
 public:
  OriginalValues(const Model& model, const OriginalWeight& weight);
  // Any tensor of numbers.
  OriginalValues(const Model& model, const ModelTensor& tensor);

  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }

  // Rows [row, row + count): count * K numbers.
  absl::Status Read(int64_t row, int64_t count, std::vector<float>* out);

 private:
  const Model& model_;
  const OriginalWeight* weight_ = nullptr;
  std::unique_ptr<WeightValues> values_;  // none: as `weight_` says
  int64_t rows_ = 0;
  int64_t cols_ = 0;
};

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CHECK_ORIGINALS_H_
