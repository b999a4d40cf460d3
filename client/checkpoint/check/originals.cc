#include "client/checkpoint/check/originals.h"

#include <utility>

#include "client/checkpoint/convert/weight_reader.h"
#include "client/checkpoint/stacked.h"
#include "client/checkpoint/weight_values.h"
#include "client/checkpoint/weights.h"
#include "fmt/format.h"

namespace quantd::checkpoint {
namespace {

std::string KeyOf(const std::string& module, bool stacked, int64_t expert) {
  return stacked ? fmt::format("{}#{}", module, expert) : module;
}

}  // namespace

absl::StatusOr<Originals> Originals::Of(const Model& model) {
  Originals out;
  out.model_ = &model;
  auto stored = FindStored(model);
  if (!stored.ok()) return stored.status();
  out.stored_ = *std::move(stored);
  for (const StoredWeight& w : out.stored_.weights) {
    for (int64_t e = 0; e < w.experts; ++e) {
      out.weights_[KeyOf(w.module, w.layout->stacked, e)] = {
          &w, e, {}, w.rows, w.cols};
    }
  }
  for (const ModelTensor& t : model.tensors()) {
    // Experts of one tensor, together and each by itself.
    for (const bool whole : {false, true}) {
      const bool stacked = IsStacked(t);
      if (whole && !stacked) break;
      auto weights = WeightsOf(model, t, whole);
      if (!weights.ok()) continue;
      int64_t expert = 0;
      for (Weight& w : *weights) {
        const std::string name = KeyOf(w.module, whole, expert++);
        const int64_t rows = w.rows;
        const int64_t cols = w.cols;
        out.weights_[name] = {nullptr, 0, std::move(w), rows, cols};
      }
    }
  }
  return out;
}

const OriginalWeight* Originals::Find(const StoredWeight& w,
                                      int64_t expert) const {
  const auto found = weights_.find(KeyOf(w.module, w.layout->stacked, expert));
  if (found == weights_.end() || found->second.rows != w.rows ||
      found->second.cols != w.cols) {
    return nullptr;
  }
  return &found->second;
}

absl::Status Originals::Read(const OriginalWeight& w, int64_t row,
                             int64_t count, std::vector<float>* out) const {
  const std::string& dtype = w.plain.source->stored.dtype;
  const auto size = static_cast<size_t>(count * w.cols);
  std::vector<std::byte> bytes(
      size * static_cast<size_t>(safetensors::BitsOf(dtype) / 8));
  if (auto s = ReadRows(*model_, w.plain, row, count, absl::MakeSpan(bytes));
      !s.ok()) {
    return s;
  }
  out->resize(size);
  Decode(dtype, bytes, absl::MakeSpan(*out));
  return absl::OkStatus();
}

}  // namespace quantd::checkpoint
