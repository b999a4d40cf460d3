// Rules about the output head of a language model.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/checkpoint/anatomy/config_facts.h"
#include "client/checkpoint/check/layer_names.h"
#include "client/checkpoint/lint/rules.h"
#include "client/checkpoint/weight_values.h"

namespace quantd::checkpoint {
namespace {

constexpr char kHead[] = "lm_head";
constexpr char kHeadWeight[] = "lm_head.weight";

bool IsMatrix(const ModelTensor* t) {
  return t != nullptr && t->stored.shape.size() == 2 && IsPlain(*t);
}

// Whether a tensor belongs to the output head of any model type.
bool IsOfHead(const Architecture& architecture, std::string_view name) {
  const std::string_view module = ModuleOf(name);
  const std::string_view leaf = SplitModule(module).leaf;
  return architecture.RoleOf(module) == Role::kHead || leaf == "embed_out" ||
         leaf == "proj_out" || leaf == "output";
}

bool IsLanguageModel(const Json& config) {
  const Json* names = Member(&config, "architectures");
  if (names == nullptr || !names->is_array() || names->empty()) return false;
  const std::string name = TextOf(&names->front()).value_or("");
  return name.ends_with("ForCausalLM") ||
         (name.ends_with("ForConditionalGeneration") &&
          Member(&config, "text_config") != nullptr);
}

// Finds a tied head that is not listed as unquantized. Engines create the head
// as a linear layer even if no file has it.
void FindUnlistedHead(const Json& config, const Declared& declared,
                      Findings* findings) {
  const auto heads = HeadNames(config);
  const auto& groups = declared.groups();
  const bool takes_linear =
      std::any_of(groups.begin(), groups.end(),
                  [](const DeclaredGroup& g) { return g.all_linear; });
  if (!takes_linear ||
      std::any_of(heads.begin(), heads.end(), [&](const std::string& head) {
        return declared.ignored().MayName(head);
      })) {
    return;
  }
  findings->Add("ignore-list", heads.front(),
                "the head is tied to the embeddings and in no file, but is "
                "missing in the list of modules that are not quantized",
                "head");
}

void FindMissingHead(const LintedModel& linted, Findings* findings) {
  const Json& config = linted.model.config();
  if (!IsLanguageModel(config)) return;
  bool layers = false;
  for (const ModelTensor& t : linted.model.tensors()) {
    if (!LayerName::Of(t.name()).stack.empty()) {
      layers = true;
    } else if (IsOfHead(linted.architecture, t.name())) {
      return;
    }
  }
  if (!layers) return;
  if (IsHeadTied(config, linted.model.model_type()) != false) {
    return FindUnlistedHead(config, linted.declared, findings);
  }
  findings->Add("missing-weight", kHeadWeight,
                Member(&config, kTiedHead) != nullptr
                    ? "it is missing, although config.json does not tie it to "
                      "the embeddings"
                    : "it is missing, although models of this type do not tie "
                      "it to the embeddings by default");
}

// Whether the head equals the embeddings up to `most_noise`, the noise relative
// to the signal, which allows for quantization.
absl::StatusOr<bool> IsSameMatrix(const RowSample& sample, WeightValues head,
                                  WeightValues embeddings, double most_noise) {
  if (head.rows() != embeddings.rows() || head.cols() != embeddings.cols()) {
    return false;
  }
  std::vector<float> x;
  std::vector<float> y;
  for (const auto& run : sample.Of(head.rows(), head.cols())) {
    if (auto s = head.Read(run.begin, run.count, &x); !s.ok()) return s;
    if (auto s = embeddings.Read(run.begin, run.count, &y); !s.ok()) return s;
    double signal = 0;
    double noise = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      signal += static_cast<double>(y[i]) * y[i];
      noise += (static_cast<double>(x[i]) - y[i]) * (x[i] - y[i]);
    }
    if (noise > most_noise * signal && std::isfinite(noise)) return false;
  }
  return true;
}

absl::Status CheckTiedHead(const LintedModel& linted, Findings* findings) {
  const Json& config = linted.model.config();
  const ModelTensor* plain = linted.model.Find(kHeadWeight);
  const ModelTensor* embeddings =
      linted.model.Find("model.embed_tokens.weight");
  if (IsHeadTied(config, linted.model.model_type()) != true ||
      !IsMatrix(embeddings)) {
    return absl::OkStatus();
  }
  std::optional<WeightValues> head;
  double most_noise = 0.25;
  for (const StoredWeight& w : linted.stored.weights) {
    if (w.module == kHead) head.emplace(linted.model, w);
  }
  if (!head && IsMatrix(plain)) {
    head.emplace(linted.model, *plain);
    most_noise = 0;
  }
  if (!head) return absl::OkStatus();
  const auto same =
      IsSameMatrix(linted.sample, *head,
                   WeightValues(linted.model, *embeddings), most_noise);
  if (!same.ok()) return same.status();
  if (!*same) {
    findings->Add(
        "tied-head", kHead,
        "config.json ties it to the embeddings, but it is another matrix");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status LintHead(const LintedModel& linted, Findings* findings) {
  FindMissingHead(linted, findings);
  return CheckTiedHead(linted, findings);
}

absl::StatusOr<bool> IsHeadNeeded(const Model& original, const Json& config,
                                  std::string_view type,
                                  const RowSample& sample) {
  if (const auto tied = IsHeadTied(config, type)) return !*tied;
  const ModelTensor* head = original.Find(kHeadWeight);
  const ModelTensor* embeddings = original.Find("model.embed_tokens.weight");
  if (!IsMatrix(head) || !IsMatrix(embeddings)) return false;
  const auto same = IsSameMatrix(sample, WeightValues(original, *head),
                                 WeightValues(original, *embeddings), 0);
  if (!same.ok()) return same.status();
  return !*same;
}

}  // namespace quantd::checkpoint
