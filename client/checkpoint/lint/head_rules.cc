// Rules about the output head of a language model.
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/checkpoint/anatomy/config_facts.h"
#include "client/checkpoint/lint/rules.h"
#include "client/checkpoint/names.h"
#include "client/checkpoint/weight_values.h"

namespace quantd::checkpoint {
namespace {

constexpr char kHead[] = "lm_head";
constexpr char kHeadWeight[] = "lm_head.weight";
constexpr char kEmbeddings[] = "model.embed_tokens.weight";

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

class HeadRules : public Rules {
 public:
  using Rules::Rules;

  void CheckMissing() {
    const Json& config = model_.config();
    if (!IsLanguageModel(config)) return;
    bool layers = false;
    for (const ModelTensor& t : model_.tensors()) {
      if (LayerOf(t.name()).number >= 0) {
        layers = true;
      } else if (IsOfHead(architecture_, t.name())) {
        return;
      }
    }
    if (!layers) return;
    if (IsHeadTied(config, model_.model_type()) != false) return CheckListed();
    Find("missing-weight", kHeadWeight, "it is missing, although {}",
         Member(&config, kTiedHead) != nullptr
             ? "config.json does not tie it to the embeddings"
             : "models of this type do not tie it to the embeddings by "
               "default");
  }

  void CheckTied() {
    const ModelTensor* plain = model_.Find(kHeadWeight);
    const ModelTensor* embeddings = model_.Find(kEmbeddings);
    if (IsHeadTied(model_.config(), model_.model_type()) != true ||
        !IsMatrix(embeddings)) {
      return;
    }
    std::optional<WeightValues> head;
    double most_noise = 0.25;
    for (const StoredWeight& w : stored_.weights) {
      if (w.module == kHead) head.emplace(model_, w);
    }
    if (!head && IsMatrix(plain)) {
      head.emplace(model_, *plain);
      most_noise = 0;
    }
    if (!head ||
        ValueOf(IsSameMatrix(linted_.sample, *head,
                             WeightValues(model_, *embeddings), most_noise))) {
      return;
    }
    Find("tied-head", kHead,
         "config.json ties it to the embeddings, but it is another matrix");
  }

 private:
  // Finds a tied head that is not listed as unquantized. Engines create the
  // head as a linear layer even if no file has it.
  void CheckListed() {
    const auto heads = HeadNames(model_.config());
    if (!TakesLinear() ||
        std::ranges::any_of(heads, [&](const std::string& head) {
          return declared_.ignored().MayName(head);
        })) {
      return;
    }
    Find({"ignore-list", "head"}, heads.front(),
         "the head is tied to the embeddings and in no file, but is missing in "
         "the list of modules that are not quantized");
  }
};

}  // namespace

void LintHead(const LintedModel& linted, Findings* findings) {
  HeadRules rules(linted, findings);
  rules.CheckMissing();
  rules.CheckTied();
}

absl::StatusOr<bool> IsHeadNeeded(const Model& original, const Json& config,
                                  std::string_view type,
                                  const RowSample& sample) {
  if (const auto tied = IsHeadTied(config, type)) return !*tied;
  const ModelTensor* head = original.Find(kHeadWeight);
  const ModelTensor* embeddings = original.Find(kEmbeddings);
  if (!IsMatrix(head) || !IsMatrix(embeddings)) return false;
  const auto same = IsSameMatrix(sample, WeightValues(original, *head),
                                 WeightValues(original, *embeddings), 0);
  if (!same.ok()) return same.status();
  return !*same;
}

}  // namespace quantd::checkpoint
