#include "client/quantctl/terminal/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "fmt/format.h"

namespace quantd::quantctl {

size_t WidthOf(FILE* file) {
  winsize size = {};
  int width = 0;
  if (ioctl(fileno(file), TIOCGWINSZ, &size) == 0) width = size.ws_col;
  const char* const said = std::getenv("COLUMNS");
  if (width == 0 && said != nullptr) width = std::atoi(said);
  return static_cast<size_t>(width > 0 ? std::max(width, 20) : 80);
}

std::string Wrapped(std::string_view text, size_t indent, size_t width) {
  std::string wrapped;
  size_t column = indent;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (column > indent && column + 1 + word.size() > width) {
      wrapped += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      wrapped += ' ';
      ++column;
    }
    wrapped += word;
    column += word.size();
  }
  return wrapped;
}

std::string Painted(FILE* file, Colour colour, std::string_view text) {
  const char* const no = std::getenv("NO_COLOR");
  const bool plain = no != nullptr && *no != '\0';
  if (plain || isatty(fileno(file)) != 1) return std::string(text);
  return fmt::format("\x1b[{}m{}\x1b[0m", static_cast<int>(colour), text);
}

}  // namespace quantd::quantctl
