#include <cmath>
#include <optional>
#include <string>
#include <string_view>

#include "client/checkpoint/convert/config_writer.h"
#include "client/checkpoint/lint/rules.h"
#include "client/checkpoint/weight_values.h"
#include "client/files/words.h"
#include "fmt/format.h"

namespace quantd::checkpoint {
namespace {

class SchemeRules : public Rules {
 public:
  using Rules::Rules;

  void Check() {
    if (stored_.weights.empty() || model_.single_file()) return;
    const Dialect dialect = declared_.dialect();
    const Json* q = declared_.quantization();
    if (dialect == Dialect::kCompressedTensors) CheckCompressedTensors(*q);
    if (dialect == Dialect::kModelOpt) CheckModelOpt(declared_.own(), q);
    if (dialect == Dialect::kDeepSeek) CheckDeepSeek(q);
    if (dialect != Dialect::kModelOpt && dialect != Dialect::kNone &&
        declared_.own_status().ok()) {
      Find({"config-mismatch", "own"}, kModelOptFile,
           "it exists, but config.json is for {}: engines "
           "follow one of the two files",
           Name(dialect));
    }
    CheckType();
    const Json* old = Member(&model_.config(), "compression_config");
    for (const char* key : {"quant_method", "format", "config_groups"}) {
      if (Agree(old, q, key)) continue;
      Find({"config-mismatch", "compression_config"}, kConfigFile,
           "\"compression_config\" and \"quantization_config\" "
           "have different \"{}\"",
           key);
    }
  }

 private:
  // Whether a member has the same value in both objects, or is missing in one.
  static bool Agree(const Json* a, const Json* b, const char* key) {
    const Json* one = Member(a, key);
    const Json* other = Member(b, key);
    return one == nullptr || other == nullptr || *one == *other;
  }

  // Finds bf16 models that declare float16. Their numbers may overflow in fp16,
  // which engines do not report.
  void CheckType() {
    const Json& config = model_.config();
    const Json* type = Member(&config, "dtype");
    if (type == nullptr) type = Member(&config, "torch_dtype");
    const auto has = [&](const char* dtype) {
      return AnyTensor([&](const ModelTensor& t) {
        return t.stored.shape.size() > 1 && t.stored.dtype == dtype;
      });
    };
    if (TextOf(type) != "float16" || !has("BF16") || has("F16")) return;
    Find({"config-mismatch", "dtype"}, kConfigFile,
         "\"dtype\" is float16, but the tensors are bf16");
  }

  void CheckCompressedTensors(const Json& q) {
    const auto overall = TextOf(Member(&q, "format"));
    const bool mixed = overall == "mixed-precision";
    for (const StoredWeight& w : stored_.weights) {
      // A single scale may be that of a row or of an FP8 block.
      const bool alone = w.layout->format == WeightFormat::kFp8Block &&
                         w.rows == 1 && w.cols <= BlockOf(*w.layout).cols;
      const SchemeRow* row = FindScheme(w.layout->format);
      if (row == nullptr || alone) continue;
      const DeclaredGroup* group = declared_.GroupOf(w.module);
      if (group == nullptr) {
        if (!declared_.groups().empty()) {
          Find({"config-mismatch", "targets"}, w.module,
               "it is quantized, but is not a target of any group");
        }
        continue;
      }
      const Json* own = Member(group->json, "format");
      const bool named = own != nullptr && own->is_string();
      const auto format = named ? TextOf(own) : overall;
      const auto check = [&](std::string_view place,
                             const std::optional<std::string>& said) {
        if (!said || (mixed && said == overall) ||
            Has(row->file_formats, *said)) {
          return;
        }
        const Json there = *said;
        Mismatch(w, place, "format", &there,
                 fmt::format("\"{}\"", row->file_formats.front()));
      };
      check(named ? std::string_view(group->name) : "top", format);
      if (own != nullptr && format != overall) check("top", overall);
      CheckScheme(w, *row, *group);
    }
    CheckExtras(q);
  }

