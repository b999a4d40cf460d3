#include "client/quantctl/bench/cell.h"

#include <algorithm>

#include "client/quantctl/report.h"
#include "fmt/format.h"

namespace quantd::quantctl {

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle =
      values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::string EchoRate::text() const {
  if (how.piece_bytes == 0) return "one message";
  return fmt::format("{} {} of {}{}", how.connections,
                     how.streamed ? "streams" : "connections",
                     BytesText(how.piece_bytes),
                     how.in_then_out ? ", in, then out" : "");
}

const EchoRate* Cell::best_echo() const {
  const auto best = std::max_element(
      echoes.begin(), echoes.end(), [](const EchoRate& a, const EchoRate& b) {
        return Median(a.gb_per_s) < Median(b.gb_per_s);
      });
  return best == echoes.end() ? nullptr : &*best;
}

double Cell::of_echo() const {
  const EchoRate* const best = best_echo();
  const double echo = best == nullptr ? 0 : Median(best->gb_per_s);
  return echo > 0 ? input_gb_per_s() / echo : 0;
}

}  // namespace quantd::quantctl
