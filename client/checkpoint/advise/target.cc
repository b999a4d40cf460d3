#include "client/checkpoint/advise/target.h"

#include <cmath>
#include <cstdlib>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "fmt/format.h"

namespace quantd::checkpoint {
namespace {

struct Unit {
  const char* name;
  double bytes;
};
// The units of quantd's settings: K is 1024, with or without B or iB.
constexpr Unit kUnits[] = {{"B", 1},        {"K", 0x1p10}, {"KB", 0x1p10},
                           {"KiB", 0x1p10}, {"M", 0x1p20}, {"MB", 0x1p20},
                           {"MiB", 0x1p20}, {"G", 0x1p30}, {"GB", 0x1p30},
                           {"GiB", 0x1p30}, {"T", 0x1p40}, {"TB", 0x1p40},
                           {"TiB", 0x1p40}};

}  // namespace

absl::StatusOr<Target> ParseTarget(const std::string& text) {
  const absl::Status bad = absl::InvalidArgumentError(fmt::format(
      "--target {}: expected the least decibels of each weight, like 25dB, or "
      "the most bytes of the model, like 4.5GiB or 800MB",
      text));
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  const auto unit = absl::StripLeadingAsciiWhitespace(end);
  if (end == text.c_str() || !std::isfinite(number) || number <= 0) return bad;
  if (absl::EqualsIgnoreCase(unit, "dB")) return Target(LeastDb{number});
  for (const Unit& u : kUnits) {
    if (!absl::EqualsIgnoreCase(unit, u.name) || number * u.bytes >= 0x1p62)
      continue;
    return Target(MostBytes{static_cast<uint64_t>(number * u.bytes)});
  }
  return bad;
}

}  // namespace quantd::checkpoint