  void CheckScheme(const StoredWeight& w, const SchemeRow& row,
                   const DeclaredGroup& group) {
    const Json* scheme = Member(group.json, "weights");
    if (scheme == nullptr || !scheme->is_object()) return;
    const std::string place = group.name + ".weights";
    Want(w, place, scheme, "num_bits", row.bits, /*needed=*/true);
    Want(w, place, scheme, "type", "float", /*needed=*/true);
    Want(w, place, scheme, "symmetric", true);
    Want(w, place, scheme, "dynamic", false);
    Want(w, place, scheme, "strategy", row.strategy);
    const auto size = IntegerOf(Member(scheme, "group_size"));
    if (row.group_size > 0) {
      Want(w, place, scheme, "group_size", row.group_size, /*needed=*/true);
    } else if (size && *size > 0) {
      Want(w, place, scheme, "group_size", nullptr);
    }
    if (!row.scale_type.empty()) {
      Want(w, place, scheme, "scale_dtype", row.scale_type);
    }
    const BlockShape block = BlockOf(*w.layout);
    if (w.layout->format == WeightFormat::kFp8Block &&
        TextOf(Member(scheme, "block_structure")) !=
            fmt::format("{}x{}", block.rows, block.cols)) {
      Want(w, place, scheme, "block_structure", {block.rows, block.cols},
           /*needed=*/true);
    }
    const Json* inputs = Member(group.json, "input_activations");
    const std::string inputs_place = group.name + ".input_activations";
    const bool blocks = TextOf(Member(inputs, "strategy")) == "tensor_group";
    Want(w, inputs_place, inputs, "type", "float");
    if (blocks && row.group_size > 0) {
      Want(w, inputs_place, inputs, "group_size", row.group_size,
           /*needed=*/true);
    }
    if (blocks || IntegerOf(Member(inputs, "num_bits")) != 8) {
      Want(w, inputs_place, inputs, "num_bits", row.bits);
    }
    const Json* order = Member(scheme, "actorder");
    if (order != nullptr && !order->is_null() && *order != false &&
        *order != "static" && *order != "weight" &&
        model_.Find(w.module + ".weight_g_idx") == nullptr) {
      Mismatch(w, place, "actorder", order,
               "null, because there is no weight_g_idx");
    }
  }

  // Checks the status, and transforms and sparsity that are announced although
  // no tensor belongs to them.
  void CheckExtras(const Json& q) {
    const auto status = TextOf(Member(&q, "quantization_status"));
    if (status && *status != "compressed") {
      Find({"config-mismatch", "quantization_status"}, kConfigFile,
           "\"quantization_status\" is \"{}\", but the weights "
           "are compressed",
           *status);
    }
    const Json* groups = Member(Member(&q, kTransforms), "config_groups");
    if (groups != nullptr && groups->is_object()) {
      for (const auto& [name, group] : groups->items()) {
        if (AnyTensor([name = name](const ModelTensor& t) {
              // "q_proj.R1_input.weight".
              const std::string start = "." + name + "_";
              return t.name().find(start + "input") != std::string::npos ||
                     t.name().find(start + "output") != std::string::npos ||
                     t.name().find(start + "weight_") != std::string::npos;
            })) {
          continue;
        }
        Find({"config-mismatch", kTransforms}, kConfigFile,
             "\"transform_config\" has {}, but there is no "
             "tensor for it; it is right only if the weights "
             "are transformed, which --original shows",
             name);
      }
    }
    const auto sparsity = TextOf(Member(Member(&q, kSparsity), "format"));
    if (sparsity && *sparsity != "dense" && !HasPart(".bitmask")) {
      Find({"config-mismatch", kSparsity}, kConfigFile,
           "\"sparsity_config\" says {}, but the weights are dense", *sparsity);
    }
  }

  void CheckModelOpt(const Json* own, const Json* q) {
    for (const auto& [file, json] :
         {std::pair{kModelOptFile, own}, std::pair{kConfigFile, q}}) {
      const auto all = TextOf(Member(json, "quant_algo"));
      for (const StoredWeight& w : stored_.weights) {
        const SchemeRow* row = FindScheme(w.layout->format);
        if (row == nullptr || !all) continue;
        const Json* said = json;
        if (*all == "MIXED_PRECISION") {
          said = EntryOf(Member(json, "quantized_layers"), w.module);
          if (said == nullptr) {
            Find({"config-mismatch", std::string(file) + "quantized_layers"},
                 w.module,
                 "it is quantized, but missing in "
                 "\"quantized_layers\" of {}",
                 file);
            continue;
          }
        }
        const Json* algorithm = Member(said, "quant_algo");
        const std::string name = TextOf(algorithm).value_or("");
        if (!Has(row->algorithms, name)) {
          Mismatch(w, file, "quant_algo", algorithm,
                   fmt::format("\"{}\"", row->algorithms.front()));
        } else if (name == "NVFP4_AWQ" && awq_.empty() &&
                   model_.Find(w.module + ".pre_quant_scale") == nullptr) {
          awq_ = file;
        }
        CheckGroups(w, *row, said, json, file);
      }
    }
    // A weight that was smoothed through a preceding norm has no
    // pre_quant_scale, so only the lack of any is a fault.
    if (!awq_.empty() && !HasPart(".pre_quant_scale")) {
      Find({"config-mismatch", "awq"}, awq_,
           "\"quant_algo\" is \"NVFP4_AWQ\", but no weight has a "
           "pre_quant_scale");
    }
    for (const char* key : {"quant_algo", "group_size"}) {
      if (Agree(own, q, key)) continue;
      Find({"config-mismatch", key}, kConfigFile, "\"{}\" is {}, but {} in {}",
           key, Shown(Member(q, key)), Shown(Member(own, key)), kModelOptFile);
    }
  }

