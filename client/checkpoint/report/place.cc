#include "client/checkpoint/report/place.h"

#include <charconv>

namespace quantd::checkpoint {
namespace {

bool IsNumber(std::string_view text, int64_t* number) {
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, *number);
  return error == std::errc() && rest == end && *number >= 0;
}

}  // namespace

Place PlaceOf(std::string_view module) {
  Place place;
  std::string before;
  while (!module.empty()) {
    const size_t dot = module.find('.');
    const std::string_view part = module.substr(0, dot);
    module.remove_prefix(dot == std::string_view::npos ? module.size()
                                                       : dot + 1);
    int64_t number = 0;
    if (!IsNumber(part, &number)) {
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
