// Rules about files beside the weights, such as the tokenizer.
#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/checkpoint/check/config_difference.h"
#include "client/checkpoint/lint/rules.h"
#include "client/files/model_files.h"
#include "client/files/words.h"
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

// Endings of files with weights, which no library writes anew.
constexpr std::string_view kWeights[] = {".safetensors", ".bin", ".pt", ".pth"};
// Beginnings and endings of files that engines ignore.
constexpr std::string_view kDocuments[] = {
    "README", "LICENSE", "NOTICE", "USE_POLICY", ".md",   ".png", ".jpg",
    ".jpeg",  ".gif",    ".svg",   ".webp",      ".yaml", ".yml", ".pdf"};

// The largest tokenizer.json known has about 35 MB.
constexpr size_t kMaxTokenizerBytes = size_t{128} << 20;
constexpr size_t kPiece = size_t{1} << 20;

// The largest id of an ordinary token in a tokenizer.json, -1 if none.
// "model.vocab" maps each token to its id, or lists the tokens in order of
// their ids. "added_tokens" lists objects. Special tokens do not count: some
// models have special tokens beyond their embeddings, for images. Holds the
// file's text in memory, but drops nearly all values as soon as they are
// parsed.
absl::StatusOr<int64_t> LargestTokenId(const absl::StatusOr<InputFile>& file) {
  using Event = Json::parse_event_t;
  const auto text = ReadText(file, kMaxTokenizerBytes);
  if (!text.ok()) return text.status();
  const auto bad = [&](const std::string& why) {
    return absl::InvalidArgumentError(fmt::format("{}: {}", file->path(), why));
  };
  if (NestsTooDeep(*text)) {
    return bad(fmt::format("more than {} levels of nesting", kMostNested));
  }
  int64_t largest = -1;
  const auto take = [&](const Json& id) {
    constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
    if (!id.is_number_integer()) return;
    const bool huge = id.is_number_unsigned() && id.get<uint64_t>() > kMost;
    largest = std::max(largest,
                       huge ? static_cast<int64_t>(kMost) : id.get<int64_t>());
  };
  int64_t pieces = 0;  // tokens seen in a list
  std::string outer;   // the first two keys of the current position
  std::string inner;
  const auto look = [&](int depth, Event event, const Json& parsed) {
    const bool word = depth == 3 && outer == "model" && inner == "vocab";
    const bool added = outer == "added_tokens";
    switch (event) {
      case Event::key:
        if (depth == 1) outer = parsed.get<std::string>();
        if (depth == 2) inner = parsed.get<std::string>();
        return depth == 1 || (added && (parsed == "id" || parsed == "special"));
      case Event::value:
        if (word) take(parsed);
        return true;
      case Event::array_start:
        if (word) take(pieces++);
        return true;
      case Event::object_end:
        if (depth == 2 && added && parsed.value("special", Json()) != true) {
          take(parsed.value("id", Json()));
        }
        return depth == 0;
      case Event::object_start:
      case Event::array_end:
        return true;
    }
    return true;
  };
  const Json whole = Json::parse(*text, look, /*allow_exceptions=*/false);
  if (whole.is_discarded()) return bad("not JSON");
  return largest;
}

// The items of a list, or the value itself.
std::vector<Json> ListOf(const Json& value) {
  if (value.is_array()) return value.get<std::vector<Json>>();
  return std::vector<Json>{value};
}

bool HasFile(const Model& model, std::string_view file) {
  return Has(model.others(), file);
}

// Whether engines ignore the file.
bool IsDocument(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  return EndsWithOneOf(name, kDocuments) ||
         std::ranges::any_of(kDocuments, [&](std::string_view w) {
           return name.starts_with(w);
         });
}

// Whether both models have the same bytes or the same JSON in the file.
absl::StatusOr<bool> IsSameFile(const Model& a, const Model& b,
                                const std::string& name) {
  const auto x = a.folder().OpenFile(name);
  const auto y = b.folder().OpenFile(name);
  if (!x.ok()) return x.status();
  if (!y.ok()) return y.status();
  bool same = x->size() == y->size();
  std::vector<std::byte> bytes[2];
  for (size_t done = 0; same && done < x->size(); done += bytes[0].size()) {
    for (auto& some : bytes) some.resize(std::min(kPiece, x->size() - done));
    if (auto s = x->ReadAt(done, absl::MakeSpan(bytes[0])); !s.ok()) return s;
    if (auto s = y->ReadAt(done, absl::MakeSpan(bytes[1])); !s.ok()) return s;
    same = bytes[0] == bytes[1];
  }
  if (same || !name.ends_with(".json")) return same;
  const auto read = [&](const Model& model) {
    return ReadObject<nlohmann::json>(
        model.folder().OpenFile(name), kMaxTokenizerBytes,
        [](std::string_view text) { return nlohmann::json::parse(text); });
  };
  const auto before = read(a);
  const auto after = read(b);
  return before.ok() && after.ok() && *before == *after;
}

bool HasTokenizer(const Model& model) {
  return std::ranges::any_of(
      kTokenizers, [&](std::string_view file) { return HasFile(model, file); });
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
    for (const Json& end : ListOf(*ends)) {
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
      for (const Json& item : ListOf(value)) {
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
    Find({rule, file}, std::string(file), "{}", text);
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
                           Findings* findings,
                           std::vector<std::string>* notes) {
  if (original.single_file() || model.single_file()) return;
  const bool saved_again = IsSavedAgain(original, model);
  std::vector<std::string> files = original.others();
  if (original.has_config() && !model.has_config()) {
    files.emplace_back(kConfigFile);
  }
  for (const std::string& file : files) {
    if (IsDocument(file)) continue;
    const bool there = HasFile(model, file);
    const auto same =
        there ? IsSameFile(original, model, file) : absl::StatusOr<bool>(false);
    if (!same.ok()) return findings->Fail(same.status());
    if (*same) continue;
    const std::string text =
        there ? "it is not the file of the original"
              : "the original has it, but the model does not";
    const bool needed = EndsWithOneOf(file, kWeights) ||
                        (Has(kTokenizers, file) && !HasTokenizer(model));
    if (saved_again && !needed) {
      notes->push_back(fmt::format("{}: {}", file, text));
    } else {
      findings->Add("companion-file", file, text, file);
    }
  }
  for (const std::string& file : model.others()) {
    if (IsDocument(file) || HasFile(original, file)) continue;
    notes->push_back(fmt::format("{}: the original does not have it", file));
  }
}

bool HasAdapter(const Model& model) {
  return !model.single_file() && HasFile(model, kAdapter);
}

}  // namespace quantd::checkpoint
