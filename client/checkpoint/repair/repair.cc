#include "client/checkpoint/repair/repair.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "client/checkpoint/architecture.h"
#include "client/checkpoint/check/declared.h"
#include "client/checkpoint/convert/config_writer.h"
#include "client/checkpoint/convert/journal.h"
#include "client/checkpoint/convert/output_directory.h"
#include "client/checkpoint/names.h"
#include "client/checkpoint/plan.h"
#include "client/checkpoint/stacked.h"
#include "client/checkpoint/stored.h"
#include "fmt/format.h"

namespace quantd::checkpoint {
namespace {

std::string Renamed(const RepairPlan& plan, const std::string& name) {
  if (!plan.new_prefix.empty()) {
    return IsOfHead(name) ? name : plan.new_prefix + name;
  }
  return name.starts_with(plan.prefix) ? name.substr(plan.prefix.size()) : name;
}

// Describes the repaired model as a ConversionPlan, for the classes that write
// shards and configurations.
class Layout {
 public:
  Layout(const Model& model, const RepairPlan& plan)
      : model_(model), repair_(plan) {}

  absl::StatusOr<ConversionPlan> Make() {
    const auto stored = FindStored(model_);
    if (!stored.ok()) return stored.status();
    const auto architecture = Architecture::Of(model_, {});
    if (!architecture.ok()) return architecture.status();
    plan_.dialect = repair_.dialect;
    parts_ = stored->tensors();
    std::set<std::string> mended;
    for (const MendedWeight& m : repair_.weights) {
      mended.insert(m.weight.module);
      first_[m.weight.part(PartSource::kCodes)] = &m;
      AddWeight(m.weight);
    }
    for (const StoredWeight& w : stored->weights) {
      if (mended.count(w.module) == 0) AddWeight(w);
    }
    for (const MendedWeight& m : repair_.weights) {
      for (const ModelTensor* part : m.weight.parts) gone_.insert(part);
    }
    for (const ModelShard& shard : model_.shards()) {
      plan_.shards.push_back({shard.name, {}, shard.file.metadata()});
      plan_.shards.back().metadata.emplace("format", "pt");
      if (repair_.sets_format) plan_.shards.back().metadata["format"] = "pt";
      if (repair_.drops_labels) {
        plan_.shards.back().metadata.erase(kComfyMetadata);
      }
    }
    for (const ModelTensor& t : model_.tensors()) Place(t, *architecture);
    Arrange(&plan_);
    return std::move(plan_);
  }

 private:
  void AddWeight(const StoredWeight& w) {
    Weight weight;
    weight.module = Renamed(repair_, w.module);
    weight.layout = w.layout;
    weight.rows = w.rows;
    weight.cols = w.cols;
    // The writer of the configuration only checks whether there is an input
    // scale.
    if (w.part(PartSource::kInputScale) != nullptr) weight.input_amax = 1;
    plan_.groups.push_back({{std::move(weight)}});
  }

  void Place(const ModelTensor& t, const Architecture& architecture) {
    std::vector<safetensors::Tensor>& tensors = plan_.shards[t.shard].tensors;
    if (const auto found = first_.find(&t); found != first_.end()) {
      const MendedWeight& m = *found->second;
      if (m.new_global && !m.is_zero) {
        SayFitted(Renamed(repair_, m.weight.module),
                  &plan_.shards[t.shard].metadata);
      }
      for (safetensors::Tensor& part : TensorsOf(*found->second)) {
        tensors.push_back(std::move(part));
        tensors.back().name = Renamed(repair_, tensors.back().name);
      }
    } else if (gone_.count(&t) == 0) {
      tensors.push_back(t.stored);
      tensors.back().name = Renamed(repair_, t.name());
      plan_.copies.push_back(&t);
      const std::string module(ModuleOf(tensors.back().name));
      const bool matrix =
          t.stored.shape.size() == 2 && t.name().ends_with(".weight");
      if (parts_.count(&t) == 0 && (matrix || IsStacked(t))) {
        plan_.left_out.push_back({module, architecture.RoleOf(module), "", ""});
      }
    }
  }

