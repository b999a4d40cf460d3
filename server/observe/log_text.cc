#include "server/observe/log_text.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "fmt/format.h"

namespace quantd {
namespace {

struct CodePoint {
  size_t bytes = 0;  // 0: the text does not begin with valid UTF-8
  uint32_t value = 0;
};

CodePoint FirstOf(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return {1, lead};
  const size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes) return {};
  uint32_t value = lead & (0xff >> (bytes + 1));
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    value = value << 6 | (byte(i) & 0x3f);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = value >= 0xd800 && value <= 0xdfff;
  if (value < kLeast[bytes] || surrogate || value > 0x10ffff) return {};
  return {bytes, value};
}

// Control characters, and the formatting ones of general punctuation: spaces
// of no width, separators of lines, marks of direction.
bool IsHidden(uint32_t c) {
  constexpr std::pair<uint32_t, uint32_t> kRanges[] = {
      {0x00, 0x1f},     {0x7f, 0x9f},     {0x061c, 0x061c}, {0x200b, 0x200f},
      {0x2028, 0x202e}, {0x2060, 0x206f}, {0xfeff, 0xfeff}, {0xfff9, 0xfffb}};
  return std::any_of(
      std::begin(kRanges), std::end(kRanges),
      [c](const auto& range) { return c >= range.first && c <= range.second; });
}

std::string Escape(std::string_view text, std::string_view invalid_byte) {
  std::string out;
  while (!text.empty()) {
    const CodePoint c = FirstOf(text);
    const size_t bytes = std::max<size_t>(c.bytes, 1);
    if (c.bytes == 0) {
      fmt::format_to(std::back_inserter(out), "{}{:02x}", invalid_byte,
                     static_cast<uint8_t>(text[0]));
    } else if (c.value == '"' || c.value == '\\') {
      out += '\\';
      out += text[0];
    } else if (IsHidden(c.value)) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", c.value);
    } else {
      out += text.substr(0, bytes);
    }
    text.remove_prefix(bytes);
  }
  return out;
}

}  // namespace

std::string EscapeForJson(std::string_view text) {
  return Escape(text, "\\\\x");
}

std::string QuoteForText(std::string_view text) {
  std::string escaped = Escape(text, "\\x");
  const bool clear = !text.empty() && escaped == text &&
                     text.find_first_of(" =") == std::string_view::npos;
  return clear ? escaped : '"' + escaped + '"';
}

}  // namespace quantd
