#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "client/checkpoint/check/scheme_table.h"
#include "client/checkpoint/lint/rules.h"
#include "client/checkpoint/weight_values.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace quantd::checkpoint {
namespace {

template <typename List>
bool Includes(const List& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

class SchemeRules {
 public:
  SchemeRules(const LintedModel& linted, Findings* findings)
      : linted_(linted), declared_(linted.declared), findings_(*findings) {}

  absl::Status Check() {
    const bool single = linted_.model.single_file();
    if (linted_.stored.weights.empty() || single) return absl::OkStatus();
    switch (declared_.dialect()) {
      case Dialect::kCompressedTensors:
        CheckCompressedTensors();
        break;
      case Dialect::kModelOpt:
        CheckModelOpt();
        break;
      case Dialect::kDeepSeek:
        if (auto s = CheckDeepSeek(); !s.ok()) return s;
        break;
      default:
        break;
    }
    if (declared_.dialect() != Dialect::kModelOpt &&
        declared_.dialect() != Dialect::kNone && declared_.own_status().ok()) {
      Find(kModelOptFile,
           fmt::format("it is there, and config.json is for {}: engines go by "
                       "one of the two",
                       Name(declared_.dialect())),
           "own");
    }
    CheckType();
    const Json* old = Member(&linted_.model.config(), "compression_config");
    const Json* q = declared_.quantization();
    if (old != nullptr && q != nullptr) {
      for (const char* key : {"quant_method", "format", "config_groups"}) {
        const Json* a = Member(old, key);
        const Json* b = Member(q, key);
        if (a == nullptr || b == nullptr || *a == *b) continue;
        Find(kConfigFile,
             fmt::format("\"compression_config\" and \"quantization_config\" "
                         "have different \"{}\"",
                         key),
             "compression_config");
      }
    }
    return absl::OkStatus();
  }

 private:
  // Numbers of bf16 may be too large for fp16, and nothing says so.
  void CheckType() {
    const Json& config = linted_.model.config();
    const Json* type = Member(&config, "dtype");
    if (type == nullptr) type = Member(&config, "torch_dtype");
    if (TextOf(type) != "float16") return;
    const auto has = [&](const char* dtype) {
      return std::any_of(
          linted_.model.tensors().begin(), linted_.model.tensors().end(),
          [&](const ModelTensor& t) {
            return t.stored.shape.size() > 1 && t.stored.dtype == dtype;
          });
    };
    if (!has("BF16") || has("F16")) return;
    Find(kConfigFile, "the model's type is float16, and its tensors are bf16",
         "dtype");
  }

  void CheckCompressedTensors() {
    const Json* q = declared_.quantization();
    const auto overall = TextOf(Member(q, "format"));
    const bool mixed = overall == "mixed-precision";
    for (const StoredWeight& w : linted_.stored.weights) {
      // A scale alone is that of a row and of a square.
      const bool alone = w.layout->format == WeightFormat::kFp8Block &&
                         w.rows == 1 && w.cols <= BlockOf(*w.layout).cols;
      const SchemeRow* row = FindScheme(w.layout->format);
      if (row == nullptr || alone) continue;
      const DeclaredGroup* group = declared_.GroupOf(w.module);
      if (group == nullptr) {
        if (!declared_.groups().empty()) {
          Find(w.module, "quantized, and no group has it as a target",
               "targets");
        }
        continue;
      }
      const Json* own = Member(group->json, "format");
      const auto format = own && own->is_string() ? TextOf(own) : overall;
      const std::string_view place =
          own && own->is_string() ? std::string_view(group->name) : "top";
      if (format && !(mixed && format == overall) &&
          !Includes(row->file_formats, *format)) {
        Mismatch(w, place, "format", Member(own ? group->json : q, "format"),
                 fmt::format("\"{}\"", row->file_formats.front()));
      }
      if (own != nullptr && overall && !mixed &&
          !Includes(row->file_formats, *overall) && format != overall) {
        Mismatch(w, "top", "format", Member(q, "format"),
                 fmt::format("\"{}\"", row->file_formats.front()));
      }
      CheckScheme(w, *row, *group);
    }
    CheckExtras(*q);
  }

  void CheckScheme(const StoredWeight& w, const SchemeRow& row,
                   const DeclaredGroup& group) {
    const Json* scheme = Member(group.json, "weights");
    if (scheme == nullptr || !scheme->is_object()) return;
    const std::string place = group.name + ".weights";
    const auto want = [&](const char* key, const Json& value, bool needed) {
      const Json* there = Member(scheme, key);
      const bool none = there == nullptr || there->is_null();
      if (none ? !needed : *there == value) return;
      Mismatch(w, place, key, there, Shown(&value));
    };
    want("num_bits", row.bits, true);
    want("type", "float", true);
    want("symmetric", true, false);
    want("dynamic", false, false);
    want("strategy", row.strategy, false);
    const auto size = IntegerOf(Member(scheme, "group_size"));
    if (row.group_size > 0) {
      want("group_size", row.group_size, true);
    } else if (size && *size > 0) {
      Mismatch(w, place, "group_size", Member(scheme, "group_size"), "null");
    }
    if (!row.scale_type.empty()) want("scale_dtype", row.scale_type, false);
    if (w.layout->format == WeightFormat::kFp8Block) {
      const BlockShape block = BlockOf(*w.layout);
      const Json* there = Member(scheme, "block_structure");
      if (there == nullptr ||
          *there != fmt::format("{}x{}", block.rows, block.cols)) {
        want("block_structure", Json{block.rows, block.cols}, true);
      }
    }
    const Json* inputs = Member(group.json, "input_activations");
    const Json* input_type = Member(inputs, "type");
    if (input_type != nullptr && *input_type != "float") {
      Mismatch(w, group.name + ".input_activations", "type", input_type,
               "\"float\"");
    }
    const auto input_bits = IntegerOf(Member(inputs, "num_bits"));
    const bool blocks = TextOf(Member(inputs, "strategy")) == "tensor_group";
    const Json* input_size = Member(inputs, "group_size");
    if (blocks && row.group_size > 0 &&
        IntegerOf(input_size) != row.group_size) {
      Mismatch(w, group.name + ".input_activations", "group_size", input_size,
               fmt::format("{}", row.group_size));
    }
    if (input_bits && *input_bits != row.bits && (blocks || *input_bits != 8)) {
      Mismatch(w, group.name + ".input_activations", "num_bits",
               Member(inputs, "num_bits"), fmt::format("{}", row.bits));
    }
    const Json* order = Member(scheme, "actorder");
    if (order != nullptr && !order->is_null() && *order != false &&
        *order != "static" && *order != "weight" &&
        linted_.model.Find(w.module + ".weight_g_idx") == nullptr) {
      Mismatch(w, place, "actorder", order, "null, without a weight_g_idx");
    }
  }

  // What the file says to have been done to weights, and nothing shows.
  void CheckExtras(const Json& q) {
    const auto status = TextOf(Member(&q, "quantization_status"));
    if (status && *status != "compressed") {
      Find(kConfigFile,
           fmt::format("\"quantization_status\" is \"{}\", and the weights are "
                       "compressed",
                       *status),
           "quantization_status");
    }
    const Json* groups =
        Member(Member(&q, "transform_config"), "config_groups");
    if (groups != nullptr && groups->is_object()) {
      for (const auto& [name, group] : groups->items()) {
        const bool there = std::any_of(
            linted_.model.tensors().begin(), linted_.model.tensors().end(),
            [name = name](const ModelTensor& t) {
              return t.name().find(name + "_") != std::string::npos;
            });
        if (there) continue;
        Find(kConfigFile,
             fmt::format("\"transform_config\" has {}, and no tensor is of it: "
                         "needed where the weights are turned, and wrong where "
                         "they are not, as the original shows",
                         name),
             std::string(kTransforms));
      }
    }
    const auto sparsity =
        TextOf(Member(Member(&q, "sparsity_config"), "format"));
    const bool masks = std::any_of(
        linted_.model.tensors().begin(), linted_.model.tensors().end(),
        [](const auto& t) { return t.name().ends_with(".bitmask"); });
    if (sparsity && *sparsity != "dense" && !masks) {
      Find(kConfigFile,
           fmt::format("\"sparsity_config\" says {}, and the weights are dense",
                       *sparsity),
           std::string(kSparsity));
    }
  }

  void CheckModelOpt() {
    const Json* own = declared_.own();
    const Json* q = declared_.quantization();
    for (const auto& [file, json] :
         {std::pair{kModelOptFile, own}, std::pair{kConfigFile, q}}) {
      const auto all = TextOf(Member(json, "quant_algo"));
      const auto size = IntegerOf(Member(json, "group_size"));
      for (const StoredWeight& w : linted_.stored.weights) {
        const SchemeRow* row = FindScheme(w.layout->format);
        if (row == nullptr || !all) continue;
        std::string algorithm = *all;
        const Json* layer = nullptr;
        if (algorithm == "MIXED_PRECISION") {
          layer = LayerOf(Member(json, "quantized_layers"), w.module);
          algorithm = TextOf(Member(layer, "quant_algo")).value_or("");
          if (layer == nullptr) {
            Find(w.module,
                 fmt::format("quantized, and not among the quantized_layers of "
                             "{}",
                             file),
                 std::string(file) + "quantized_layers");
            continue;
          }
        }
        if (!Includes(row->algorithms, algorithm)) {
          Mismatch(w, file, "quant_algo",
                   Member(layer ? layer : json, "quant_algo"),
                   fmt::format("\"{}\"", row->algorithms.front()));
        } else if (algorithm == "NVFP4_AWQ" &&
                   linted_.model.Find(w.module + ".pre_quant_scale") ==
                       nullptr) {
          awq_.insert(file);
        }
        const auto group =
            layer ? IntegerOf(Member(layer, "group_size")) : size;
        if (row->group_size > 0 && group && *group != row->group_size) {
          Mismatch(w, file, "group_size",
                   Member(layer ? layer : json, "group_size"),
                   fmt::format("{}", row->group_size));
        }
        CheckGroups(w, *row, json, file);
      }
    }
    // Every weight of which is told by its neighbour's norm has none.
    const bool smoothed = std::any_of(
        linted_.model.tensors().begin(), linted_.model.tensors().end(),
        [](const auto& t) { return t.name().ends_with(".pre_quant_scale"); });
    if (!awq_.empty() && !smoothed) {
      Find(*awq_.begin(),
           "\"quant_algo\" is \"NVFP4_AWQ\", and no weight has a "
           "pre_quant_scale",
           "awq");
    }
    CheckAgreement(own, q);
  }

  void CheckGroups(const StoredWeight& w, const SchemeRow& row,
                   const Json* json, const char* file) {
    const Json* groups = Member(json, "config_groups");
    if (groups == nullptr || !groups->is_object() || groups->size() != 1) {
      return;
    }
    const Json* scheme = Member(&*groups->begin(), "weights");
    const auto bits = IntegerOf(Member(scheme, "num_bits"));
    const auto size = IntegerOf(Member(scheme, "group_size"));
    const Json* type = Member(scheme, "type");
    if (type != nullptr && *type != "float") {
      Mismatch(w, file, "type", type, "\"float\"");
    }
    if (bits && *bits != row.bits) {
      Mismatch(w, file, "num_bits", Member(scheme, "num_bits"),
               fmt::format("{}", row.bits));
    }
    if (row.group_size > 0 && size && *size != row.group_size) {
      Mismatch(w, file, "config_groups.group_size",
               Member(scheme, "group_size"), fmt::format("{}", row.group_size));
    }
  }

  // Older files name the experts of a layer at once.
  static const Json* LayerOf(const Json* layers, const std::string& module) {
    for (std::string name = module; !name.empty();
         name = std::string(SplitModule(name).parent)) {
      if (const Json* found = Member(layers, name)) return found;
    }
    return nullptr;
  }

  void CheckAgreement(const Json* own, const Json* q) {
    for (const char* key : {"quant_algo", "group_size"}) {
      const Json* a = Member(own, key);
      const Json* b = Member(q, key);
      if (a == nullptr || b == nullptr || *a == *b) continue;
      Find(kConfigFile,
           fmt::format("\"{}\" is {}, and {} in {}", key, Shown(b), Shown(a),
                       kModelOptFile),
           key);
    }
  }

  absl::Status CheckDeepSeek() {
    const Json* q = declared_.quantization();
    const Json* size = Member(q, "weight_block_size");
    const auto type = TextOf(Member(q, "fmt"));
    const bool powers = TextOf(Member(q, "scale_fmt")) == "ue8m0";
    for (const StoredWeight& w : linted_.stored.weights) {
      const WeightFormat format = w.layout->format;
      const BlockShape block = BlockOf(*w.layout);
      const bool blocks = format == WeightFormat::kFp8Block;
      if (blocks && size != nullptr && !size->is_null() &&
          *size != Json{block.rows, block.cols}) {
        Mismatch(w, "top", "weight_block_size", size,
                 fmt::format("[{},{}]", block.rows, block.cols));
      }
      if (blocks && w.layout->dialect != Dialect::kDeepSeek) {
        Find(w.module,
             "its scales are weight_scale, and engines look for "
             "weight_scale_inv",
             "names");
      }
      if (!blocks && size != nullptr && !size->is_null()) {
        Mismatch(w, "top", "weight_block_size", size, "null");
      }
      if (type && *type != "e4m3") {
        Mismatch(w, "top", "fmt", Member(q, "fmt"), "\"e4m3\"");
      }
      if (!powers) continue;
      const auto numbers =
          ReadNumbers(linted_.model, *w.part(PartSource::kScales));
      if (!numbers.ok()) return numbers.status();
      for (const float x : *numbers) {
        int exponent = 0;
        if (!std::isfinite(x) || x <= 0 || std::frexp(x, &exponent) == 0.5f) {
          continue;
        }
        Find(w.module,
             fmt::format("\"scale_fmt\" is \"ue8m0\", and it has a scale of "
                         "{:.4g}, no power of two",
                         x),
             "scale_fmt");
        break;
      }
    }
    return absl::OkStatus();
  }

  void Mismatch(const StoredWeight& w, std::string_view place,
                std::string_view key, const Json* there,
                const std::string& want) {
    const std::string path =
        place == "top" ? std::string(key) : fmt::format("{}: {}", place, key);
    Find(w.module,
         fmt::format("\"{}\" is {}, and for the {} of the tensors it would be "
                     "{}",
                     path, Shown(there), Name(w.layout->format), want),
         path);
  }

  void Find(const std::string& where, const std::string& text,
            const std::string& kind) {
    findings_.Add("config-mismatch", where, text, kind);
  }

  const LintedModel& linted_;
  const Declared& declared_;
  Findings& findings_;
  std::set<std::string> awq_;
};

}  // namespace

absl::Status LintSchemes(const LintedModel& linted, Findings* findings) {
  return SchemeRules(linted, findings).Check();
}

}  // namespace quantd::checkpoint