  const Model& model_;
  const RepairPlan& repair_;
  ConversionPlan plan_;
  std::map<const ModelTensor*, const MendedWeight*> first_;
  std::set<const ModelTensor*> parts_;
  std::set<const ModelTensor*> gone_;
};

// Copies settings that only the old description has, such as those of the KV
// cache and transforms, to the new one.
void KeepWhatIsKnown(const RepairPlan& repair, const Json& old, Json* fresh) {
  if (!old.is_object() || !fresh->is_object()) return;
  for (const auto& [key, value] : old.items()) {
    if (repair.dropped.count(key) > 0) continue;
    if (key == kTransforms && value.is_object()) (*fresh)[key] = value;
    // These are newly made from the tensors.
    if (key == "ignore" || key == "modules_to_not_convert" ||
        key == "scale_fmt") {
      continue;
    }
    if (!fresh->contains(key) || (*fresh)[key].is_null()) (*fresh)[key] = value;
  }
}

// Changes float16 to bfloat16 if tensors are bf16, since their numbers may
// overflow in float16.
void SettleType(const Model& model, Json* config) {
  const bool bf16 = std::ranges::any_of(model.tensors(), [](const auto& t) {
    return t.stored.shape.size() > 1 && t.stored.dtype == "BF16";
  });
  for (const char* key : {"dtype", "torch_dtype"}) {
    if (bf16 && config->contains(key) && (*config)[key] == "float16") {
      (*config)[key] = "bfloat16";
    }
  }
}

// Sets the value at `place`. Replaces anything on the path that is not an
// object.
void Put(const Json::json_pointer& place, const Json& value, Json* config) {
  if (place.empty()) return;
  const Json::json_pointer parent = place.parent_pointer();
  if (!config->contains(parent)) Put(parent, Json::object(), config);
  if (!config->at(parent).is_object()) (*config)[parent] = Json::object();
  config->at(parent)[place.back()] = value;
}

void TakeKeys(const RepairPlan& repair, Json* config) {
  for (const ConfigDifference& d : repair.keys) {
    if (d.value) {
      Put(d.place, *d.value, config);
    } else if (config->contains(d.place)) {
      config->at(d.place.parent_pointer()).erase(d.place.back());
    }
  }
}

absl::StatusOr<std::vector<TextFile>> FilesOf(const Model& model,
                                              const RepairPlan& repair,
                                              const ConversionPlan& plan) {
  std::vector<TextFile> files = ConfigFiles(model, plan);
  const std::string own(kModelOptConfig);
  const auto text_of = [&](const std::string& name) {
    return ReadText(model.folder().OpenFile(name), kMaxConfigBytes);
  };
  for (TextFile& file : files) {
    if (file.name == model.index_name()) continue;
    const auto old = text_of(file.name);
    if (!old.ok()) continue;
    const bool keys = !repair.keys.empty() && file.name == kConfigFile;
    if (!repair.config) file.text = *old;
    if (!repair.config && !keys) continue;
    Json fresh = ParsePythonJson(file.text);
    if (keys) TakeKeys(repair, &fresh);
    if (repair.config) SettleType(model, &fresh);
    const auto before = ReadConfig(model.folder().OpenFile(file.name));
    const char* place =
        file.name == own ? "quantization" : "quantization_config";
    if (repair.config && before.ok() && before->contains(place) &&
        !repair.drops_quantization) {
      KeepWhatIsKnown(repair, (*before)[place], &fresh[place]);
    }
    file.text = PythonJsonText(fresh, 2) + "\n";
  }
  return files;
}

std::string FingerprintOf(const RepairPlan& plan) {
  ContentHash hash;
  hash.Add("repair\n");
  for (const Repaired& r : plan.repairs) hash.Add(r.rule + r.where + r.text);
  return hash.Hex();
}

namespace fs = std::filesystem;

// Repairs of names reveal further faults, and repairing those may reveal
// others.
constexpr int kMostPasses = 4;

bool IsAmong(const std::vector<Repaired>& done, const Repaired& r) {
  return std::ranges::any_of(done, [&](const Repaired& d) {
    return d.rule == r.rule && d.where == r.where && d.text == r.text;
  });
}

absl::Status Rename(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(
      errno,
      fmt::format(
          "cannot rename {} to {}; \".next\" marks the further repaired model",
          from, to));
}

absl::Status TakePlace(const std::string& next, const std::string& out) {
  // Replaces a single file atomically.
  std::error_code error;
  if (!fs::is_directory(out, error)) return Rename(next, out);
  const std::string previous = Beside(out, ".previous");
  if (fs::exists(fs::symlink_status(previous, error))) {
    return absl::AlreadyExistsError(
        fmt::format("{} already exists; {} holds the further repaired model",
                    previous, next));
  }
  if (auto s = Rename(out, previous); !s.ok()) return s;
  if (auto s = Rename(next, out); !s.ok()) return s;
  fs::remove_all(previous, error);
  if (!error) return absl::OkStatus();
  return absl::ErrnoToStatus(error.value(),
                             fmt::format("cannot remove {}", previous));
}

}  // namespace

std::vector<Repaired> Mended(const std::vector<Repaired>& repairs,
                             const std::vector<Finding>& left) {
  std::vector<Repaired> mended;
  for (const Repaired& r : repairs) {
    const bool again = std::ranges::any_of(left, [&](const Finding& f) {
      return f.rule == r.rule && (f.where == r.where || f.text == r.text);
    });
    if (!again) mended.push_back(r);
  }
  return mended;
}

absl::StatusOr<std::vector<FittedWeight>> Repair(const Model& model,
                                                 const RepairPlan& repair,
                                                 const std::string& out) {
  const auto plan = Layout(model, repair).Make();
  if (!plan.ok()) return plan.status();
  auto directory =
      OutputDirectory::Open(model, *plan, out, FingerprintOf(repair));
  if (!directory.ok()) return directory.status();
  std::vector<FittedWeight> fitted;
  for (const MendedWeight& m : repair.weights) {
    FittingLoss loss;
    const auto parts = Mend(model, m, &loss);
    if (!parts.ok()) return parts.status();
    for (const MendedPart& part : *parts) {
      const auto s =
          (*directory)->Write(Renamed(repair, part.tensor.name), 0, part.bytes);
      if (!s.ok()) return s;
    }
    if (loss.scales > 0) fitted.push_back({m.weight.module, loss});
  }
  for (const ModelTensor* t : plan->copies) {
    const std::string name = Renamed(repair, t->name());
    const auto s = model.ReadInPieces(
        *t, size_t{8} << 20,
        [&](size_t offset, absl::Span<const std::byte> bytes) {
          return (*directory)->Write(name, offset, bytes);
        });
    if (!s.ok()) return s;
  }
  const auto files = FilesOf(model, repair, *plan);
  if (!files.ok()) return files.status();
  if (auto s = (*directory)->Finish(*files); !s.ok()) return s;
  if (repair.drops_quantization) {
    std::error_code error;
    std::filesystem::remove(fmt::format("{}/{}", out, kModelOptConfig), error);
    if (error) {
      return absl::ErrnoToStatus(
          error.value(),
          fmt::format("cannot remove {} from {}", kModelOptConfig, out));
    }
  }
  return fitted;
}

absl::StatusOr<RepairOutcome> RepairInPasses(const Model& model,
                                             const Model* original,
                                             const RepairPlan& first,
                                             const std::string& said) {
  RepairOutcome outcome;
  auto fitted = Repair(model, first, said);
  if (!fitted.ok()) return fitted.status();
  outcome.fitted = *std::move(fitted);
  outcome.repairs = first.repairs;
  std::error_code error;
  std::string out = fs::weakly_canonical(said, error).string();
  if (error) return absl::ErrnoToStatus(error.value(), said);
  if (out.ends_with('/')) out.pop_back();
  for (int pass = 1; pass < kMostPasses; ++pass) {
    const auto mended = Model::Open(out);
    if (!mended.ok()) return mended.status();
    const auto plan = PlanRepair(*mended, original, first.dialect);
    if (!plan.ok()) return plan.status();
    const bool fresh = std::ranges::any_of(
        plan->repairs,
        [&](const Repaired& r) { return !IsAmong(outcome.repairs, r); });
    if (!fresh) break;
    const std::string next = Beside(out, ".next");
    auto more = Repair(*mended, *plan, next);
    if (!more.ok()) return more.status();
    if (auto s = TakePlace(next, out); !s.ok()) return s;
    outcome.fitted.insert(outcome.fitted.end(), more->begin(), more->end());
    for (const Repaired& r : plan->repairs) {
      if (!IsAmong(outcome.repairs, r)) outcome.repairs.push_back(r);
    }
  }
  return outcome;
}

std::string Beside(std::string path, std::string_view what) {
  constexpr std::string_view kEnding = ".safetensors";
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  const bool file = path.ends_with(kEnding);
  if (file) path.resize(path.size() - kEnding.size());
  return fmt::format("{}{}{}", path, what, file ? kEnding : "");
}

absl::Status RemoveOutput(const std::string& out) {
  std::error_code error;
  fs::remove_all(out, error);
  if (!error) return absl::OkStatus();
  return absl::ErrnoToStatus(error.value(),
                             fmt::format("cannot remove {}", out));
}

}  // namespace quantd::checkpoint
