#include "client/checkpoint/advise/target.h"

#include <cmath>
#include <cstdlib>
#include <string_view>

#include "fmt/format.h"

namespace quantd::checkpoint {
namespace {

struct Unit {
  std::string_view name;
  double bytes;
};
constexpr Unit kUnits[] = {{"B", 1},        {"kB", 1e3},     {"KB", 1e3},
                           {"MB", 1e6},     {"GB", 1e9},     {"TB", 1e12},
                           {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30},
                           {"TiB", 0x1p40}};

}  // namespace

absl::StatusOr<Target> ParseTarget(const std::string& text) {
  const absl::Status bad = absl::InvalidArgumentError(fmt::format(
      "--target {}: expected decibels of each weight, like 25dB, or bytes of "
      "the whole, like 4.5GiB or 800MB",
      text));
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  std::string_view unit(end);
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  if (end == text.c_str() || !std::isfinite(number) || number <= 0) return bad;
  if (unit == "dB" || unit == "db") return Target(LeastDb{number});
  for (const Unit& u : kUnits) {
    if (unit != u.name || number * u.bytes >= 0x1p62) continue;
    return Target(MostBytes{static_cast<uint64_t>(number * u.bytes)});
  }
  return bad;
}

}  // namespace quantd::checkpoint
