// The weights of an original model, by the names that quantized ones have.
#ifndef QUANTD_CLIENT_CHECKPOINT_CHECK_ORIGINALS_H_
#define QUANTD_CLIENT_CHECKPOINT_CHECK_ORIGINALS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/checkpoint/model.h"
#include "client/checkpoint/plan.h"
#include "client/checkpoint/stored.h"

namespace quantd::checkpoint {

// One of them, as it lies.
struct OriginalWeight {
  const StoredWeight* stored = nullptr;  // quantized itself
  int64_t expert = 0;
  Weight plain;  // or not
  int64_t rows = 0;
  int64_t cols = 0;
};

class Originals {
 public:
  static absl::StatusOr<Originals> Of(const Model& model);

  const Model& model() const { return *model_; }
  const StoredModel& stored() const { return stored_; }
  // nullptr: there is none of that shape under the name. `expert`: of a stack.
  const OriginalWeight* Find(const StoredWeight& weight, int64_t expert) const;

  // Some rows of one that is not quantized.
  absl::Status Read(const OriginalWeight& weight, int64_t row, int64_t count,
                    std::vector<float>* out) const;

 private:
  const Model* model_ = nullptr;
  StoredModel stored_;
  std::map<std::string, OriginalWeight> weights_;
};

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CHECK_ORIGINALS_H_
