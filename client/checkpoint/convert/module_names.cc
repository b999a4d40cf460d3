#include "client/checkpoint/convert/module_names.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "client/checkpoint/architecture.h"
#include "client/files/words.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace quantd::checkpoint {
namespace {

using Parts = std::vector<std::string_view>;

// A module into which vLLM or SGLang pack siblings, and these siblings. The
// first of them must be present. A single sibling is only renamed: SGLang looks
// up these modules of Ling, Phi-3-small and OPT so.
struct FusedName {
  std::string_view name;
  Words members;
};
constexpr FusedName kFusedNames[] = {
    {"qkv_proj", "q_proj k_proj v_proj"},
    {"qkv_proj", "query key value"},
    {"qkv_proj", "query key_value"},
    {"qkv_proj", "query_net key_net value_net"},
    {"qkv_proj", "q k v"},
    {"qkv_proj", "q_lin k_lin v_lin"},
    {"qkv_proj", "wq wk wv"},
    {"wqkv", "wq wk wv"},
    {"gate_up_proj", "gate_proj up_proj"},
    {"gate_up_proj", "w1 w3"},
    {"gate_up_proj", "w1 w2"},
    {"w13", "w1 w3"},
    {"fc13", "fc1 fc3"},
    {"merged_proj", "gate_proj dense_h_to_4h"},
    {"wi", "wi_0 wi_1"},
    {"to_qkv", "to_q to_k to_v"},
    {"to_added_qkv", "add_q_proj add_k_proj add_v_proj"},
    {"fused_qkv_a_proj", "q_a_proj kv_a_proj_with_mqa"},
    {"fused_qkv_a_proj_with_mqa", "q_a_proj kv_a_proj_with_mqa"},
    {"fused_qkv_a_g_proj", "g_proj q_a_proj kv_a_proj_with_mqa"},
    {"fused_qkv_a_g_proj_with_mqa", "g_proj q_a_proj kv_a_proj_with_mqa"},
    {"index_qkv_proj", "index_q_proj index_k_proj"},
    {"in_proj_qkvz", "in_proj_qkv in_proj_z"},
    {"in_proj_ba", "in_proj_b in_proj_a"},
    {"wk_weights_proj", "wk weights_proj"},
    // Kimi's delta attention and its relatives.
    {"in_proj_qkvgfab", "f_a_proj q_proj k_proj v_proj b_proj g_proj"},
    {"in_proj_qkvbfg_a", "f_a_proj q_proj k_proj v_proj b_proj g_a_proj"},
    {"fused_qkvbfg_a_proj", "f_a_proj q_proj k_proj v_proj b_proj g_a_proj"},
    {"fused_bfg_a_proj", "f_a_proj b_proj g_a_proj"},
    {"fused_fg_b_proj", "f_b_proj g_b_proj"},
    {"qkvb_proj", "b_proj q_proj k_proj v_proj"},
    {"fused_qkvbfg_proj", "f_proj q_proj k_proj v_proj b_proj g_proj"},
    {"qkvabz_proj", "a_proj q_proj k_proj v_proj b_proj g_proj"},
    {"fused_qkvg_proj", "f_a_proj q_proj k_proj v_proj g_proj"},
    {"in_proj_qkvg", "a_proj q_proj k_proj v_proj g_proj"},
    {"output_gate", "g_proj"},
    {"qkv_proj", "query_key_value"},
    {"o_proj", "dense"},
    {"o_proj", "out_proj"},
};

// Names of modules around a language model. They differ between libraries, so
// no expression may consist of one of them alone.
constexpr std::string_view kRoots[] = {
    "model", "language_model", "text_model", "thinker", "transformer",
    "llm",   "base_model",     "module",     "backbone"};
// Prefixes of language models in models with towers.
constexpr std::string_view kTextRoots[] = {"language_model.model.",
                                           "model.language_model.", "model."};

bool IsNumber(std::string_view word) {
  return !word.empty() && std::ranges::all_of(word, [](unsigned char c) {
    return std::isdigit(c) != 0;
  });
}

std::string Join(const Parts& words, size_t begin, size_t end) {
  return fmt::format(
      "{}", fmt::join(words.begin() + static_cast<ptrdiff_t>(begin),
                      words.begin() + static_cast<ptrdiff_t>(end), "."));
}

std::string Escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80 && std::isalnum(byte) == 0 && c != '_') out += '\\';
    out += c;
  }
  return out;
}

