#include "client/checkpoint/check/originals.h"

#include <utility>

#include "client/checkpoint/convert/weight_reader.h"
#include "client/checkpoint/stacked.h"
#include "client/checkpoint/weights.h"
#include "fmt/format.h"

namespace quantd::checkpoint {

absl::StatusOr<Originals> Originals::Of(const Model& model) {
  Originals out;
  out.model_ = &model;
  auto stored = FindStored(model);
  if (!stored.ok()) return stored.status();
  // A shared_ptr, because weights point into it even after `out` is moved.
  out.stored_ = std::make_shared<const StoredModel>(*std::move(stored));
  for (const StoredWeight& w : out.stored_->weights) {
    for (int64_t e = 0; e < w.experts; ++e) {
      out.weights_[w.name_of(e)] = {
          &w, e, w.layout->stacked ? Weight{} : WeightOf(w), w.rows, w.cols};
    }
  }
  for (const ModelTensor& t : model.tensors()) {
    Stack stack = {&t, {}, {}};
    // Adds experts of a stack under both names: whole, and with gate and up
    // split.
    for (const bool whole : {false, true}) {
      if (whole && !IsStacked(t)) break;
      auto weights = WeightsOf(model, t, whole);
      if (!weights.ok()) continue;
      int64_t expert = 0;
      for (Weight& w : *weights) {
        const std::string name =
            whole ? fmt::format("{}.{}", w.module, expert++) : w.module;
        (whole ? stack.whole : stack.split).push_back(name);
        const int64_t rows = w.rows;
        const int64_t cols = w.cols;
        out.weights_[name] = {nullptr, 0, std::move(w), rows, cols};
      }
    }
    if (IsStacked(t)) out.stacks_.push_back(std::move(stack));
  }
  return out;
}

const OriginalWeight* Originals::Find(const std::string& name) const {
  const auto found = weights_.find(name);
  return found == weights_.end() ? nullptr : &found->second;
}

const OriginalWeight* Originals::Find(const StoredWeight& w,
                                      int64_t expert) const {
  const OriginalWeight* found = Find(w.name_of(expert));
  const bool same =
      found != nullptr && found->rows == w.rows && found->cols == w.cols;
  return same ? found : nullptr;
}

OriginalValues::OriginalValues(const Model& model, const OriginalWeight& weight)
    : model_(model), weight_(&weight), rows_(weight.rows), cols_(weight.cols) {
  if (weight.stored != nullptr) {
    values_ =
        std::make_unique<WeightValues>(model, *weight.stored, weight.expert);
    // Decodes blocks of zeros as a conversion does.
    values_->MendZeros();
  }
}

OriginalValues::OriginalValues(const Model& model, const ModelTensor& tensor)
    : model_(model), values_(std::make_unique<WeightValues>(model, tensor)) {
  rows_ = values_->rows();
  cols_ = values_->cols();
}

absl::Status OriginalValues::Read(int64_t row, int64_t count,
                                  std::vector<float>* out) {
  if (values_) return values_->Read(row, count, out);
  const Weight& w = weight_->plain;
  const std::string& dtype = w.source->stored.dtype;
  const auto size = static_cast<size_t>(count * w.cols);
  std::vector<std::byte> bytes(
      size * static_cast<size_t>(safetensors::BitsOf(dtype) / 8));
  if (auto s = ReadRows(model_, w, row, count, absl::MakeSpan(bytes));
      !s.ok()) {
    return s;
  }
  out->resize(size);
  Decode(dtype, bytes, absl::MakeSpan(*out));
  return absl::OkStatus();
}

}  // namespace quantd::checkpoint
