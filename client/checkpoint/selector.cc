#include "client/checkpoint/selector.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "client/checkpoint/anatomy/config_facts.h"
#include "client/checkpoint/anatomy/linear_names.h"
#include "client/checkpoint/stacked.h"
#include "client/checkpoint/weights.h"
#include "client/files/quantized_file.h"
#include "fmt/format.h"
#include "quantd/plan.h"

namespace quantd::checkpoint {
namespace {

constexpr const char* kInclude = "--include";

absl::Status Fits(const Weight& w, const WeightLayout& layout,
                  Profile profile) {
  if (w.rows == 0 || w.cols == 0) {
    return absl::InvalidArgumentError("it is empty");
  }
  if (layout.high_half_first && w.rows % 16 != 0) {
    return absl::InvalidArgumentError(
        fmt::format("N = {} is not a multiple of 16, as {} requires", w.rows,
                    Name(layout.dialect)));
  }
  return MakeQuantizePlan({FromSafetensorsName(w.dtype()), {w.rows, w.cols}},
                          OptionsOf(layout, profile))
      .status();
}

// A key that is equal for the members of a fused layer, and for all experts of
// a layer, which must have the same format in engines.
std::string KeyOfFused(const Architecture& architecture,
                       const std::string& module, int64_t cols) {
  std::string key(ExpertsAbove(module));
  if (key.empty()) key = architecture.FusionKey(module, cols);
  const bool guessed = key.find("#k=") != std::string::npos;
  return key.empty() || guessed ? module : key;
}

template <typename Taken>
std::vector<Weight> Take(std::vector<Weight>* weights, const Taken& taken) {
  const auto first =
      std::stable_partition(weights->begin(), weights->end(),
                            [&](const Weight& w) { return !taken(w); });
  std::vector<Weight> out(std::make_move_iterator(first),
                          std::make_move_iterator(weights->end()));
  weights->erase(first, weights->end());
  return out;
}

// The common divisor of the rows of the parts of Mamba-2's in_proj except the
// last, which has a row for each head. 0 for other layers.
int64_t PartOfMamba(const Model& model, const Weight& w) {
  const std::string parent(SplitModule(w.module).parent);
  const ModelTensor* conv = model.Find(parent + ".conv1d.weight");
  const ModelTensor* heads = model.Find(parent + ".A_log");
  if (conv == nullptr || heads == nullptr || conv->stored.shape.empty() ||
      heads->stored.shape.size() != 1) {
    return 0;
  }
  const int64_t mixed = conv->stored.shape[0];
  const int64_t inner = w.rows - mixed - heads->stored.shape[0];
  return std::gcd(inner, (mixed - inner) / 2);
}

std::vector<Weight> TakeUneven(const Model& model,
                               const Architecture& architecture,
                               std::vector<Weight>* weights) {
  constexpr int64_t kBlock = 128;
  const auto of_blocks = [](const Weight& w) {
    return w.layout->format == WeightFormat::kFp8Block;
  };
  const auto key_of = [&](const Weight& w) {
    return KeyOfFused(architecture, w.module, w.cols);
  };
  std::map<std::string, size_t> counts;
  for (const Weight& w : *weights) ++counts[key_of(w)];
  const int64_t key_rows = FactsOf(model.config()).key_rows;
  std::set<std::string> uneven;
  for (const Weight& w : *weights) {
    if (!of_blocks(w)) continue;
    const std::string_view leaf = SplitModule(w.module).leaf;
    const std::string key = key_of(w);
    int64_t part = kBlock;
    if (leaf == "gate_up_proj" || leaf == "up_gate_proj" ||
        leaf == "input_linear") {
      part = w.rows / 2;
    } else if (IsFusedAttention(leaf)) {
      // If the rows of keys are unknown, queries are taken to have K rows.
      const int64_t keys = key_rows != 0 ? key_rows : (w.rows - w.cols) / 2;
      part = std::gcd(keys, w.rows - 2 * keys);
    } else if (leaf == "in_proj") {
      part = PartOfMamba(model, w);
    } else if (counts[key] > 1 &&
               !architecture.FusionKey(w.module, w.cols).empty() &&
               leaf != kLastOfFused) {
      part = w.rows;
    }
    if (part % kBlock != 0 || w.cols % kBlock != 0) uneven.insert(key);
  }
  return Take(weights, [&](const Weight& w) {
    return of_blocks(w) && uneven.count(key_of(w)) > 0;
  });
}

std::vector<Weight> TakeTorn(const Model& model,
                             const Architecture& architecture,
                             const std::vector<LeftOut>& left,
                             std::vector<Weight>* weights) {
  std::set<std::string> torn;
  for (const LeftOut& l : left) {
    const ModelTensor* t = model.Find(l.module + ".weight");
    if (t == nullptr || t->stored.shape.size() != 2 || l.asked) continue;
    torn.insert(KeyOfFused(architecture, l.module, t->stored.shape[1]));
  }
  return Take(weights, [&](const Weight& w) {
    return torn.count(KeyOfFused(architecture, w.module, w.cols)) > 0;
  });
}

}  // namespace

absl::StatusOr<Selector::Rule> Selector::ParseRule(const std::string& text,
                                                   Dialect dialect) {
  const size_t at = text.rfind('=');
  const auto format = at == std::string::npos
                          ? std::nullopt
                          : ParseWeightFormat(text.substr(at + 1));
  if (!format) {
    return absl::InvalidArgumentError(
        fmt::format("--rule {}: expected PATTERN=FORMAT with {}", text,
                    WeightFormatNames()));
  }
  auto pattern = Pattern::Parse(text.substr(0, at));
  if (!pattern.ok()) return pattern.status();
  Rule rule = {*std::move(pattern), nullptr};
  if (*format == WeightFormat::kBf16) return rule;
  const auto layout = LayoutOf(dialect, *format);
  if (!layout.ok()) return layout.status();
  rule.layout = *layout;
  return rule;
}

absl::StatusOr<Selector> Selector::Make(const Model& model,
                                        const Selection& selection) {
  Selector made;
  made.model_type_ = model.model_type();
  if (selection.dialect == Dialect::kGptOss && model.has_config() &&
      made.model_type_ != "gpt_oss") {
    return absl::InvalidArgumentError(
        fmt::format("--dialect gpt-oss: the model_type in config.json is "
                    "\"{}\", but engines read this dialect only for gpt_oss; "
                    "use --dialect compressed-tensors or modelopt",
                    made.model_type_.substr(0, 200)));
  }
  if (selection.dialect == Dialect::kComfy && IsRenamedByComfy(model)) {
    return absl::InvalidArgumentError(
        "--dialect comfy: the tensors have the names of diffusers, which "
        "ComfyUI renames without their scales; convert the file with the "
        "original names, which most models' authors publish beside them");
  }
  const auto layout = LayoutOf(selection.dialect, selection.format);
  if (!layout.ok()) return layout.status();
  made.layout_ = *layout;
  made.profile_ = selection.profile;
  for (const auto& [texts, patterns] :
       {std::pair(&selection.only, &made.only_),
        std::pair(&selection.ignore, &made.ignore_),
        std::pair(&selection.include, &made.include_)}) {
    auto parsed = ParsePatterns(*texts);
    if (!parsed.ok()) return parsed.status();
    *patterns = *std::move(parsed);
  }
  for (const std::string& text : selection.rules) {
    auto rule = ParseRule(text, selection.dialect);
    if (!rule.ok()) return rule.status();
    made.rules_.push_back(*std::move(rule));
  }
  std::vector<const WeightLayout*> layouts = {made.layout_};
  for (const Rule& rule : made.rules_) {
    if (rule.layout != nullptr) layouts.push_back(rule.layout);
  }
  for (const WeightLayout* used : layouts) {
    const auto s = CheckProfileOf(*used, made.ProfileOf(*used));
    if (!s.ok()) return s;
  }
  auto architecture = Architecture::Of(model, selection.fuse);
  if (!architecture.ok()) return architecture.status();
  made.architecture_ = *std::move(architecture);
  return made;
}

absl::Status Selector::CheckInclude(const std::string& module,
                                    bool tied) const {
  const Pattern* named = FirstMatch(include_, module);
  if (named == nullptr || FirstMatch(ignore_, module) != nullptr ||
      (!only_.empty() && FirstMatch(only_, module) == nullptr)) {
    return absl::OkStatus();
  }
  const Role role = architecture_.RoleOf(module);
  if (role == Role::kEmbedding && IsTable(module)) {
    return absl::InvalidArgumentError(
        fmt::format("--include {}: {} is an embedding, which engines do not "
                    "support quantized; exclude it with --ignore",
                    named->text(), module));
  }
  // Other heads, such as classifiers, have a matrix of their own.
  const std::string_view leaf = SplitModule(module).leaf;
  if (role == Role::kHead && tied &&
      (leaf.starts_with("lm_head") || leaf.starts_with("output") ||
       leaf == "embed_out")) {
    return absl::InvalidArgumentError(fmt::format(
        "--include {}: {} is tied to the embeddings (tie_word_embeddings in "
        "config.json); untie it first, or exclude it with --ignore",
        named->text(), module));
  }
  return absl::OkStatus();
}

absl::Status Selector::CheckNamed(
    const std::map<std::string, bool>& modules) const {
  std::vector<std::pair<const char*, const Pattern*>> left;
  for (const auto& [option, patterns] :
       {std::pair("--only", &only_), std::pair(kInclude, &include_),
        std::pair("--ignore", &ignore_)}) {
    for (const Pattern& p : *patterns) left.emplace_back(option, &p);
  }
  for (const Rule& rule : rules_) left.emplace_back("--rule", &rule.pattern);
  // A head that is tied to the embeddings is in no file.
  std::erase_if(left, [](auto& l) { return l.second->Matches("lm_head"); });
  std::string other;  // what an --include matches that is no matrix
  for (const auto& m : modules) {
    if (left.empty()) break;
    std::erase_if(left, [&](auto& l) {
      if (!l.second->Matches(m.first)) return false;
      const bool fits = m.second || l.first != kInclude;
      if (!fits) other = m.first;
      return fits;
    });
  }
  if (left.empty()) return absl::OkStatus();
  const auto& [option, pattern] = left.front();
  if (!other.empty() && pattern->Matches(other)) {
    return absl::InvalidArgumentError(fmt::format(
        "{} {}: it matches no matrix that can be quantized, only others like "
        "{}",
        option, pattern->text(), other));
  }
  return absl::InvalidArgumentError(fmt::format(
      "{} {}: it matches none of the {} modules of the model, like {}; a "
      "pattern must match a whole name, so begin it with * if text precedes it",
      option, pattern->text(), modules.size(),
      modules.empty() ? "none" : modules.begin()->first));
}

std::variant<const WeightLayout*, LeftOut> Selector::Judge(
    const Weight& w) const {
  const std::string& module = w.module;
  const Role role = architecture_.RoleOf(module);
  const auto leave = [&](std::string kind, std::string reason) {
    return LeftOut{module, role, std::move(kind), std::move(reason)};
  };
  const auto asked = [&](std::string kind, std::string reason) {
    LeftOut left = leave(std::move(kind), std::move(reason));
    left.asked = true;
    return left;
  };
  const bool included = FirstMatch(include_, module) != nullptr;
  if (!MayBeLinear(role) && !included) {
    const bool table = role == Role::kEmbedding && IsTable(module);
    return leave(std::string(Describe(role)),
                 fmt::format("one of the {}{}", Describe(role),
                             table ? "" : "; quantize it with --include"));
  }
  if (const Pattern* p = FirstMatch(ignore_, module)) {
    return asked("weights that --ignore names",
                 fmt::format("--ignore {}", p->text()));
  }
  if (!only_.empty() && FirstMatch(only_, module) == nullptr) {
    return asked("weights that --only does not name",
                 "--only does not name it");
  }
  if (!included) {
    if (architecture_.model_class().kind == ModelKind::kOther) {
      return leave(kOfOtherClass, "quantize it with --include");
    }
    if (!ExpertsAbove(module).empty() &&
        !IsExpertOfEngines(model_type_, SplitModule(module).leaf)) {
      return leave(kOtherExperts,
                   "no engine is known to support quantized experts with that "
                   "name; quantize it with --include");
    }
    if (role == Role::kUnknown) {
      return leave(std::string(Describe(role)),
                   "linear layers of such models are not known to have this "
                   "name; quantize it with --include");
    }
  }
  if (architecture_.IsTransposed(module)) {
    return leave("weights that are stored as K rows of N",
                 "stored as K rows of N (Conv1D), which no engine supports "
                 "quantized; save the model with Linear layers first");
  }
  const WeightLayout* layout = layout_;
  for (const Rule& rule : rules_) {
    if (!rule.pattern.Matches(module)) continue;
    layout = rule.layout;
    if (layout != nullptr) break;
    return asked("weights that a rule leaves unquantized",
                 fmt::format("--rule {}=bf16", rule.pattern.text()));
  }
  const bool packed = IsFourBits(*layout);
  if (packed && IsSplitByEngines(SplitModule(module).leaf)) {
    return leave(
        "weights of latent attention (MLA) that engines read as numbers",
        fmt::format("engines split it in two while they load it, and some "
                    "read 4-bit codes as numbers; --rule '{}=fp8_dynamic' "
                    "gives it 8 bits",
                    module));
  }
  if (packed && layout->dialect == Dialect::kComfy &&
      IsMeasuredByComfy(module)) {
    return leave("keys of cross attention that ComfyUI measures",
                 "ComfyUI derives the width of the text from its columns, and "
                 "packed codes have fewer");
  }
  const bool squares = layout->format == WeightFormat::kFp8Block;
  if (layout->format != WeightFormat::kFp8 && (squares || !included) &&
      IsReorderedByEngines(model_type_, SplitModule(module).leaf)) {
    return leave(
        "queries and keys that engines reorder",
        squares ? "engines reorder its rows, but not their blocks' scales"
                : "SGLang reorders its rows, but not their scales; for vLLM, "
                  "quantize it with --include");
  }
  if (layout->dialect == Dialect::kCompressedTensors &&
      (layout->global != Global::kNone ||
       layout->format == WeightFormat::kFp8) &&
      !SplitParts(model_type_, module).empty()) {
    return leave("fused weights that transformers splits",
                 "transformers splits it while it loads, but its one scale "
                 "cannot be split; fp8_dynamic has a scale for each row");
  }
  if (layout->stacked && !IsStacked(*w.source)) {
    return leave(
        "weights that are not experts",
        fmt::format("{} quantizes experts only", Name(layout->dialect)));
  }
  if (const auto s = Fits(w, *layout, ProfileOf(*layout)); !s.ok()) {
    return leave("weights with a shape that the format does not allow",
                 std::string(s.message()));
  }
  return layout;
}

std::vector<std::pair<const ModelTensor*, LeftOut>> TakeUnfit(
    const Model& model, const Architecture& architecture,
    const std::vector<LeftOut>& left, std::vector<Weight>* weights) {
  std::vector<std::pair<const ModelTensor*, LeftOut>> unfit;
  const auto add = [&](const std::vector<Weight>& taken, const char* kind,
                       const char* reason) {
    const ModelTensor* last = nullptr;
    for (const Weight& w : taken) {
      if (std::exchange(last, w.source) == w.source) continue;
      unfit.push_back(
          {w.source,
           {w.module, Role::kLinear, kind, reason, w.source->stored.size}});
    }
  };
  add(TakeUneven(model, architecture, weights),
      "weights with FP8 blocks that engines refuse",
      "engines run FP8 blocks only if N and K are multiples of 128 for this "
      "weight and for all weights that they fuse with it");
  add(TakeTorn(model, architecture, left, weights), kTorn,
      "engines fuse them with weights that are left out; quantize all of them "
      "with --include");
  return unfit;
}

}  // namespace quantd::checkpoint
