#include "server/observe/metric_families.h"

#include "fmt/format.h"

namespace quantd {

std::string_view Name(MetricFamily::Type type) {
  switch (type) {
    case MetricFamily::kCounter:
      return "counter";
    case MetricFamily::kGauge:
      return "gauge";
    case MetricFamily::kHistogram:
      return "histogram";
  }
  return "";
}

std::string MetricsTable() {
  std::string table =
      "| name | type | labels | meaning |\n| --- | --- | --- | --- |\n";
  for (const MetricFamily* family : kMetricFamilies) {
    fmt::format_to(std::back_inserter(table), "| `{}` | {} | {} | {} |\n",
                   family->name, Name(family->type), family->labels,
                   family->meaning);
  }
  return table;
}

}  // namespace quantd