// Adds the names of fused modules if all their members in `all` are also in
// `names`.
void AddFused(const std::vector<std::string>& all,
              std::vector<std::string>* names) {
  std::map<std::string_view, std::set<std::string_view>> there;
  for (const std::string& name : all) {
    const auto [parent, leaf] = SplitModule(name);
    there[parent].insert(leaf);
  }
  std::map<std::string_view, std::set<std::string_view>> here;
  for (const std::string& name : *names) {
    const auto [parent, leaf] = SplitModule(name);
    here[parent].insert(leaf);
  }
  std::vector<std::string> fused;
  for (const auto& [parent, leaves] : here) {
    // Skips members of a single expert: engines pack all experts together. A
    // bare name would match the layers of the same name in all blocks.
    if (parent.empty() || IsNumber(SplitModule(parent).leaf)) continue;
    for (const FusedName& row : kFusedNames) {
      const auto count = [&row](const std::set<std::string_view>& of) {
        return std::ranges::count_if(row.members,
                                     [&](auto m) { return of.count(m) > 0; });
      };
      const auto mine = count(leaves);
      const auto least =
          std::min<ptrdiff_t>(2, static_cast<ptrdiff_t>(row.members.size()));
      if (mine < least || leaves.count(row.members.front()) == 0 ||
          mine != count(there[parent]) || there[parent].count(row.name) > 0) {
        continue;
      }
      fused.push_back(fmt::format("{}.{}", parent, row.name));
    }
  }
  names->insert(names->end(), fused.begin(), fused.end());
}

// The part of a name from which an expression is made.
struct Core {
  std::string text;
  bool bounded = false;  // a dot must precede the text
  // Whether a dot must follow the text. Otherwise the name must end with it.
  bool below = false;
};

class Cover {
 public:
  explicit Cover(const std::vector<std::string>& others) {
    text_ += kEnd;
    for (const std::string& other : others) {
      text_ += other;
      text_ += kEnd;
    }
  }

  // The shortest core of `name` that matches none of the other names.
  Core Of(std::string_view name) {
    const bool below = name.ends_with(kAllBelow);
    if (below) name.remove_suffix(kAllBelow.size());
    const Parts words = Split(name, '.');
    const size_t count = words.size();
    const auto number = static_cast<size_t>(
        std::ranges::find_if(words, IsNumber) - words.begin());
    // Tries a tower, then all layers of a stack, then one layer.
    for (size_t i = 0; i + (below ? 0 : 1) < count; ++i) {
      if (IsNumber(words[i])) {
        const Core one = {Join(words, i - (i > 0 ? 1 : 0), i + 1),
                          i > number + 1, true};
        if (i > 0 && !Hits(one)) return one;
      } else if (i < number) {
        const Core tower = {std::string(words[i]), false, true};
        if (!Has(kRoots, words[i]) && !Hits(tower)) return tower;
      } else if (i + 1 < count && IsNumber(words[i + 1])) {
        // Tries the experts of a layer.
        if (const Core core = Ending(words, i + 1, number, true);
            !core.text.empty()) {
          return core;
        }
      }
    }
    return Ending(words, count, number, below);
  }

  // Whether another name contains the core, with anything after it.
  bool HitsOpenly(const Core& core) const {
    return text_.find((core.bounded ? "." : "") + core.text) !=
           std::string::npos;
  }

 private:
  static constexpr char kEnd = '\0';

  // The shortest core that ends with the word before `end` and matches no other
  // name. Its text is empty if every core matches another name.
  Core Ending(const Parts& words, size_t end, size_t number, bool below) {
    for (size_t i = end; i-- > 0;) {
      if (IsNumber(words[i])) continue;
      const Core core = {Join(words, i, end), i > number, below};
      if (!Hits(core)) return core;
    }
    return {};
  }

  bool Hits(const Core& core) {
    std::string key = core.text;
    key += core.below ? '.' : kEnd;
    const auto [place, fresh] =
        known_.emplace((core.bounded ? "." : "") + key, false);
    if (fresh) {
      place->second =
          text_.find(place->first) != std::string::npos ||
          // A prefix would put a dot before the name.
          (core.bounded && text_.find(kEnd + key) != std::string::npos);
    }
    return place->second;
  }

  std::string text_;
  std::unordered_map<std::string, bool> known_;
};

