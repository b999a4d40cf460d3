#include "client/checkpoint/check/layer_names.h"

#include <algorithm>
#include <charconv>

#include "client/checkpoint/pattern.h"

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

struct Cut {
  std::string_view before;
  int64_t number = -1;
  std::string_view after;
};

// Cuts the name at the first number that follows a part accepted by `names`.
template <typename Names>
Cut CutAt(std::string_view name, Names&& names) {
  size_t begin = 0;
  std::string_view last;
  while (begin < name.size()) {
    const size_t end = std::min(name.find('.', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    if (begin > 0 && names(last) && NumberOf(part) >= 0 && end < name.size()) {
      return {name.substr(0, begin - 1), NumberOf(part), name.substr(end + 1)};
    }
    last = part;
    begin = end + 1;
  }
  return {};
}

}  // namespace

LayerName LayerName::Of(std::string_view name) {
  const Cut cut =
      CutAt(name, [](std::string_view part) { return Has(kStacks, part); });
  return {std::string(cut.before), cut.number, std::string(cut.after)};
}

ExpertName ExpertName::Of(std::string_view name) {
  const Cut cut =
      CutAt(name, [](std::string_view part) { return part == kExperts; });
  return {std::string(cut.before), cut.number, std::string(cut.after)};
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

}  // namespace quantd::checkpoint
