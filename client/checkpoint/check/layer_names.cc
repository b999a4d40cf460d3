#include "client/checkpoint/check/layer_names.h"

#include <algorithm>
#include <charconv>

#include "client/checkpoint/pattern.h"
#include "fmt/format.h"

namespace quantd::checkpoint {
namespace {

constexpr std::string_view kStacks[] = {"layers", "layer", "h", "blocks",
                                        "block"};
constexpr std::string_view kExperts = "experts";

int64_t NumberOf(std::string_view text) {
  int64_t number = -1;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? number : -1;
}

// Cuts the name at the first number that follows a part accepted by `names`.
template <typename Names>
NumberedName CutAt(std::string_view name, Names&& names) {
  size_t begin = 0;
  std::string_view last;
  while (begin < name.size()) {
    const size_t end = std::min(name.find('.', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    if (begin > 0 && names(last) && NumberOf(part) >= 0 && end < name.size()) {
      return {std::string(name.substr(0, begin - 1)), NumberOf(part),
              std::string(name.substr(end + 1))};
    }
    last = part;
    begin = end + 1;
  }
  return {};
}

}  // namespace

std::string NumberedName::whole() const {
  return number < 0 ? "" : fmt::format("{}.{}", before, number);
}

NumberedName LayerOf(std::string_view name) {
  return CutAt(name, [](std::string_view part) { return Has(kStacks, part); });
}

NumberedName ExpertOf(std::string_view name) {
  return CutAt(name, [](std::string_view part) { return part == kExperts; });
}

bool IsOfHead(std::string_view name) { return name.starts_with("lm_head."); }

std::string ClassOf(std::string_view name) {
  std::string out;
  for (const char c : name) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit || out.empty() || out.back() != '#') out += digit ? '#' : c;
  }
  return out;
}

bool IsExperts(std::string_view name) {
  for (size_t at = name.find(kExperts); at != std::string_view::npos;
       at = name.find(kExperts, at + 1)) {
    const size_t end = at + kExperts.size();
    if ((at == 0 || name[at - 1] == '.') &&
        (end == name.size() || name[end] == '.')) {
      return true;
    }
  }
  return false;
}

Place PlaceOf(std::string_view module) {
  Place place;
  std::string before;
  while (!module.empty()) {
    const size_t dot = module.find('.');
    const std::string_view part = module.substr(0, dot);
    module.remove_prefix(dot == std::string_view::npos ? module.size()
                                                       : dot + 1);
    const int64_t number = NumberOf(part);
    if (number < 0) {
      if (!before.empty()) before += '.';
      before += part;
    } else if (place.layer < 0) {
      place.layer = number;
      place.stack = before;
      before.clear();
    } else {
      before += before.empty() ? "*" : ".*";
    }
  }
  place.name = before.empty() ? "weight" : before;
  return place;
}

}  // namespace quantd::checkpoint
