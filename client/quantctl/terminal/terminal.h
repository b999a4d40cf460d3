// Formats text for the terminal, by its width and colours.
#ifndef QUANTD_CLIENT_QUANTCTL_TERMINAL_TERMINAL_H_
#define QUANTD_CLIENT_QUANTCTL_TERMINAL_TERMINAL_H_

#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>

namespace quantd::quantctl {

// The width of the terminal of `file` in columns. If it is not a terminal: the
// variable COLUMNS, or 80.
size_t WidthOf(FILE* file);

// Wraps `text` to lines of at most `width` columns. All lines but the first
// begin with `indent` spaces, and the first is shorter by as many columns. Long
// words are not broken.
std::string Wrapped(std::string_view text, size_t indent, size_t width);

enum class Colour { kBold = 1, kRed = 31, kGreen = 32, kYellow = 33 };
// Returns the text in that colour, or unchanged if `file` is not a terminal or
// NO_COLOR is set.
std::string Painted(FILE* file, Colour colour, std::string_view text);

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_TERMINAL_TERMINAL_H_
