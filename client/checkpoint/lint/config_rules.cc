#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <string>

#include "absl/strings/ascii.h"
#include "client/checkpoint/check/guess.h"
#include "client/checkpoint/lint/rules.h"
#include "client/files/quantized_file.h"
#include "client/files/words.h"

namespace quantd::checkpoint {
namespace {

// JSON types that engines accept for a member, as bits.
enum Kinds : unsigned {
  kText = 1,
  kInteger = 2,
  kTruth = 4,
  kObject = 8,
  kNames = 16,     // a list of strings
  kIntegers = 32,  // a list of integers
  kNull = 64,
};

struct TypedKey {
  std::string_view key;
  unsigned kinds;
};
constexpr TypedKey kOfModel[] = {
    {"model_type", kText},
    {"architectures", kNames | kNull},
    {"hidden_size", kInteger | kNull},
    {"num_hidden_layers", kInteger | kNull},
    {"num_attention_heads", kInteger | kNull | kIntegers},
    {"num_key_value_heads", kInteger | kNull | kIntegers},
    {"vocab_size", kInteger | kNull},
    {"tie_word_embeddings", kTruth | kNull},
    {"torch_dtype", kText | kNull},
    {"dtype", kText | kNull},
};
// Values of dtype and torch_dtype.
constexpr std::string_view kTypes[] = {"float32",  "float",   "float16", "half",
                                       "bfloat16", "float64", "auto"};
constexpr TypedKey kOfQuantization[] = {
    {"quant_method", kText},
    {"config_groups", kObject},
    {"format", kText},
    {"ignore", kNames},
    {"ignored_layers", kNames | kNull},
    {"modules_to_not_convert", kNames | kNull},
    {"exclude_modules", kNames | kNull},
    {"quantization_status", kText},
    {"kv_cache_scheme", kObject | kNull},
    {"transform_config", kObject | kNull},
    {"sparsity_config", kObject | kNull},
    {"activation_scheme", kText},
    {"fmt", kText},
    {"weight_block_size", kIntegers | kNull},
    {"quant_algo", kText | kNull},
    {"kv_cache_quant_algo", kText | kNull},
    {"group_size", kInteger | kNull},
    {"quantized_layers", kObject | kNull},
};
constexpr TypedKey kOfGroup[] = {
    {"targets", kNames},
    {"weights", kObject},
    {"input_activations", kObject | kNull},
    {"output_activations", kObject | kNull},
    {"format", kText | kNull},
};
constexpr TypedKey kOfScheme[] = {
    {"num_bits", kInteger},
    {"type", kText},
    {"symmetric", kTruth},
    {"strategy", kText | kNull},
    {"group_size", kInteger | kNull},
    {"block_structure", kIntegers | kText | kNull},
    {"actorder", kText | kTruth | kNull},
    {"scale_dtype", kText | kNull},
};

bool IsListOf(const Json& json, bool (Json::*is)() const) {
  return json.is_array() && std::ranges::all_of(json, [&](const Json& item) {
           return (item.*is)();
         });
}

bool IsOf(const Json& json, unsigned kinds) {
  return ((kinds & kText) != 0 && json.is_string()) ||
         ((kinds & kInteger) != 0 && json.is_number_integer()) ||
         ((kinds & kTruth) != 0 && json.is_boolean()) ||
         ((kinds & kObject) != 0 && json.is_object()) ||
         ((kinds & kNames) != 0 && IsListOf(json, &Json::is_string)) ||
         ((kinds & kIntegers) != 0 &&
          IsListOf(json, &Json::is_number_integer)) ||
         ((kinds & kNull) != 0 && json.is_null());
}

std::string Describe(unsigned kinds) {
  for (const auto& [kind, words] :
       {std::pair{kText, "a string"}, std::pair{kInteger, "an integer"},
        std::pair{kTruth, "true or false"}, std::pair{kObject, "an object"},
        std::pair{kNames, "a list of strings"},
        std::pair{kIntegers, "a list of integers"}}) {
    if ((kinds & kind) != 0) return words;
  }
  return "null";
}

// Removes everything up to the file's name, which is already shown.
std::string WithoutFile(std::string message) {
  const std::string file = std::string(kModelOptFile) + ": ";
  const size_t at = message.find(file);
  return at == std::string::npos ? message : message.substr(at + file.size());
}

class ConfigRules : public Rules {
 public:
  using Rules::Rules;

