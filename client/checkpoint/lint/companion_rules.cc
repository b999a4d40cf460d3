// The files beside the weights.
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/checkpoint/check/token_ids.h"
#include "client/checkpoint/lint/rules.h"
#include "fmt/format.h"

namespace quantd::checkpoint {
namespace {

constexpr char kTokenizer[] = "tokenizer.json";
constexpr char kTokenizerConfig[] = "tokenizer_config.json";
constexpr char kGeneration[] = "generation_config.json";
constexpr char kAdapter[] = "adapter_config.json";
// Others that transformers reads, objects all of them.
constexpr std::string_view kObjects[] = {
    kTokenizerConfig,           kGeneration,
    "special_tokens_map.json",  "added_tokens.json",
    "preprocessor_config.json", "processor_config.json"};
constexpr std::string_view kTokenizers[] = {
    kTokenizer, "tokenizer.model", "vocab.json", "vocab.txt", "tiktoken.model"};

bool HasFile(const Model& model, std::string_view file) {
  const auto& others = model.others();
  return std::find(others.begin(), others.end(), file) != others.end();
}

bool HasTokenizer(const Model& model) {
  return std::any_of(
      std::begin(kTokenizers), std::end(kTokenizers),
      [&](std::string_view file) { return HasFile(model, file); });
}

// How many words the model knows; nullopt: its embeddings have no name that is
// known, or are quantized.
std::optional<int64_t> WordsOf(const Model& model) {
  std::optional<int64_t> words;
  for (const ModelTensor& t : model.tensors()) {
    for (const std::string_view end :
         {"embed_tokens.weight", "word_embeddings.weight", "wte.weight",
          "tok_embeddings.weight"}) {
      if (!t.name().ends_with(end) || t.stored.shape.size() != 2) continue;
      words = std::max(words.value_or(0), t.stored.shape[0]);
    }
  }
  return words;
}

class CompanionRules {
 public:
  CompanionRules(const LintedModel& linted, Findings* findings)
      : model_(linted.model),
        findings_(*findings),
        words_(WordsOf(linted.model)) {}

  void CheckTokenizer() {
    if (!HasFile(model_, kTokenizer)) return;
    const auto largest = LargestTokenId(PathOf(kTokenizer));
    if (!largest.ok()) {
      Damaged(kTokenizer, largest.status());
      return;
    }
    CheckId(kTokenizer, "it gives words numbers up to", *largest);
  }

  void CheckObjects() {
    for (const std::string_view file : kObjects) {
      if (!HasFile(model_, file)) continue;
      const auto json = ReadConfig(PathOf(file));
      if (!json.ok()) {
        Damaged(file, json.status());
        continue;
      }
      if (file == kGeneration) CheckEnds(kGeneration, *json);
      if (file == kTokenizerConfig) CheckCode(kTokenizerConfig, *json);
    }
    CheckEnds(kConfigFile, model_.config());
    CheckCode(kConfigFile, model_.config());
  }

 private:
  std::string PathOf(std::string_view file) const {
    return fmt::format("{}/{}", model_.path(), file);
  }

  // A text never ends that ends with a word which does not exist.
  void CheckEnds(std::string_view file, const Json& json) {
    const Json* ends = Member(&json, "eos_token_id");
    if (ends == nullptr) return;
    const std::vector<Json> all = ends->is_array()
                                      ? ends->get<std::vector<Json>>()
                                      : std::vector<Json>{*ends};
    for (const Json& end : all) {
      if (const auto id = IntegerOf(&end)) {
        CheckId(file, "\"eos_token_id\" is", *id);
      }
    }
  }

  void CheckId(std::string_view file, std::string_view what, int64_t id) {
    if (!words_ || id < *words_) return;
    Add("tokenizer", file,
        fmt::format("{} {}, and the embeddings have {} rows", what, id,
                    *words_));
  }

  // "modeling_mine.MineForCausalLM", or that of another repository behind
  // "owner/name--".
  void CheckCode(std::string_view file, const Json& json) {
    const Json* map = Member(&json, "auto_map");
    if (map == nullptr || !map->is_object()) return;
    for (const auto& [name, value] : map->items()) {
      const std::vector<Json> classes = value.is_array()
                                            ? value.get<std::vector<Json>>()
                                            : std::vector<Json>{value};
      for (const Json& item : classes) {
        const auto text = TextOf(&item);
        if (!text || text->find("--") != std::string::npos) continue;
        const size_t dot = text->rfind('.');
        if (dot == std::string::npos) continue;
        const std::string code = text->substr(0, dot) + ".py";
        if (HasFile(model_, code)) continue;
        Add("companion-file", file,
            fmt::format("its \"auto_map\" is for {}, which is missing",
                        Shown(code)));
      }
    }
  }

  static std::string Shown(const std::string& text) {
    const Json json = text;
    return checkpoint::Shown(&json);
  }

  void Damaged(std::string_view file, const absl::Status& status) {
    std::string text(status.message());
    const std::string path = PathOf(file) + ": ";
    if (text.starts_with(path)) text.erase(0, path.size());
    Add("companion-file", file, text);
  }

  void Add(std::string_view rule, std::string_view file,
           const std::string& text) {
    findings_.Add(rule, std::string(file), text, file);
  }

  const Model& model_;
  Findings& findings_;
  const std::optional<int64_t> words_;
};

}  // namespace

void LintCompanions(const LintedModel& linted, Findings* findings) {
  if (linted.model.single_file()) return;
  CompanionRules rules(linted, findings);
  rules.CheckTokenizer();
  rules.CheckObjects();
}

void LintCompanionsAgainst(const Model& original, const Model& model,
                           Findings* findings) {
  if (original.single_file() || model.single_file()) return;
  if (!HasTokenizer(original) || HasTokenizer(model)) return;
  findings->Add("companion-file", model.path(),
                "the original has a tokenizer, and here is none", kTokenizer);
}

bool HasAdapter(const Model& model) {
  return !model.single_file() && HasFile(model, kAdapter);
}

}  // namespace quantd::checkpoint
