// Rules about files beside the weights, such as the tokenizer.
#include <algorithm>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/checkpoint/lint/rules.h"
#include "client/checkpoint/pattern.h"
#include "fmt/format.h"

namespace quantd::checkpoint {
namespace {

constexpr char kTokenizer[] = "tokenizer.json";
constexpr char kTokenizerConfig[] = "tokenizer_config.json";
constexpr char kGeneration[] = "generation_config.json";
constexpr char kAdapter[] = "adapter_config.json";
// Other files of transformers. Each holds one JSON object.
constexpr std::string_view kObjects[] = {
    kTokenizerConfig,           kGeneration,
    "special_tokens_map.json",  "added_tokens.json",
    "preprocessor_config.json", "processor_config.json"};
constexpr std::string_view kTokenizers[] = {
    kTokenizer, "tokenizer.model", "vocab.json", "vocab.txt", "tiktoken.model"};

// The largest tokenizer.json known has about 35 MB.
constexpr size_t kMaxTokenizerBytes = size_t{128} << 20;
constexpr char kItem[] = "[]";  // an element of a list, in a path of keys

// Parses a tokenizer.json to find the largest token id. "model.vocab" maps each
// token to its id, or lists the tokens in order of their ids. "added_tokens" is
// a list of objects.
class TokenListener : public nlohmann::json_sax<Json> {
 public:
  int64_t largest() const { return largest_; }
  const std::string& error() const { return error_; }

  bool null() override { return true; }
  bool boolean(bool value) override {
    if (IsAt({"added_tokens", kItem, "special"})) special_ = value;
    return true;
  }
  bool number_integer(number_integer_t value) override {
    if (IsAt({"added_tokens", kItem, "id"})) added_ = value;
    if (IsWord()) Take(value);
    return true;
  }
  bool number_unsigned(number_unsigned_t value) override {
    constexpr auto kMost = std::numeric_limits<int64_t>::max();
    return number_integer(static_cast<int64_t>(
        std::min(value, static_cast<number_unsigned_t>(kMost))));
  }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(size_t) override {
    if (IsAt({"added_tokens", kItem})) {
      added_ = -1;
      special_ = false;
    }
    return Enter("");
  }
  bool key(string_t& name) override {
    place_.back() = name;
    return true;
  }
  bool end_object() override {
    place_.pop_back();
    if (IsAt({"added_tokens", kItem}) && !special_) Take(added_);
    return true;
  }
  bool start_array(size_t) override {
    if (IsAt({"model", "vocab", kItem})) Take(pieces_++);
    return Enter(kItem);
  }
  bool end_array() override {
    place_.pop_back();
    return true;
  }
  bool parse_error(size_t byte, const std::string&,
                   const nlohmann::detail::exception&) override {
    error_ = fmt::format("invalid at byte {}", byte);
    return false;
  }

 private:
  // Whether the path to the current position is `keys`.
  bool IsAt(std::initializer_list<std::string_view> keys) const {
    return std::equal(place_.begin(), place_.end(), keys.begin(), keys.end());
  }
  bool IsWord() const {
    return place_.size() == 3 && place_[0] == "model" && place_[1] == "vocab";
  }
  bool Enter(const char* key) {
    if (place_.size() >= static_cast<size_t>(kMostNested)) {
      error_ = fmt::format("more than {} levels of nesting", kMostNested);
      return false;
    }
    place_.emplace_back(key);
    return true;
  }
  void Take(int64_t id) { largest_ = std::max(largest_, id); }

  std::vector<std::string> place_;  // the path of keys to the current position
  int64_t largest_ = -1;
  int64_t pieces_ = 0;  // tokens seen in a list
  int64_t added_ = -1;  // id of the added token being read
  bool special_ = false;
  std::string error_;
};

// The largest id in a tokenizer.json of a token that text can become, -1 if
// none. Special tokens do not count: some models have special tokens beyond
// their embeddings, for images. Holds the file's text in memory, but no parsed
// JSON.
absl::StatusOr<int64_t> LargestTokenId(const absl::StatusOr<InputFile>& file) {
  const auto text = ReadText(file, kMaxTokenizerBytes);
  if (!text.ok()) return text.status();
  TokenListener listener;
  if (!Json::sax_parse(*text, &listener)) {
    return absl::InvalidArgumentError(
        fmt::format("{}: not JSON: {}", file->path(), listener.error()));
  }
  return listener.largest();
}

bool HasFile(const Model& model, std::string_view file) {
  return Has(model.others(), file);
}

bool HasTokenizer(const Model& model) {
  return std::any_of(
      std::begin(kTokenizers), std::end(kTokenizers),
      [&](std::string_view file) { return HasFile(model, file); });
}

// The number of rows of the embeddings; nullopt if their name is unknown or
// they are quantized.
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

class CompanionRules : public Rules {
 public:
  CompanionRules(const LintedModel& linted, Findings* findings)
      : Rules(linted, findings), words_(WordsOf(linted.model)) {}

  void CheckTokenizer() {
    if (!HasFile(model_, kTokenizer)) return;
    const auto largest = LargestTokenId(model_.folder().OpenFile(kTokenizer));
    if (!largest.ok()) {
      Damaged(kTokenizer, largest.status());
      return;
    }
    CheckId(kTokenizer, "the largest token id is", *largest);
  }

  void CheckObjects() {
    for (const std::string_view file : kObjects) {
      if (!HasFile(model_, file)) continue;
      const auto json = ReadConfig(model_.folder().OpenFile(std::string(file)));
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

  // Checks the end tokens. If one does not exist, generation never stops.
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
        fmt::format("{} {}, but the embeddings have only {} rows", what, id,
                    *words_));
  }

  // Checks that the files of references such as "modeling_mine.MineForCausalLM"
  // exist. References with "owner/name--" lead to other repositories.
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
            fmt::format("its \"auto_map\" needs {}, which is missing",
                        Shown(code)));
      }
    }
  }

  void Damaged(std::string_view file, const absl::Status& status) {
    std::string text(status.message());
    const std::string path = PathOf(file) + ": ";
    if (text.starts_with(path)) text.erase(0, path.size());
    Add("companion-file", file, text);
  }

  void Add(std::string_view rule, std::string_view file,
           const std::string& text) {
    Find(rule, std::string(file), text, file);
  }

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
                "it has no tokenizer, but the original has one", kTokenizer);
}

bool HasAdapter(const Model& model) {
  return !model.single_file() && HasFile(model, kAdapter);
}

}  // namespace quantd::checkpoint
