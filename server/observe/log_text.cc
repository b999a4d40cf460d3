#include "server/observe/log_text.h"

#include "fmt/format.h"

namespace quantd {

std::string EscapeForJson(std::string_view text) {
  const std::string quoted = fmt::format("{:?}", text);
  std::string out;
  for (size_t i = 1; i + 1 < quoted.size(); ++i) {
    out += quoted[i];
    if (quoted[i] != '\\') continue;
    ++i;
    if (quoted[i] == 'x' || quoted[i] == 'U') out += '\\';
    out += quoted[i];
  }
  return out;
}

std::string QuoteForText(std::string_view text) {
  const std::string quoted = fmt::format("{:?}", text);
  const bool clear = !text.empty() && quoted.size() == text.size() + 2 &&
                     text.find_first_of(" =") == std::string_view::npos;
  return clear ? std::string(text) : quoted;
}

}  // namespace quantd
