#include "client/files/shown_name.h"

#include <nlohmann/json.hpp>

#include "fmt/format.h"

namespace quantd {

bool HasControl(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c < 0x20 || c == 0x7F) return true;
    const auto next =
        i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0u;
    if (c == 0xC2 && next >= 0x80 && next < 0xA0) return true;
  }
  return false;
}

std::string ShownName(const std::string& name) {
  using nlohmann::json;
  const json text = name;
  const auto replace = json::error_handler_t::replace;
  const bool is_utf8 =
      text.dump(-1, ' ', false, json::error_handler_t::ignore) ==
      text.dump(-1, ' ', false, replace);
  if (is_utf8 && !HasControl(name)) return name;
  const std::string escaped = text.dump(-1, ' ', true, replace);
  return escaped.substr(1, escaped.size() - 2);
}

std::string BytesText(uint64_t bytes) {
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes);
  int unit = -1;
  while (value >= 1024 && unit < 3) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.2f} {}", value, kUnits[unit]);
}

}  // namespace quantd