  // Checks the group size and config_groups of `json`. `said` is the object
  // that describes this weight: `json` or a part of it.
  void CheckGroups(const StoredWeight& w, const SchemeRow& row,
                   const Json* said, const Json* json, const char* file) {
    if (row.group_size > 0) {
      Want(w, file, said, "group_size", row.group_size);
    }
    const Json* groups = Member(json, "config_groups");
    if (groups == nullptr || !groups->is_object() || groups->size() != 1) {
      return;
    }
    const Json* scheme = Member(&*groups->begin(), "weights");
    const std::string place = fmt::format("{}: config_groups", file);
    Want(w, place, scheme, "type", "float");
    Want(w, place, scheme, "num_bits", row.bits);
    if (row.group_size > 0) {
      Want(w, place, scheme, "group_size", row.group_size);
    }
  }

  // The entry for the module or, as in older files, for a module above it.
  static const Json* EntryOf(const Json* layers, const std::string& module) {
    for (std::string name = module; !name.empty();
         name = std::string(SplitModule(name).parent)) {
      if (const Json* found = Member(layers, name)) return found;
    }
    return nullptr;
  }

  void CheckDeepSeek(const Json* q) {
    const bool powers = TextOf(Member(q, "scale_fmt")) == "ue8m0";
    for (const StoredWeight& w : stored_.weights) {
      const BlockShape block = BlockOf(*w.layout);
      const bool blocks = w.layout->format == WeightFormat::kFp8Block;
      Want(w, "top", q, "weight_block_size",
           blocks ? Json{block.rows, block.cols} : Json(nullptr));
      // Engines do not read it. MiniMax-M2 has the type's name.
      if (TextOf(Member(q, "fmt")) != "float8_e4m3fn") {
        Want(w, "top", q, "fmt", "e4m3");
      }
      if (blocks && w.layout->dialect != Dialect::kDeepSeek) {
        Find({"config-mismatch", "names"}, w.module,
             "its scales are named weight_scale, but engines expect "
             "weight_scale_inv");
      }
      if (!powers) continue;
      for (const float x : NumbersOf(*w.part(PartSource::kScales))) {
        int exponent = 0;
        if (!std::isfinite(x) || x <= 0 || std::frexp(x, &exponent) == 0.5f) {
          continue;
        }
        Find({"config-mismatch", "scale_fmt"}, w.module,
             "\"scale_fmt\" is \"ue8m0\", but it has a scale of "
             "{:.4g}, which is not a power of two",
             x);
        break;
      }
    }
  }

  bool HasPart(std::string_view ending) const {
    return AnyTensor(
        [&](const ModelTensor& t) { return t.name().ends_with(ending); });
  }

  // Reports a mismatch if object[key] differs from `value`, or if it is missing
  // and `needed`.
  void Want(const StoredWeight& w, std::string_view place, const Json* object,
            const char* key, const Json& value, bool needed = false) {
    const Json* there = Member(object, key);
    const bool none = there == nullptr || there->is_null();
    if (none ? needed : *there != value) {
      Mismatch(w, place, key, there, Shown(value));
    }
  }

  void Mismatch(const StoredWeight& w, std::string_view place,
                std::string_view key, const Json* there,
                const std::string& want) {
    const std::string path =
        place == "top" ? std::string(key) : fmt::format("{}: {}", place, key);
    Find({"config-mismatch", path}, w.module,
         "\"{}\" is {}, but for tensors in {} it should be {}", path,
         Shown(there), Name(w.layout->format), want);
  }

  // the file that announces AWQ, if a weight lacks a pre_quant_scale
  std::string awq_;
};

}  // namespace

void LintSchemes(const LintedModel& linted, Findings* findings) {
  SchemeRules(linted, findings).Check();
}

}  // namespace quantd::checkpoint