  // Finds byte order marks: Python's JSON library fails on them.
  void CheckMarks() {
    constexpr std::string_view kMark = "\xEF\xBB\xBF";
    if (model_.single_file()) return;
    for (const char* name : {kConfigFile, kModelOptFile}) {
      const auto text =
          ReadText(model_.folder().OpenFile(name), kMaxConfigBytes);
      if (!text.ok() || !text->starts_with(kMark)) continue;
      Find({"config", "byte order mark"}, name,
           "it begins with a byte order mark, which makes transformers fail");
    }
  }

  void CheckNumbers() { CheckNumbers("", model_.config()); }

  void CheckTypes() {
    CheckKeys(kConfigFile, "", &model_.config(), kOfModel);
    for (const char* key : {"torch_dtype", "dtype"}) {
      const Json* value = Member(&model_.config(), key);
      std::string type = TextOf(value).value_or(std::string(kTypes[0]));
      if (type.starts_with("torch.")) type.erase(0, 6);
      if (Has(kTypes, type)) continue;
      Expected(kConfigFile, key, value, "float32, float16 or bfloat16", key);
    }
    const Json* q = Member(&model_.config(), "quantization_config");
    if (q != nullptr && !q->is_object() && !q->is_null()) {
      Expected(kConfigFile, "quantization_config", q, "an object",
               "quantization_config");
    }
    CheckKeys(kConfigFile, "", q, kOfQuantization);
    CheckKeys(kModelOptFile, "", declared_.own(), kOfQuantization);
    const Json* groups = Member(q, "config_groups");
    if (groups == nullptr || !groups->is_object()) return;
    for (const auto& [name, group] : groups->items()) {
      const std::string path = "config_groups." + name + ".";
      if (!group.is_object()) {
        Expected(kConfigFile, "config_groups." + name, &group, "an object",
                 path);
        continue;
      }
      CheckKeys(kConfigFile, path, &group, kOfGroup);
      for (const char* key : {"weights", "input_activations"}) {
        const Json* scheme = Member(&group, key);
        const std::string inner = path + key + ".";
        CheckKeys(kConfigFile, inner, scheme, kOfScheme);
        const Json* dynamic = Member(scheme, "dynamic");
        if (dynamic != nullptr && !dynamic->is_boolean() &&
            *dynamic != "local") {
          Expected(kConfigFile, inner + "dynamic", dynamic,
                   "true, false or \"local\"", inner);
        }
      }
    }
  }

  // Finds configurations that declare a quantization although no weight is
  // quantized.
  void CheckAny() {
    const bool any = !stored_.weights.empty() || !stored_.unclear.empty();
    const bool narrow = AnyTensor([](const ModelTensor& t) {
      return safetensors::BitsOf(t.stored.dtype) < 16 ||
             t.stored.dtype == "I32";
    });
    if (any || narrow) return;
    if (const auto algorithm = TextOf(Member(declared_.own(), "quant_algo"))) {
      Find({"config-mismatch", kUnquantized}, kModelOptFile,
           "it declares the weights as {}, but no weight is quantized",
           *algorithm);
    }
    if (declared_.dialect() == Dialect::kNone ||
        declared_.quantization() == declared_.own()) {
      return;
    }
    Find({"config-mismatch", kUnquantized}, kConfigFile,
         "it declares that {} quantized the weights, but no weight "
         "is quantized",
         Name(declared_.dialect()));
  }

  void CheckKnown() {
    if (stored_.weights.empty() || model_.single_file()) return;
    const StoredWeight& first = stored_.weights.front();
    const Dialect configured = declared_.dialect();
    for (const StoredWeight& w : stored_.weights) {
      if (!IsOfAnother(w, configured)) continue;
      Find("dialect", w.module,
           "its parts are named as in {}, but config.json is for {}",
           Name(w.layout->dialect), Name(configured));
    }
    const Dialect dialect = first.layout->dialect;
    if (dialect == Dialect::kComfy || linted_.dialect == Dialect::kComfy) {
      return;
    }
    const Json& config = model_.config();
    if (model_.has_config() && Member(&config, "_class_name") == nullptr) {
      Needs(&config, kConfigFile, {"model_type"});
      // Engines choose the model's code by "architectures".
      if (architecture_.known()) {
        Needs(&config, kConfigFile, {"architectures"});
      }
    }
    if (!model_.has_config()) {
      Find({"config", kAbsent}, kConfigFile,
           "it is missing, so engines do not know the model and its "
           "quantization");
      return;
    }
    const Json* q = declared_.quantization();
    if (q == nullptr) {
      const Json* there = Member(&model_.config(), "quantization_config");
      // CheckTypes reports a value of the wrong type.
      if (there != nullptr && !there->is_null()) return;
      Find("config", kConfigFile,
           "it has no quantization_config, so engines read the codes as "
           "weights");
      return;
    }
    if (configured == Dialect::kNone) {
      const auto method = TextOf(Member(q, "quant_method"));
      if (!method) {
        Needs(q, kConfigFile, {"quant_method"});
      } else if (IsOfQuark(model_.config()) &&
                 FindFormat(first.layout->codes)->element == DType::kE4M3) {
        return;
      } else if (dialect != Dialect::kCompressedTensors ||
                 absl::AsciiStrToLower(*method).find("compressed") !=
                     std::string::npos) {
        Find("dialect", kConfigFile,
             "\"quant_method\" is \"{}\", but the tensors are those of {}",
             *method, Name(dialect));
      }
      return;
    }
    CheckKeysOf(configured, first, *q);
  }

