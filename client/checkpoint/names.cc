#include "client/checkpoint/names.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "client/files/words.h"
#include "fmt/format.h"

namespace quantd::checkpoint {
namespace {

int64_t NumberOf(std::string_view text) {
  int64_t number = -1;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? number : -1;
}

// Cuts the name at the first number that follows one of `words`.
NumberedName CutAt(std::string_view name, const Words& words) {
  std::string_view last;
  for (const std::string_view part : Split(name, '.')) {
    const auto begin = static_cast<size_t>(part.data() - name.data());
    const size_t end = begin + part.size();
    if (begin > 0 && Has(words, last) && NumberOf(part) >= 0 &&
        end < name.size()) {
      return {std::string(name.substr(0, begin - 1)), NumberOf(part),
              std::string(name.substr(end + 1))};
    }
    last = part;
  }
  return {};
}

}  // namespace

bool IsIndex(std::string_view part) {
  return !part.empty() && part.size() < 10 &&
         std::ranges::all_of(part, [](char c) { return c >= '0' && c <= '9'; });
}

std::string_view ModuleOf(std::string_view tensor) {
  constexpr std::string_view kWeight = ".weight";
  if (tensor.ends_with(kWeight)) tensor.remove_suffix(kWeight.size());
  return tensor;
}

ModuleName SplitModule(std::string_view module) {
  const size_t dot = module.rfind('.');
  if (dot == std::string_view::npos) return {"", module};
  return {module.substr(0, dot), module.substr(dot + 1)};
}

std::string_view ExpertsAbove(std::string_view module) {
  constexpr std::string_view kExperts = "experts.";
  constexpr std::string_view kWord = "expert_";
  const size_t at = module.rfind(kExperts);
  if (at == std::string_view::npos || (at > 0 && module[at - 1] != '.')) {
    return "";
  }
  const size_t end = at + kExperts.size();
  std::string_view next = module.substr(end);
  if (next.starts_with(kWord)) next.remove_prefix(kWord.size());
  const bool numbered = !next.empty() && next[0] >= '0' && next[0] <= '9';
  return numbered ? module.substr(0, end - 1) : "";
}

std::string WithoutNumbers(std::string_view name) {
  std::string out;
  for (const char c : name) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit || out.empty() || out.back() != '#') out += digit ? '#' : c;
  }
  return out;
}

std::string_view WrapperOf(std::string_view name) {
  for (const std::string_view wrapper : {"module.", "model.module."}) {
    if (name.starts_with(wrapper)) return wrapper;
  }
  // PyTorch's wrappers hold the wrapped module in a private attribute.
  for (const std::string_view part : Split(name, '.')) {
    const bool wraps = part.starts_with('_') && part.ends_with("module");
    if (!wraps && part != "_orig_mod") continue;
    return name.substr(part.data() - name.data(), part.size() + 1);
  }
  return "";
}

std::string NumberedName::whole() const {
  return number < 0 ? "" : fmt::format("{}.{}", before, number);
}

NumberedName LayerOf(std::string_view name) {
  return CutAt(name, "layers layer h blocks block");
}

NumberedName ExpertOf(std::string_view name) { return CutAt(name, "experts"); }

bool IsOfHead(std::string_view name) { return name.starts_with("lm_head."); }

bool IsExperts(std::string_view name) {
  return Has(Split(name, '.'), "experts");
}

Place PlaceOf(std::string_view module) {
  Place place;
  std::string before;
  for (const std::string_view part : Split(module, '.')) {
    const int64_t number = NumberOf(part);
    if (number >= 0 && place.layer < 0) {
      place.layer = number;
      place.stack = std::exchange(before, "");
      continue;
    }
    if (!before.empty()) before += '.';
    before += number < 0 ? part : "*";
  }
  place.name = before.empty() ? "weight" : before;
  return place;
}

}  // namespace quantd::checkpoint