// Makes regular expressions. Names that differ only in a layer's number or in
// the last word share one.
std::vector<std::string> RegularTexts(const std::vector<Core>& cores) {
  constexpr std::string_view kDot = "\\.";
  const auto one_of = [](const auto& words) {
    return words.size() == 1 ? std::string(*words.begin())
                             : fmt::format("({})", fmt::join(words.begin(),
                                                             words.end(), "|"));
  };
  // `bounded`, `below`, and the text before and after the number of a layer.
  // The numbers are sorted by length, then by digits.
  using Layered = std::tuple<bool, bool, std::string, std::string>;
  std::map<Layered, std::set<std::pair<size_t, std::string>>> numbers;
  std::vector<Layered> order;
  for (const Core& core : cores) {
    const Parts words = Split(core.text, '.');
    const auto number = std::ranges::find_if(words, IsNumber);
    const auto at = static_cast<size_t>(number - words.begin());
    const bool has = number != words.end();
    const Layered key = {core.bounded, core.below,
                         has ? Escaped(Join(words, 0, at)) : "",
                         Escaped(Join(words, has ? at + 1 : 0, words.size()))};
    if (numbers.find(key) == numbers.end()) order.push_back(key);
    auto& of = numbers[key];
    if (has) of.emplace(number->size(), *number);
  }
  using Stem = std::tuple<bool, bool, std::string>;
  std::map<Stem, std::vector<std::string>> leaves;
  std::vector<Stem> stems;
  for (const Layered& key : order) {
    const auto& [bounded, below, head, tail] = key;
    std::vector<std::string> of;
    for (const auto& [size, text] : numbers[key]) of.push_back(text);
    std::string stem;
    if (!of.empty()) stem = fmt::format("{}{}{}", head, kDot, one_of(of));
    std::string leaf = tail;
    if (const size_t dot = tail.rfind(kDot); dot != std::string::npos) {
      stem += (stem.empty() ? "" : std::string(kDot)) + tail.substr(0, dot);
      leaf = tail.substr(dot + kDot.size());
    }
    // These share no expression: cores of several words that match everything
    // below, and cores of one word that may begin inside a word.
    if (stem.empty() ? !below && !bounded : below) {
      if (!leaf.empty()) stem += (stem.empty() ? "" : std::string(kDot)) + leaf;
      leaf.clear();
    }
    const Stem place = {bounded, below, stem};
    if (leaves.find(place) == leaves.end()) stems.push_back(place);
    auto& there = leaves[place];
    if (!leaf.empty()) there.push_back(leaf);
  }
  std::vector<std::string> texts;
  for (const Stem& place : stems) {
    const auto& [bounded, below, stem] = place;
    const auto& of = leaves[place];
    texts.push_back(fmt::format("re:.*{}{}{}{}{}", bounded ? kDot : "", stem,
                                stem.empty() || of.empty() ? "" : kDot,
                                of.empty() ? std::string() : one_of(of),
                                below ? "\\..*" : "$"));
  }
  return texts;
}

std::vector<std::string> GlobTexts(const std::vector<Core>& cores,
                                   const Cover& cover) {
  std::vector<std::string> texts;
  for (const Core& core : cores) {
    const std::string text = (core.bounded ? "*." : "*") + core.text;
    if (!core.below) {
      texts.push_back(text);
    } else if (IsNumber(SplitModule(core.text).leaf)) {
      // With "*" alone, layer 6 would also match layer 61.
      texts.push_back(text + ".*");
    } else if (!cover.HitsOpenly(core)) {
      texts.push_back(text + "*");
    } else {
      texts.push_back(text);
      texts.push_back(text + ".*");
    }
  }
  return texts;
}

}  // namespace

std::vector<std::string> ModuleExpressions(std::vector<std::string> names,
                                           std::vector<std::string> others,
                                           NameStyle style) {
  std::vector<std::string> all = names;
  all.insert(all.end(), others.begin(), others.end());
  AddFused(all, &names);
  AddFused(all, &others);
  Cover cover(others);
  std::vector<Core> cores;
  std::vector<std::string> literal;
  std::set<std::tuple<bool, bool, std::string>> seen;
  for (const std::string& name : names) {
    const Core core = cover.Of(name);
    if (core.text.empty()) {
      literal.push_back(name);
    } else if (seen.emplace(core.bounded, core.below, core.text).second) {
      cores.push_back(core);
    }
  }
  std::vector<std::string> texts = style == NameStyle::kRegular
                                       ? RegularTexts(cores)
                                       : GlobTexts(cores, cover);
  texts.insert(texts.end(), literal.begin(), literal.end());
  return texts;
}

std::vector<std::string> FusedNamesOf(
    std::string_view module, absl::FunctionRef<bool(const std::string&)> has) {
  const auto [parent, leaf] = SplitModule(module);
  // Engines pack all experts together.
  if (IsNumber(SplitModule(parent).leaf)) return {};
  const std::string above =
      fmt::format("{}{}", parent, parent.empty() ? "" : ".");
  std::set<std::string> names;
  for (const FusedName& row : kFusedNames) {
    const auto& members = row.members;
    if (std::ranges::find(members, leaf) != members.end() &&
        has(above + std::string(members.front()))) {
      names.insert(above + std::string(row.name));
    }
  }
  return {names.begin(), names.end()};
}

std::vector<std::string> NameForms(const std::string& name) {
  std::vector<std::string> forms = {name};
  const auto add = [&](std::string form) {
    if (std::ranges::find(forms, form) == forms.end()) {
      forms.push_back(std::move(form));
    }
  };
  constexpr std::string_view kHead = "lm_head";
  if (SplitModule(name).leaf == kHead) {
    add(std::string(kHead));
    add("language_model.lm_head");
    return forms;
  }
  std::string_view rest = name;
  for (const std::string_view root : kTextRoots) {
    if (!rest.starts_with(root)) continue;
    rest.remove_prefix(root.size());
    break;
  }
  if (rest.starts_with("layers.")) {
    for (const std::string_view root : kTextRoots) {
      add(std::string(root) + std::string(rest));
    }
  } else {
    add(std::string(rest));
    add("model." + std::string(rest));
  }
  return forms;
}

}  // namespace quantd::checkpoint
