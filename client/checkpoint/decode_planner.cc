// Implements MakeDecodingPlan.

#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "client/checkpoint/anatomy/role.h"
#include "client/checkpoint/anatomy/storage.h"
#include "client/checkpoint/plan.h"
#include "client/checkpoint/stacked.h"
#include "client/checkpoint/stored.h"
#include "fmt/format.h"

namespace quantd::checkpoint {

absl::StatusOr<ConversionPlan> MakeDecodingPlan(const Model& model) {
  auto stored = FindStored(model);
  if (!stored.ok()) return stored.status();
  const auto refuse = [&](const std::string& why) {
    return absl::InvalidArgumentError(fmt::format("{}: {}", model.path(), why));
  };
  if (auto s = RefuseUnclear(model, *stored, nullptr); !s.ok()) return s;
  if (stored->weights.empty()) return refuse("no weight is quantized");
  ConversionPlan plan;
  plan.dialect = Dialect::kNone;
  plan.notes = model.notes();
  // from codes to indices in plan.decoded
  std::map<const ModelTensor*, size_t> first;
  std::set<const ModelTensor*> parts;
  std::set<std::string> decoded;
  for (StoredWeight& w : stored->weights) {
    const std::string name =
        w.layout->stacked ? w.module : w.module + ".weight";
    parts.insert(w.parts.begin(), w.parts.end());
    decoded.insert(w.module);
    plan.decoded.push_back({std::move(w), name});
  }
  StackAgain(model.model_type(), &plan.decoded);
  for (size_t i = 0; i < plan.decoded.size(); ++i) {
    first[plan.decoded[i].stored.part(PartSource::kCodes)] = i;
  }
  for (const ModelShard& shard : model.shards()) {
    plan.shards.push_back({shard.name, {}, shard.file.metadata()});
    DropMadeWith(&plan.shards.back().metadata);
    plan.shards.back().metadata.emplace("format", "pt");
  }
  std::vector<std::string_view> caches;
  for (const ModelTensor& t : model.tensors()) {
    plan.bytes_in += t.stored.size;
    if (const auto found = first.find(&t); found != first.end()) {
      plan.shards[t.shard].tensors.push_back(
          plan.decoded[found->second].tensor());
    } else if (parts.count(&t) == 0 &&
               decoded.count(StorageOf(t.stored).module) == 0 &&
               !IsCacheScale(t.name())) {
      plan.copies.push_back(&t);
      plan.shards[t.shard].tensors.push_back(t.stored);
    } else {
      plan.quantized_bytes_in += t.stored.size;
      if (IsCacheScale(t.name())) caches.push_back(t.name());
    }
  }
  if (!caches.empty()) {
    plan.notes.push_back(fmt::format(
        "{} scales of the KV cache are left out, for example {}: engines take "
        "them only from quantized models",
        caches.size(), caches.front()));
  }
  for (const DecodedWeight& w : plan.decoded) {
    if (!w.experts.empty() || ExpertsAbove(w.stored.module).empty() ||
        !LoadsStacksAlone(model.model_type())) {
      continue;
    }
    plan.experts_apart = true;
    plan.notes.push_back(fmt::format(
        "experts stay single weights, like {}, as engines that ran the "
        "quantized model read them; transformers' class for {} reads only "
        "stacks, so its from_pretrained would make random experts",
        w.name, model.model_type()));
    break;
  }
  Arrange(&plan);
  return plan;
}

}  // namespace quantd::checkpoint
