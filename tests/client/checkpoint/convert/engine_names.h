// Imitates how engines match modules with the lists of a quantization_config.
#ifndef QUANTD_TESTS_CLIENT_CHECKPOINT_CONVERT_ENGINE_NAMES_H_
#define QUANTD_TESTS_CLIENT_CHECKPOINT_CONVERT_ENGINE_NAMES_H_

#include <algorithm>
#include <map>
#include <regex>
#include <string>
#include <vector>

#include "client/checkpoint/architecture.h"
#include "tests/client/checkpoint/model_writer.h"

namespace quantd::checkpoint {

using Names = std::vector<std::string>;

inline const std::map<std::string, Names>& Packed() {
  static const auto* const packed = new std::map<std::string, Names>{
      {"qkv_proj", {"q_proj", "k_proj", "v_proj"}},
      {"gate_up_proj", {"gate_proj", "up_proj"}},
      {"in_proj_qkvgfab", {"q_proj", "k_proj", "v_proj", "b_proj", "f_a_proj"}},
      {"fused_qkv_a_proj", {"q_a_proj", "kv_a_proj_with_mqa"}}};
  return *packed;
}

// The parts of a fused module; empty for any other.
inline Names ShardsOf(const std::string& module) {
  const auto [parent, leaf] = SplitModule(module);
  Names shards;
  if (const auto p = Packed().find(std::string(leaf)); p != Packed().end()) {
    for (const std::string& s : p->second) {
      shards.push_back(std::string(parent) + "." + s);
    }
  }
  return shards;
}

// Python's re.match.
inline bool Matches(const std::string& text, const std::string& name) {
  if (!text.starts_with("re:")) return text == name;
  return std::regex_search(name, std::regex(text.substr(3)),
                           std::regex_constants::match_continuous);
}
inline bool AnyMatches(const Names& list, const std::string& name) {
  return std::any_of(list.begin(), list.end(),
                     [&](auto& text) { return Matches(text, name); });
}

// Python's fnmatch, for names without its other special characters.
inline bool Globs(const std::string& glob, const std::string& name) {
  std::string text;
  for (const char c : glob) {
    text += c == '*' ? ".*" : c == '.' ? "\\." : std::string(1, c);
  }
  return std::regex_match(name, std::regex(text));
}

// Returns whether `one` holds for a module, or for all of its fused parts.
// Parts that disagree fail the test, because an engine raises an error for
// them.
template <typename One>
bool Agreed(const std::string& module, const Names& shards, One&& one) {
  if (shards.empty()) return one(module);
  const auto n = std::count_if(shards.begin(), shards.end(), one);
  EXPECT_TRUE(n == 0 || n == static_cast<ptrdiff_t>(shards.size()))
      << module << ": only some of its fused parts";
  return n > 0;
}

// Returns whether this is the name by which engines look up the experts of a
// layer.
inline bool IsExperts(const std::string& module) {
  return module.ends_with(".experts");
}
inline Names VllmExperts(const std::string& module) {
  const bool w = module.find("block_sparse_moe") != std::string::npos;
  Names names;
  for (const char* leaf :
       {w ? "w1" : "gate_proj", w ? "w3" : "up_proj", w ? "w2" : "down_proj"}) {
    names.push_back(module + ".0." + leaf);
  }
  return names;
}
inline Names SglangExperts(const std::string& module) {
  return {module + ".0.gate_proj", module + ".0.up_proj",
          module + ".0.down_proj"};
}

struct Reader {
  const char* name;
  bool (*plain)(const Names& list, const std::string& module);
};

inline const Reader kCompressedTensors[] = {
    {"compressed-tensors",
     [](const Names& list, const std::string& m) {
       if (IsExperts(m)) return AnyMatches(list, m + ".0.down_proj");
       return Agreed(m, ShardsOf(m),
                     [&](auto& n) { return AnyMatches(list, n); });
     }},
    {"vLLM",
     [](const Names& list, const std::string& m) {
       if (AnyMatches(list, m)) return true;
       return Agreed(m, IsExperts(m) ? VllmExperts(m) : ShardsOf(m),
                     [&](auto& n) { return AnyMatches(list, n); });
     }},
    {"SGLang", [](const Names& list, const std::string& m) {
       return Agreed(
           m, IsExperts(m) ? SglangExperts(m) : ShardsOf(m), [&](auto& n) {
             return AnyMatches(list, n) ||
                    std::any_of(list.begin(), list.end(),
                                [&](auto& t) { return n.ends_with("." + t); });
           });
     }}};

inline const Reader kModelOpt[] = {
    {"vLLM",
     [](const Names& list, const std::string& m) {
       const auto exact = [&](auto& n) {
         return std::find(list.begin(), list.end(), n) != list.end();
       };
       return Agreed(m, ShardsOf(m), exact) ||
              std::any_of(list.begin(), list.end(), [&](auto& text) {
                return m.find(text) != std::string::npos || Globs(text, m);
              });
     }},
    {"SGLang", [](const Names& list, const std::string& m) {
       return std::any_of(list.begin(), list.end(), [&](auto& text) {
         std::string rest = m;
         for (;;) {
           if (Globs(text, rest.substr(0, rest.find('.')))) return true;
           if (rest.find('.') == std::string::npos) break;
           rest = rest.substr(rest.find('.') + 1);
         }
         return Globs(text, m);
       });
     }}};

inline const Reader kDeepSeek[] = {
    {"vLLM",
     [](const Names& list, const std::string& m) {
       if (IsExperts(m)) {
         return std::any_of(list.begin(), list.end(), [&](auto& t) {
           return t.find(m) != std::string::npos;
         });
       }
       return Agreed(m, ShardsOf(m), [&](auto& n) {
         return std::find(list.begin(), list.end(), n) != list.end();
       });
     }},
    {"SGLang",
     [](const Names& list, const std::string& module) {
       // SGLang has its own names for modules of vision towers.
       std::string m = module;
       if (m.ends_with(".attn.qkv")) m += "_proj";
       if (const size_t out = m.find("out_proj"); out != std::string::npos) {
         m.erase(out, 4);
       }
       return Agreed(m, ShardsOf(m), [&](auto& n) {
         return std::any_of(list.begin(), list.end(), [&](auto& t) {
           return ("." + n + ".").find("." + t + ".") != std::string::npos;
         });
       });
     }},
    {"transformers", [](const Names& list, const std::string& m) {
       return Agreed(m, ShardsOf(m), [&](auto& n) {
         return std::any_of(list.begin(), list.end(), [&](auto& t) {
           return n == t || n.starts_with(t + ".") || n.ends_with(t);
         });
       });
     }}};

}  // namespace quantd::checkpoint

#endif  // QUANTD_TESTS_CLIENT_CHECKPOINT_CONVERT_ENGINE_NAMES_H_
