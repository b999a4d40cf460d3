// Strict reading of numbers on command lines, in variables and in files. CLI11
// alone wraps negative numbers, clamps numbers that are too large, and reads
// 010 as eight.
#ifndef QUANTD_PROTO_NET_STRICT_NUMBERS_H_
#define QUANTD_PROTO_NET_STRICT_NUMBERS_H_

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>

#include "fmt/format.h"

namespace quantd {

// The reason why the number at the start of `whole` is refused; empty if it is
// accepted. With `may_be_negative` the largest number has 63 bits, otherwise 64
// (a seed may use all 64).
inline std::string WrongNumber(std::string_view whole, bool may_be_negative) {
  std::string_view text = whole;
  if (may_be_negative && text.starts_with('-')) text.remove_prefix(1);
  const std::string_view digits =
      text.substr(0, text.find_first_not_of("0123456789"));
  uint64_t number = 0;
  const auto read =
      std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const uint64_t largest = may_be_negative ? INT64_MAX : UINT64_MAX;
  if (read.ec == std::errc::result_out_of_range || number > largest) {
    return fmt::format("the number {} is too large", whole);
  }
  if (digits.empty() || (digits.size() > 1 && digits.front() == '0') ||
      text.substr(digits.size()).starts_with('x')) {
    return fmt::format("expected a decimal number{}, got {}",
                       may_be_negative ? "" : ", 0 or more", whole);
  }
  return "";
}

// Applies this check to every integer and size option of the command and its
// subcommands. Call once, after all options are defined.
inline void ReadNumbersStrictly(CLI::App* app) {
  for (CLI::Option* option : app->get_options()) {
    const std::string type = option->get_type_name();
    const bool is_size = type.find("SIZE") != std::string::npos;
    const bool is_signed =
        type.starts_with("INT") || type.find(":INT in") != std::string::npos;
    if (!is_size && !is_signed && !type.starts_with("UINT")) continue;
    // Runs before all other validators, because one of them multiplies the
    // number.
    option->transform(CLI::Validator(
        [is_signed](std::string& text) { return WrongNumber(text, is_signed); },
        ""));
  }
  for (CLI::App* command : app->get_subcommands({})) {
    ReadNumbersStrictly(command);
  }
}

}  // namespace quantd

#endif  // QUANTD_PROTO_NET_STRICT_NUMBERS_H_
