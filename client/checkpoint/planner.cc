#include <algorithm>
#include <set>
#include <utility>

#include "client/checkpoint/anatomy/config_facts.h"
#include "client/checkpoint/anatomy/nameless.h"
#include "client/checkpoint/anatomy/storage.h"
#include "client/checkpoint/anatomy/whole_model.h"
#include "client/checkpoint/plan.h"
#include "client/checkpoint/selector.h"
#include "client/checkpoint/stacked.h"
#include "client/checkpoint/stored.h"
#include "client/checkpoint/weights.h"
#include "client/files/model_files.h"
#include "fmt/format.h"

namespace quantd::checkpoint {
namespace {

constexpr char kStacks[] = "stacks of experts";
constexpr char kOthers[] = "weights that are not matrices of linear layers";
constexpr char kUnclear[] = "weights in unknown formats";
constexpr char kFactored[] = "weights that are stored as factors";

class Planner {
 public:
  Planner(const Model& model, const Selection& selection,
          const Selector& selector)
      : model_(model), selection_(selection), selector_(selector) {}

  absl::StatusOr<ConversionPlan> Make() {
    if (auto s = RefuseAdapter(model_, selector_.ignore()); !s.ok()) return s;
    if (auto s = TakeStored(); !s.ok()) return s;
    tied_ = FactsOf(model_.config()).tied;
    plan_.dialect = selection_.dialect;
    plan_.notes = model_.notes();
    for (const ModelTensor& tensor : model_.tensors()) {
      plan_.bytes_in += tensor.stored.size;
      if (auto s = Decide(tensor); !s.ok()) return s;
    }
    if (auto s = selector_.CheckNamed(modules_); !s.ok()) return s;
    LeaveUnfit();
    if (weights_.empty()) return Refusal();
    plan_.groups = FuseWeights(std::move(weights_), selector_.architecture());
    weights_.clear();
    if (auto s = TakeInputs(selection_, &plan_); !s.ok()) return s;
    if (auto s = CheckNameless(model_, &plan_); !s.ok()) return s;
    NoteWhatIsOdd();
    if (auto s = LayOut(); !s.ok()) return s;
    if (auto s = CheckSum(); !s.ok()) return s;
    return std::move(plan_);
  }

 private:
  absl::Status Refusal() const {
    const bool other = std::ranges::any_of(
        plan_.left_out,
        [](const LeftOut& left) { return left.kind == kOfOtherClass; });
    return other ? UnknownClass(model_.path(),
                                selector_.architecture().model_class().name,
                                plan_)
                 : NothingLeft(model_.path(), plan_);
  }

