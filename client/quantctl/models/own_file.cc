#include <cstring>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "client/checkpoint/dialect.h"
#include "client/checkpoint/weight_values.h"
#include "client/quantctl/models/models.h"
#include "client/quantctl/tensor_input.h"
#include "fmt/format.h"
#include "quantd/local.h"

namespace quantd::quantctl {
namespace {

using checkpoint::ModelDifference;
using checkpoint::TensorDifference;

struct Numbers {
  std::vector<int64_t> shape;
  std::string kind;  // "BF16", "nvfp4"
  std::optional<checkpoint::WeightFormat> format;
  std::vector<float> values;
};

// Reads the tensors of a file as fp32, decoding them if they are quantized.
class Source {
 public:
  static absl::StatusOr<Source> Open(const std::string& path) {
    Source source;
    if (auto own = OpenOwn(path)) {
      for (const std::string& name : own->names())
        source.names_[name] = nullptr;
      source.own_ = std::move(own);
      return source;
    }
    auto plain = TensorInput::Open(path);
    if (!plain.ok()) return plain.status();
    source.plain_ = std::make_shared<TensorInput>(*std::move(plain));
    for (const InputTensor& t : source.plain_->tensors()) {
      if (t.skip.reason.empty()) source.names_[t.name] = &t;
    }
    return source;
  }

  const std::map<std::string, const InputTensor*>& names() const {
    return names_;
  }
  absl::StatusOr<Numbers> Read(Client& client, const std::string& name) const {
    Numbers n;
    if (const InputTensor* t = names_.at(name)) {
      std::vector<std::byte> bytes(t->size);
      if (auto s = t->read(0, absl::MakeSpan(bytes)); !s.ok()) return s;
      n.values.resize(t->size / SizeOf(t->desc.dtype));
      checkpoint::Decode(t->dtype_name, bytes, absl::MakeSpan(n.values));
      n.shape = t->desc.shape;
      n.kind = t->dtype_name;
      return n;
    }
    const auto q = own_->Load(name);
    if (!q.ok()) return q.status();
    const auto decoded = q->Dequantize(client, DType::kF32);
    if (!decoded.ok()) return decoded.status();
    const auto bytes = decoded->bytes(TensorKind::kDequantized);
    n.values.resize(bytes.size() / sizeof(float));
    std::memcpy(n.values.data(), bytes.data(), bytes.size());
    n.shape = q->shape();
    n.kind = Name(q->format());
    n.format = checkpoint::ParseWeightFormat(n.kind);
    return n;
  }

 private:
  std::optional<QuantizedFile> own_;
  std::shared_ptr<TensorInput> plain_;
  std::map<std::string, const InputTensor*> names_;  // nullptr if quantized
};

}  // namespace

std::optional<QuantizedFile> OpenOwn(const std::string& path) {
  if (!HasExtension(path, ".safetensors")) return std::nullopt;
  auto file = QuantizedFile::Open(path);
  if (!file.ok() || file->names().empty()) return std::nullopt;
  return *std::move(file);
}

int InspectOwn(const Options& options, const std::string& path,
               const QuantizedFile& file) {
  std::vector<std::vector<std::string>> rows = {
      {"tensor", "shape", "from", "format", "copies", "made with", "bytes"}};
  Json tensors = Json::array();
  for (const std::string& name : file.names()) {
    const auto d = file.Describe(name);
    if (!d.ok()) return Fail(options, kBadInput, d.status());
    uint64_t bytes = 0;
    for (const auto& t : QuantizedFile::Parts(name, d->tensor, d->options)) {
      bytes += t.size;
    }
    const QuantizeOptions& o = d->options;
    rows.push_back({name, SizesText(d->tensor.shape),
                    std::string(Name(d->tensor.dtype)),
                    std::string(Name(o.format)), std::string(Name(o.usage)),
                    std::string(Name(o.profile)), BytesText(bytes)});
    tensors.push_back({{"name", name},
                       {"shape", d->tensor.shape},
                       {"dtype", Name(d->tensor.dtype)},
                       {"format", Name(o.format)},
                       {"usage", Name(o.usage)},
                       {"profile", Name(o.profile)},
                       {"bytes", bytes}});
  }
  if (options.json) {
    Event({{"command", "inspect"},
           {"model", path},
           {"made_by", "quantctl quantize"},
           {"tensors", std::move(tensors)},
           {"exit_code", kOk}});
    return kOk;
  }
  fmt::print("{}: {} tensors, written by quantctl quantize\n", path,
             rows.size() - 1);
  PrintColumns(rows);
  return kOk;
}

int LintOwn(const Options& options, const std::string& path,
            const QuantizedFile& file) {
  std::vector<std::string> findings;
  for (const std::string& name : file.names()) {
    const auto d = file.Describe(name);
    if (!d.ok()) findings.emplace_back(d.status().message());
  }
  const int code = findings.empty() ? kOk : kFindings;
  if (options.json) {
    Event({{"command", "lint"},
           {"model", path},
           {"weights", file.names().size()},
           {"findings", findings},
           {"exit_code", code}});
    return code;
  }
  for (const std::string& f : findings) fmt::print("{}\n", f);
  fmt::print(
      "{0}: {2} of {1} tensors have parts that differ from the description in "
      "the file, which quantctl quantize wrote. Engines cannot load such "
      "files; use quantctl convert for models\n",
      path, file.names().size(), findings.size());
  return code;
}

absl::StatusOr<ModelDifference> CompareOwn(const std::string& a,
                                           const std::string& b) {
  auto first = Source::Open(a);
  if (!first.ok()) return first.status();
  auto second = Source::Open(b);
  if (!second.ok()) return second.status();
  const auto client = CreateClient("local:cpu");
  if (!client.ok()) return client.status();
  ModelDifference difference;
  for (const auto& [name, there] : second->names()) {
    if (!first->names().contains(name)) difference.only_b.push_back(name);
  }
  for (const auto& [name, here] : first->names()) {
    if (!second->names().contains(name)) {
      difference.only_a.push_back(name);
      continue;
    }
    const auto x = first->Read(**client, name);
    if (!x.ok()) return x.status();
    const auto y = second->Read(**client, name);
    if (!y.ok()) return y.status();
    if (x->shape != y->shape) {
      difference.not_compared.push_back(
          {name, fmt::format("the shapes differ: {} and {}",
                             SizesText(x->shape), SizesText(y->shape))});
      continue;
    }
    TensorDifference d = {name, x->kind, y->kind};
    d.format_a = x->format;
    d.format_b = y->format;
    d.cols = x->shape.back();
    d.rows = d.cols == 0 ? 0 : static_cast<int64_t>(x->values.size()) / d.cols;
    checkpoint::CompareValues(x->values, y->values, &d);
    difference.tensors.push_back(std::move(d));
  }
  return difference;
}

}  // namespace quantd::quantctl
