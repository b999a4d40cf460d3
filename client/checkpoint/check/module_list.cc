#include <algorithm>
#include <cctype>

#include "client/checkpoint/check/declared.h"
#include "client/files/words.h"

namespace quantd::checkpoint {
namespace {

constexpr std::string_view kRegularStart = "re:";

// Whether the expression uses look-around or references, which RE2 lacks.
bool IsForeign(std::string_view text) {
  for (const std::string_view word :
       {"(?=", "(?!", "(?<=", "(?<!", "(?>", "(?P=", "(?(", "\\Z", "*+", "++",
        "?+", "}+"}) {
    if (text.find(word) != std::string_view::npos) return true;
  }
  for (size_t i = 0; i + 1 < text.size(); ++i) {
    if (text[i] == '\\' &&
        std::isdigit(static_cast<unsigned char>(text[i + 1])) != 0) {
      return true;
    }
  }
  return false;
}

bool IsBelow(std::string_view module, std::string_view parent) {
  return module.size() > parent.size() && module.starts_with(parent) &&
         module[parent.size()] == '.';
}

// Whether `module` ends with the parts of `end`:
// "model.layers.0.self_attn.q_proj" ends with "self_attn.q_proj".
bool EndsWith(std::string_view module, std::string_view end) {
  return !end.empty() && module.size() > end.size() && module.ends_with(end) &&
         module[module.size() - end.size() - 1] == '.';
}

// "0.mlp.gate" for "model.layers.0.mlp.gate"; "" if the name does not contain
// ".layers.".
std::string_view Layer(std::string_view name) {
  constexpr std::string_view kLayers = ".layers.";
  const size_t at = name.rfind(kLayers);
  return at == std::string_view::npos ? std::string_view()
                                      : name.substr(at + kLayers.size());
}

}  // namespace

ModuleList::ModuleList(const Json* list, Rule rule) : rule_(rule) {
  if (list == nullptr || !list->is_array()) return;
  for (const Json& json : *list) {
    if (!json.is_string()) continue;
    Entry entry = {json.get<std::string>(), std::nullopt, false};
    const bool regular =
        rule == Rule::kExactOrRegular && entry.text.starts_with(kRegularStart);
    const bool glob = rule != Rule::kExactOrRegular &&
                      entry.text.find('*') != std::string::npos;
    if (regular || glob) {
      auto pattern = Pattern::Parse(entry.text);
      if (pattern.ok()) {
        entry.pattern = *std::move(pattern);
      } else if (IsForeign(entry.text)) {
        entry.foreign = true;
      } else {
        broken_.emplace_back(pattern.status().message());
        continue;
      }
    }
    entries_.push_back(std::move(entry));
  }
}

bool ModuleList::Names(std::string_view module) const {
  return std::ranges::any_of(entries_, [&](const Entry& e) {
    if (e.pattern) return e.pattern->Matches(module);
    if (e.foreign) return false;
    return e.text == module ||
           (rule_ == Rule::kPrefixes &&
            (IsBelow(module, e.text) || EndsWith(module, e.text)));
  });
}

bool ModuleList::HoldsLayer(std::string_view name) const {
  if (Names(name)) return true;
  const auto parts = Split(name, '.');
  return std::ranges::any_of(entries_, [&](const Entry& e) {
    if (e.foreign || e.text.empty()) return false;
    if (rule_ == Rule::kExactOrRegular) {
      return !e.pattern && EndsWith(name, e.text);
    }
    if (rule_ != Rule::kGlobs) return false;
    return e.pattern ? std::ranges::any_of(parts,
                                           [&](std::string_view part) {
                                             return e.pattern->Matches(part);
                                           })
                     : name.find(e.text) != std::string_view::npos;
  });
}

std::string_view ModuleList::PartOf(std::string_view module) const {
  for (const Entry& e : entries_) {
    if (rule_ == Rule::kPrefixes && !e.pattern && !e.foreign &&
        !e.text.empty() && module.find(e.text) != std::string_view::npos) {
      return e.text;
    }
  }
  return "";
}

bool ModuleList::MayName(std::string_view module) const {
  if (Names(module)) return true;
  return std::ranges::any_of(entries_, [&](const Entry& e) {
    if (e.foreign) return true;
    if (e.pattern) {
      // A pattern with * also matches everything below the module that it
      // matches.
      return rule_ != Rule::kExactOrRegular &&
             Pattern::Parse(e.text + ".*")->Matches(module);
    }
    const std::string_view layer = Layer(module);
    if (!layer.empty() && layer == Layer(e.text)) return true;
    if (rule_ == Rule::kExactOrRegular) {
      const bool longer = e.text.size() > module.size() &&
                          e.text[e.text.size() - module.size() - 1] == '.';
      return e.text == "Linear" || (longer && e.text.ends_with(module));
    }
    return !e.text.empty() && module.find(e.text) != std::string_view::npos;
  });
}

std::vector<std::string> ModuleList::texts() const {
  std::vector<std::string> texts;
  for (const Entry& e : entries_) texts.push_back(e.text);
  std::ranges::sort(texts);
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  return texts;
}

}  // namespace quantd::checkpoint