  // Finds weights that are already quantized. Those with 8 bits are decoded
  // when read. 4 bits are an error: they have lost too much to be quantized
  // again.
  absl::Status TakeStored() {
    auto stored = FindStored(model_);
    if (!stored.ok()) return stored.status();
    if (auto s = RefuseUnclear(model_, *stored, &selector_.ignore()); !s.ok()) {
      return s;
    }
    std::set<std::string> modules;
    for (StoredWeight& w : stored->weights) {
      if (w.has_four_bits()) {
        return absl::InvalidArgumentError(
            fmt::format("{}: {} weights are already quantized ({} is {} by "
                        "{}), and quantizing 4-bit weights again would lose "
                        "more accuracy; convert the original model, or decode "
                        "this one first with --dialect none --format bf16",
                        model_.path(), stored->weights.size(), w.module,
                        Name(w.layout->format), Name(w.layout->dialect)));
      }
      dropped_.insert(w.parts.begin(), w.parts.end());
      modules.insert(w.module);
      const ModelTensor* codes = w.part(PartSource::kCodes);
      stored_.emplace(codes, std::move(w));
    }
    dropped_.erase(nullptr);
    // Other parts of these weights, such as input scales, are dropped with
    // them. New scales of the KV cache replace the model's own.
    for (const ModelTensor& t : model_.tensors()) {
      if (modules.count(StorageOf(t.stored).module) > 0 ||
          (!selection_.cache_amax.empty() && IsCacheScale(t.name()))) {
        dropped_.insert(&t);
      }
    }
    for (const auto* list : {&stored->unclear, &stored->orphans}) {
      for (const UnclearWeight& u : *list) Carry(u, Role::kLinear, kUnclear);
    }
    for (const UnclearWeight& u : stored->factored) {
      if (auto s = TakeFactored(u); !s.ok()) return s;
    }
    if (!stored_.empty()) return absl::OkStatus();
    std::string where;
    if (const auto said = QuantizationsIn(model_.config()); !said.empty()) {
      where = "its config.json has " + said.front().place;
    }
    for (const std::string_view name : kQuantizationFiles) {
      if (!where.empty() || model_.single_file()) break;
      if (model_.folder().OpenFile(std::string(name)).ok()) {
        where = fmt::format("the model has {}", name);
      }
    }
    if (where.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(fmt::format(
        "{}: {}, but no weight has a known quantized format{}", model_.path(),
        where,
        carried_.empty()
            ? "; remove that description if the model is not quantized"
            : ""));
  }

  void Carry(const UnclearWeight& u, Role role, const char* kind) {
    LeftOut left = {u.module, role, kind, u.why};
    for (const ModelTensor* t : u.tensors) left.bytes += t->stored.size;
    for (const ModelTensor* t : u.tensors) carried_[t] = left;
  }

  // Copies the factors of a weight. A linear layer with factors is an error
  // unless --ignore names it, because the model does not store its matrix.
  absl::Status TakeFactored(const UnclearWeight& u) {
    const Role role = selector_.architecture().RoleOf(u.module);
    const bool linear = std::ranges::all_of(
        u.tensors,
        [](const ModelTensor* t) { return t->stored.shape.size() < 3; });
    Carry(u, role, kFactored);
    if (!linear || !MayBeLinear(role) ||
        FirstMatch(selector_.ignore(), u.module) != nullptr) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        fmt::format("{}: {} is stored as factors: {} before you save the "
                    "model, or copy them unchanged with --ignore {}",
                    model_.path(), u.module, u.why, u.module));
  }

  void Collect(std::string_view module, bool matrix = false) {
    if (!selector_.has_patterns() || module.empty()) return;
    modules_[std::string(module)] |= matrix;
  }

  // Decides whether the tensor is quantized, decoded, copied or dropped.
  absl::Status Decide(const ModelTensor& tensor) {
    Collect(ModuleOf(tensor.name()));
    Collect(StorageOf(tensor.stored).module);
    if (const auto as = carried_.find(&tensor); as != carried_.end()) {
      if (said_.insert(as->second.module).second) {
        plan_.left_out.push_back(as->second);
      }
      plan_.copies.push_back(&tensor);
      return absl::OkStatus();
    }
    const auto own = stored_.find(&tensor);
    const bool is_stored = own != stored_.end();
    if (!is_stored && dropped_.count(&tensor) > 0) {
      plan_.quantized_bytes_in += tensor.stored.size;
      return absl::OkStatus();
    }
    auto weights = WeightsOf(model_, tensor, selector_.layout().stacked);
    std::vector<Weight> found;
    if (is_stored) {
      found.push_back(WeightOf(own->second));
    } else if (weights.ok()) {
      found = *std::move(weights);
      if (found.empty()) LeaveOther(tensor);
    } else {
      Leave(tensor, kStacks, std::string(weights.status().message()));
    }
    for (const Weight& w : found) Collect(w.module, /*matrix=*/true);
    // If one weight of the tensor is left out, the whole tensor is.
    for (Weight& w : found) {
      if (auto s = selector_.CheckInclude(w.module, tied_); !s.ok()) return s;
      auto verdict = selector_.Judge(w);
      if (auto* left = std::get_if<LeftOut>(&verdict)) {
        left->bytes = is_stored ? w.size_bytes() : tensor.stored.size;
        plan_.left_out.push_back(std::move(*left));
        found.clear();
        break;
      }
      w.layout = std::get<const WeightLayout*>(verdict);
      w.profile = selector_.ProfileOf(*w.layout);
      w.role = selector_.architecture().RoleOf(w.module);
    }
    if (found.empty()) {
      Keep(tensor);
      return absl::OkStatus();
    }
    plan_.quantized_bytes_in += tensor.stored.size;
    for (Weight& w : found) weights_.push_back(std::move(w));
    return absl::OkStatus();
  }

