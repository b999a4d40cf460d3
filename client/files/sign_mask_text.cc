#include "client/files/sign_mask_text.h"

#include <iterator>

#include "fmt/format.h"

namespace quantd {

std::string SignMaskToHex(const SignMask& mask, int dimension) {
  const std::string bytes = SignMaskToBytes(mask, dimension);
  fmt::memory_buffer hex;
  fmt::format_to(std::back_inserter(hex), "0x");
  for (auto it = bytes.rbegin(); it != bytes.rend(); ++it) {
    fmt::format_to(std::back_inserter(hex), "{:02X}",
                   static_cast<unsigned char>(*it));
  }
  return fmt::to_string(hex);
}

std::optional<SignMask> SignMaskFromHex(std::string_view text, int dimension) {
  if (text.substr(0, 2) == "0x" || text.substr(0, 2) == "0X") {
    text.remove_prefix(2);
  }
  if (text.empty() || text.size() > static_cast<size_t>(dimension) / 4) {
    return std::nullopt;
  }
  SignMask mask = {};
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[text.size() - 1 - i];
    uint64_t digit = 0;
    if (c >= '0' && c <= '9') {
      digit = c - '0';
    } else if (c >= 'a' && c <= 'f') {
      digit = c - 'a' + 10;
    } else if (c >= 'A' && c <= 'F') {
      digit = c - 'A' + 10;
    } else {
      return std::nullopt;
    }
    mask.words[i / 16] |= digit << (4 * (i % 16));
  }
  return mask;
}

}  // namespace quantd
