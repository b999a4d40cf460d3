#include "client/checkpoint/plan.h"

#include <algorithm>
#include <set>
#include <utility>

#include "client/checkpoint/anatomy/role.h"
#include "client/checkpoint/anatomy/storage.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace quantd::checkpoint {

size_t SizeOfShape(std::string_view dtype, const std::vector<int64_t>& shape) {
  size_t bits = static_cast<size_t>(safetensors::BitsOf(dtype));
  for (const int64_t d : shape) bits *= static_cast<size_t>(d);
  return bits / 8;
}

size_t Weight::size_bytes() const {
  return stored ? stored->size_bytes()
                : SizeOfShape(source->stored.dtype, {rows, cols});
}

// Stacked experts become [E, K, N], as in the original gpt-oss.
safetensors::Tensor DecodedWeight::tensor() const {
  constexpr char kType[] = "BF16";
  std::vector<int64_t> shape = {stored.rows, stored.cols};
  if (stored.layout->stacked) {
    shape = {stored.experts, stored.cols, stored.rows};
  }
  if (!experts.empty()) {
    shape = {static_cast<int64_t>(experts.size()) / joined, stored.cols,
             stored.rows * joined};
  }
  const size_t size = SizeOfShape(kType, shape);
  return {name, kType, std::move(shape), 0, size};
}

std::map<WeightFormat, size_t> ConversionPlan::formats() const {
  std::map<WeightFormat, size_t> counts;
  for (const FusedWeights& group : groups) {
    for (const Weight& w : group.weights) ++counts[w.layout->format];
  }
  // Decoded weights count only if the plan quantizes nothing. Otherwise they
  // are weights that are left out.
  if (groups.empty() && !decoded.empty()) {
    counts[WeightFormat::kBf16] = weights();
  }
  return counts;
}

size_t ConversionPlan::weights() const {
  size_t count = 0;
  for (const FusedWeights& group : groups) count += group.weights.size();
  if (!groups.empty()) return count;
  for (const DecodedWeight& w : decoded) count += w.weights().size();
  return count;
}

absl::Status NothingLeft(const std::string& path, const ConversionPlan& plan) {
  std::string text = fmt::format("{}: no weight is left to quantize", path);
  std::map<std::string, std::pair<size_t, const LeftOut*>> kinds;
  for (const LeftOut& left : plan.left_out) {
    auto& [count, first] = kinds[left.kind];
    if (count++ == 0) first = &left;
  }
  if (kinds.empty()) {
    text +=
        ": it has no matrix named *.weight; quantctl quantize accepts tensors "
        "of any name";
  }
  for (const auto& [kind, seen] : kinds) {
    text += fmt::format("\n  {} {}, like {}: {}", seen.first, kind,
                        seen.second->module, seen.second->reason);
  }
  return absl::InvalidArgumentError(text);
}

std::string FamiliesOf(std::string_view kind, const ConversionPlan& plan) {
  constexpr size_t kShown = 5;
  std::map<std::string, size_t> families;
  for (const LeftOut& left : plan.left_out) {
    if (left.kind == kind) ++families[WithoutNumbers(left.module)];
  }
  std::vector<std::string> shown;
  for (const auto& [name, count] : families) {
    if (shown.size() == kShown) {
      shown.push_back(fmt::format("{} more", families.size() - kShown));
      break;
    }
    shown.push_back(name.substr(0, 200));
  }
  return fmt::format("{}", fmt::join(shown, ", "));
}

absl::Status UnknownClass(const std::string& path, const std::string& name,
                          const ConversionPlan& plan) {
  return absl::InvalidArgumentError(fmt::format(
      "{}: {}, so it is not known which of its layers engines support "
      "quantized: {} (each # stands for a number). Choose the layers to "
      "quantize with --include PATTERN",
      path,
      name.empty()
          ? "config.json names no model class, and the names of the tensors "
            "are not specific to language models"
          : fmt::format(
                "config.json names the class {}, which quantctl does not know",
                name.substr(0, 200)),
      FamiliesOf(kOfOtherClass, plan)));
}

absl::Status CheckNames(const std::string& path, const ConversionPlan& plan) {
  std::set<std::string> names;
  for (const OutputShard& shard : plan.shards) {
    for (const safetensors::Tensor& t : shard.tensors) {
      if (names.insert(t.name).second) continue;
      return absl::InvalidArgumentError(fmt::format(
          "{}: two tensors would be named \"{}\"; the model already has a "
          "tensor with the name of a part of a quantized weight",
          path, t.name.substr(0, 200)));
    }
  }
  return absl::OkStatus();
}

void NoteStored(size_t count, const StoredWeight& first, ConversionPlan* plan) {
  std::string text = fmt::format(
      "{} weights are already quantized, for example {} ({} by {}). They are "
      "decoded to fp32 and quantized again, which does not recover the "
      "accuracy that the first quantization lost",
      count, first.module, Name(first.layout->format),
      Name(first.layout->dialect));
  if (!plan->decoded.empty()) {
    text +=
        fmt::format("; {} of them are only decoded, to bf16, for example {}",
                    plan->decoded.size(), plan->decoded.front().stored.module);
  }
  plan->notes.push_back(std::move(text));
}