  // Copies the tensor byte for byte, or decodes it if it is quantized.
  void Keep(const ModelTensor& tensor) {
    if (const auto own = stored_.find(&tensor); own != stored_.end()) {
      plan_.decoded.push_back({own->second, tensor.name()});
    } else {
      plan_.copies.push_back(&tensor);
    }
  }

  void LeaveUnfit() {
    for (auto& [source, left] : TakeUnfit(model_, selector_.architecture(),
                                          plan_.left_out, &weights_)) {
      plan_.quantized_bytes_in -= source->stored.size;
      Keep(*source);
      plan_.left_out.push_back(std::move(left));
    }
  }

  void Leave(const ModelTensor& tensor, std::string kind, std::string reason) {
    const std::string module(ModuleOf(tensor.name()));
    plan_.left_out.push_back({module, selector_.architecture().RoleOf(module),
                              std::move(kind), std::move(reason),
                              tensor.stored.size});
  }

  // Leaves out weights that are not matrices named *.weight: kernels of
  // convolutions, stacks of experts, projections that torch packs.
  void LeaveOther(const ModelTensor& tensor) {
    const std::vector<int64_t>& shape = tensor.stored.shape;
    const ModuleName name = SplitModule(ModuleOf(tensor.name()));
    const bool experts = name.parent.find("expert") != std::string_view::npos &&
                         name.leaf.find("bias") == std::string_view::npos;
    if (StorageOf(tensor.stored).storage != Storage::kPlain ||
        shape.size() < 2 || !(experts || tensor.name().ends_with("weight"))) {
      return;
    }
    if (experts) {
      Leave(tensor, kStacks, "experts in one tensor with an unknown layout");
    } else {
      Leave(tensor, kOthers,
            fmt::format(
                "it has {} dimensions, but only matrices named *.weight are "
                "quantized, and none of torch's MultiheadAttention",
                shape.size()));
    }
  }

  // Checks that every tensor occurs exactly once: quantized, decoded, copied or
  // dropped as a part of a decoded weight.
  absl::Status CheckSum() const {
    std::set<const ModelTensor*> seen(plan_.copies.begin(), plan_.copies.end());
    size_t count = plan_.copies.size();
    for (const FusedWeights& group : plan_.groups) {
      for (const Weight& w : group.weights) {
        count += seen.insert(w.source).second;
      }
    }
    for (const DecodedWeight& w : plan_.decoded) {
      count += seen.insert(w.stored.part(PartSource::kCodes)).second;
    }
    for (const ModelTensor* t : dropped_) {
      if (stored_.count(t) == 0) count += seen.insert(t).second;
    }
    if (seen.size() == count && count == model_.tensors().size()) {
      return absl::OkStatus();
    }
    return absl::InternalError(
        fmt::format("{}: the plan covers {} of {} tensors", model_.path(),
                    count, model_.tensors().size()));
  }

  void NoteWhatIsOdd() {
    if (!stored_.empty()) {
      NoteStored(stored_.size(), stored_.begin()->second, &plan_);
    }
    NoteWrapped(model_, &plan_);
    NoteCacheScales(&plan_);
    NoteLeft(kStacks, 0, &plan_);
    NoteLeft(kOtherExperts, 0, &plan_);
    NoteLeft(Describe(Role::kUnknown), 0, &plan_);
    NoteLeft(kOfOtherClass, 0, &plan_);
    NoteLeft(kUnclear, 0, &plan_);
    NoteLeft(kTorn, 0, &plan_);
    NoteLeft(kFactored, /*least=*/5, &plan_);
    // Users do not expect convolutions to be quantized, so a small share of
    // them needs no note.
    NoteLeft(kOthers, /*least=*/5, &plan_);
    NoteIncluded(&plan_);
    if (!selector_.architecture().known()) {
      const std::string type = model_.model_type();
      plan_.notes.push_back(fmt::format(
          "{}: linear layers are recognized by shape and name, and siblings "
          "with the same K and unknown names share an amax. Correct this with "
          "--fuse, --include and --ignore",
          type.empty() ? std::string("config.json has no model_type")
                       : fmt::format("unknown architecture {}", type)));
    }
    NoteTorn(model_, selector_.architecture(), &plan_);
  }

