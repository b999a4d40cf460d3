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

// Stacked experts are stored as K rows of N, as in gpt-oss.
safetensors::Tensor DecodedWeight::tensor() const {
  constexpr char kType[] = "BF16";
  std::vector<int64_t> shape = {stored.rows, stored.cols};
  if (stored.layout->stacked) {
    shape = {stored.experts, stored.cols, stored.rows};
  }
  const size_t size = SizeOfShape(kType, shape);
  return {name, kType, std::move(shape), 0, size};
}

std::map<WeightFormat, size_t> ConversionPlan::formats() const {
  std::map<WeightFormat, size_t> counts;
  for (const FusedWeights& group : groups) {
    for (const Weight& w : group.weights) ++counts[w.layout->format];
  }
  // Beside quantized weights, decoded ones count as left out.
  if (groups.empty() && !decoded.empty())
    counts[WeightFormat::kBf16] = decoded.size();
  return counts;
}

size_t ConversionPlan::weights() const {
  size_t count = groups.empty() ? decoded.size() : 0;
  for (const FusedWeights& group : groups) count += group.weights.size();
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
        ": it has no matrix that is called NAME.weight; quantctl quantize "
        "takes "
        "tensors of any name";
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
      "{}: {}, so nobody knows here which of its layers engines take "
      "quantized: {} (each # is a number); --include PATTERN quantizes those "
      "that it names, and the rest stays as it is",
      path,
      name.empty() ? "config.json names no class of model, and these names of "
                     "tensors are not a language model's alone"
                   : fmt::format("config.json names {}, a class that is not "
                                 "known here",
                                 name.substr(0, 200)),
      FamiliesOf(kOfOtherClass, plan)));
}

absl::Status CheckNames(const std::string& path, const ConversionPlan& plan) {
  std::set<std::string> names;
  for (const OutputShard& shard : plan.shards) {
    for (const safetensors::Tensor& t : shard.tensors) {
      if (names.insert(t.name).second) continue;
      return absl::InvalidArgumentError(fmt::format(
          "{}: two tensors would be named \"{}\"; the model has parts of a "
          "quantized one already",
          path, t.name.substr(0, 200)));
    }
  }
  return absl::OkStatus();
}

void NoteStored(size_t count, const StoredWeight& first, ConversionPlan* plan) {
  std::string text = fmt::format(
      "{} weights are quantized already, like {} ({} by {}), and are read as "
      "code times scale in fp32: what their first rounding lost stays lost",
      count, first.module, Name(first.layout->format),
      Name(first.layout->dialect));
  if (!plan->decoded.empty()) {
    text +=
        fmt::format("; {} of them are left, as bf16, like {}",
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
    plan->notes.push_back(fmt::format(
        "{} {} are quantized because --include names them ({}): many engines "
        "build them without quantization, and raise on these or read them as "
        "plain numbers",
        seen.first, Describe(role), seen.second->module));
  }
}

void NoteTorn(const Model& model, const Architecture& architecture,
              ConversionPlan* plan) {
  // Engines treat all experts of a layer as one.
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
    // Unknown names may be fused, but not these modules.
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
      "{} of the weights that engines fuse with others would have another "
      "format than these ({} for one): most engines refuse that",
      torn.size(), torn.front()));
}

void NoteWrapped(const Model& model, ConversionPlan* plan) {
  for (const ModelTensor& t : model.tensors()) {
    if (WrapperOf(t.name()).empty()) continue;
    plan->notes.push_back(fmt::format(
        "\"{}\" in names is of a wrapper of training ({} for one), and engines "
        "look for names without: save the model without the wrapper",
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
  plan->notes.push_back(fmt::format(
      "{} scales of the KV cache are kept, like {}; an engine takes them where "
      "they are named as {} has them, and quantizes the cache if it is told to "
      "(--kv-cache-dtype fp8)",
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
      fmt::format("{} stay as they are, {:.0f} % of the model ({}: {})", kind,
                  share, FamiliesOf(kind, *plan), first->reason));
}

void Arrange(ConversionPlan* plan) {
  // A shard that held only scales is no longer written.
  std::erase_if(plan->shards, [](const auto& s) { return s.tensors.empty(); });
  plan->bytes_out = 0;
  for (OutputShard& shard : plan->shards) {
    std::stable_sort(shard.tensors.begin(), shard.tensors.end(),
                     [](const auto& a, const auto& b) {
                       return safetensors::BitsOf(a.dtype) >
                              safetensors::BitsOf(b.dtype);
                     });
    for (const safetensors::Tensor& t : shard.tensors) {
      plan->bytes_out += t.size;
    }
  }
}

}  // namespace quantd::checkpoint