 private:
  // Finds NaN. Infinities occur in valid models.
  void CheckNumbers(const std::string& path, const Json& json) {
    if (json.is_number_float() && std::isnan(json.get<double>())) {
      Expected(kConfigFile, path, &json, "a number", kNotANumber);
    }
    if (!json.is_structured()) return;
    for (const auto& [key, value] : json.items()) {
      CheckNumbers(path.empty() ? key : path + "." + key, value);
    }
  }

  template <size_t kCount>
  void CheckKeys(const char* file, const std::string& path, const Json* json,
                 const TypedKey (&keys)[kCount]) {
    for (const TypedKey& k : keys) {
      const Json* value = Member(json, k.key);
      const bool count = value != nullptr && json == &model_.config() &&
                         value->is_number_integer() && *value <= 0;
      const std::string name = path + std::string(k.key);
      if (count) Expected(file, name, value, "more than 0", name);
      if (value == nullptr || IsOf(*value, k.kinds)) continue;
      Expected(file, name, value, Describe(k.kinds), name);
    }
  }

  void Expected(const char* file, const std::string& path, const Json* there,
                std::string_view expected, std::string_view kind) {
    Find({"config-type", kind}, file, "\"{}\" is {}, but should be {}", path,
         Shown(there), expected);
  }

  void Needs(const Json* json, const char* file,
             std::initializer_list<const char*> keys) {
    for (const char* key : keys) {
      if (Member(json, key) != nullptr) continue;
      Find({"config", key}, file, "\"{}\" is missing", key);
    }
  }

  void CheckKeysOf(Dialect dialect, const StoredWeight& first, const Json& q) {
    switch (dialect) {
      case Dialect::kModelOpt: {
        const Json* own = declared_.own();
        if (own == nullptr || !own->is_object()) {
          const absl::Status& s = declared_.own_status();
          Find("config", kModelOptFile, "{}",
               absl::IsNotFound(s) ? "it is missing, but TensorRT-LLM and "
                                     "older engines read only this file"
               : s.ok()            ? std::string("\"quantization\" is missing")
                                   : WithoutFile(std::string(s.message())));
          return;
        }
        Needs(own, kModelOptFile, {"quant_algo", "kv_cache_quant_algo"});
        const bool mixed =
            TextOf(Member(own, "quant_algo")) == "MIXED_PRECISION";
        Needs(own, kModelOptFile,
              {mixed ? "quantized_layers" : "exclude_modules"});
        if (!mixed && first.layout->format == WeightFormat::kNvfp4) {
          Needs(own, kModelOptFile, {"group_size"});
        }
        break;
      }
      case Dialect::kCompressedTensors: {
        Needs(&q, kConfigFile,
              {"config_groups", "format", "ignore", "quantization_status"});
        const Json* groups = Member(&q, "config_groups");
        if (groups != nullptr && groups->empty()) {
          Find("config", kConfigFile, "\"config_groups\" is empty");
        }
        for (const DeclaredGroup& g : declared_.groups()) {
          for (const char* key : {"targets", "weights"}) {
            if (!g.json->is_object() || Member(g.json, key) != nullptr) {
              continue;
            }
            Find({"config", g.name + key}, kConfigFile, "\"{}.{}\" is missing",
                 g.name, key);
          }
        }
        break;
      }
      case Dialect::kDeepSeek:
        if (first.layout->format != WeightFormat::kFp8) {
          Needs(&q, kConfigFile, {"weight_block_size"});
        }
        Needs(&q, kConfigFile, {"activation_scheme"});
        break;
      case Dialect::kGptOss:
      case Dialect::kComfy:
      case Dialect::kNone:
        break;
    }
  }
};

}  // namespace

void LintConfig(const LintedModel& linted, Findings* findings) {
  ConfigRules rules(linted, findings);
  rules.CheckMarks();
  rules.CheckNumbers();
  rules.CheckTypes();
  rules.CheckAny();
  rules.CheckKnown();
}

}  // namespace quantd::checkpoint