  absl::Status LayOut() {
    std::map<const ModelTensor*, std::vector<Weight*>> of;
    for (FusedWeights& group : plan_.groups) {
      for (Weight& w : group.weights) of[w.source].push_back(&w);
    }
    for (const ModelShard& shard : model_.shards()) {
      OutputShard out;
      out.name = shard.name;
      out.metadata = shard.file.metadata();
      DropMadeWith(&out.metadata);
      out.metadata.emplace("format", "pt");
      SayMadeWith(selector_.ProfileOf(selector_.layout()), &out.metadata);
      plan_.shards.push_back(std::move(out));
    }
    std::map<const ModelTensor*, const DecodedWeight*> decoded;
    for (const DecodedWeight& w : plan_.decoded) {
      decoded[w.stored.part(PartSource::kCodes)] = &w;
    }
    for (const ModelTensor& tensor : model_.tensors()) {
      OutputShard& out = plan_.shards[tensor.shard];
      const auto weights = of.find(&tensor);
      if (const auto w = decoded.find(&tensor); w != decoded.end()) {
        out.tensors.push_back(w->second->tensor());
      } else if (weights == of.end()) {
        if (dropped_.count(&tensor) == 0) out.tensors.push_back(tensor.stored);
      } else if (weights->second.front()->layout->stacked) {
        for (safetensors::Tensor& part : PartsOfStack(weights->second)) {
          out.tensors.push_back(std::move(part));
        }
      } else {
        for (Weight* w : weights->second) {
          if (w->profile != selector_.ProfileOf(selector_.layout()) ||
              StoredAs(w->layout->format) != w->layout->format) {
            SayMadeWith(w->module, {w->layout, w->profile}, &out.metadata);
          }
          for (safetensors::Tensor& part : PartsOf(w)) {
            out.tensors.push_back(std::move(part));
          }
        }
      }
    }
    const auto caches =
        TakeCaches(model_, selector_.architecture(), selection_, &plan_);
    if (!caches.ok()) return caches;
    Arrange(&plan_);
    return CheckNames(model_.path(), plan_);
  }

  const Model& model_;
  const Selection& selection_;
  const Selector& selector_;
  bool tied_ = false;
  // Tensors of unknown formats that are copied, with their entries for
  // left_out.
  std::map<const ModelTensor*, LeftOut> carried_;
  std::set<std::string> said_;
  // Names for patterns, and whether each is a matrix; empty without patterns.
  std::map<std::string, bool> modules_;
  std::vector<Weight> weights_;
  // Quantized weights of the source, by their codes, and all tensors that they
  // consist of.
  std::map<const ModelTensor*, StoredWeight> stored_;
  std::set<const ModelTensor*> dropped_;
  ConversionPlan plan_;
};

absl::StatusOr<ConversionPlan> PlanOf(const Model& model,
                                      const Selection& selection) {
  if (selection.dialect == Dialect::kNone &&
      selection.format == WeightFormat::kBf16) {
    return MakeDecodingPlan(model);
  }
  const auto selector = Selector::Make(model, selection);
  if (!selector.ok()) return selector.status();
  return Planner(model, selection, *selector).Make();
}

}  // namespace

absl::StatusOr<ConversionPlan> MakeConversionPlan(const Model& model,
                                                  const Selection& selection) {
  std::vector<std::string> notes;
  if (auto s = CheckStrays(model, &notes); !s.ok()) return s;
  auto plan = PlanOf(model, selection);
  if (plan.ok()) {
    plan->notes.insert(plan->notes.end(), notes.begin(), notes.end());
  }
  return plan;
}

}  // namespace quantd::checkpoint