void NoteIncluded(ConversionPlan* plan) {
  std::map<Role, std::pair<size_t, const Weight*>> kinds;
  for (const FusedWeights& group : plan->groups) {
    for (const Weight& w : group.weights) {
      if (MayBeLinear(w.role) || w.role == Role::kHead) continue;
      auto& [count, first] = kinds[w.role];
      if (count++ == 0) first = &w;
    }
  }
  for (const auto& [role, seen] : kinds) {
    plan->notes.push_back(
        fmt::format("{} {} are quantized because --include names them, for "
                    "example {}. Many engines do not support that: they fail, "
                    "or read the codes as plain numbers",
                    seen.first, Describe(role), seen.second->module));
  }
}

void NoteTorn(const Model& model, const Architecture& architecture,
              ConversionPlan* plan) {
  // All experts of a layer must have the same format in engines.
  const auto key_of = [&](const std::string& module, int64_t cols) {
    const std::string experts(ExpertsAbove(module));
    return experts.empty() ? architecture.FusionKey(module, cols) : experts;
  };
  std::map<std::string, std::set<std::string>> how;
  for (const FusedWeights& group : plan->groups) {
    for (const Weight& w : group.weights) {
      how[key_of(w.module, w.cols)].insert(std::string(Name(w.layout->format)));
    }
  }
  std::vector<std::string> torn;
  for (const LeftOut& left : plan->left_out) {
    const ModelTensor* t = model.Find(left.module + ".weight");
    const bool matrix = t != nullptr && t->stored.shape.size() == 2;
    if (!matrix && ExpertsAbove(left.module).empty()) continue;
    const auto key = key_of(left.module, matrix ? t->stored.shape[1] : 0);
    // The fusion of unknown names is a guess, which holds for linear layers
    // only.
    const bool guessed = key.find("#k=") != std::string::npos;
    if (guessed && left.role != Role::kLinear) continue;
    if (!key.empty() && how.count(key) > 0) torn.push_back(left.module);
  }
  how.erase("");
  for (const auto& [key, formats] : how) {
    if (formats.size() > 1) torn.push_back(key.substr(0, key.find('#')));
  }
  plan->torn = !torn.empty();
  if (torn.empty()) return;
  plan->notes.push_back(fmt::format(
      "{} weights would have another format than the weights that engines fuse "
      "with them, for example {}: most engines refuse such a model; name all "
      "of them or none in --ignore, --only or --rule",
      torn.size(), torn.front()));
}

void NoteWrapped(const Model& model, ConversionPlan* plan) {
  for (const ModelTensor& t : model.tensors()) {
    if (WrapperOf(t.name()).empty()) continue;
    plan->notes.push_back(
        fmt::format("names of tensors contain \"{}\", which a training wrapper "
                    "added, for example {}: engines do not find such tensors, "
                    "so save the model without the wrapper",
                    WrapperOf(t.name()), t.name().substr(0, 200)));
    return;
  }
}

void NoteCacheScales(ConversionPlan* plan) {
  size_t count = 0;
  const ModelTensor* first = nullptr;
  for (const ModelTensor* t : plan->copies) {
    if (!IsCacheScale(t->name())) continue;
    if (count++ == 0) first = t;
  }
  if (count == 0) return;
  plan->notes.push_back(
      fmt::format("{} scales of the KV cache are copied, for example {}. An "
                  "engine uses them if they have the names of {} and its "
                  "option (--kv-cache-dtype fp8) turns on a quantized cache",
                  count, first->name(), Name(plan->dialect)));
}

void NoteLeft(std::string_view kind, double least, ConversionPlan* plan) {
  uint64_t bytes = 0;
  const LeftOut* first = nullptr;
  for (const LeftOut& left : plan->left_out) {
    if (left.kind != kind) continue;
    if (first == nullptr) first = &left;
    bytes += left.bytes;
  }
  const double share =
      100 * static_cast<double>(bytes) /
      static_cast<double>(std::max<uint64_t>(1, plan->bytes_in));
  if (first == nullptr || share < least) return;
  plan->notes.push_back(
      fmt::format("{} are not quantized: {:.0f} % of the model ({}: {})", kind,
                  share, FamiliesOf(kind, *plan), first->reason));
}

void Arrange(ConversionPlan* plan) {
  // A shard that held only scales is now empty and is not written.
  std::erase_if(plan->shards, [](const auto& s) { return s.tensors.empty(); });
  plan->bytes_out = 0;
  for (OutputShard& shard : plan->shards) {
    std::ranges::stable_sort(shard.tensors, [](const auto& a, const auto& b) {
      return safetensors::BitsOf(a.dtype) > safetensors::BitsOf(b.dtype);
    });
    for (const safetensors::Tensor& t : shard.tensors) {
      plan->bytes_out += t.size;
    }
  }
}

}  // namespace quantd::checkpoint
