// The metrics page in Prometheus text format 0.0.4.
#ifndef QUANTD_SERVER_OBSERVE_METRICS_PAGE_H_
#define QUANTD_SERVER_OBSERVE_METRICS_PAGE_H_

#include <initializer_list>
#include <string>
#include <string_view>

#include "absl/types/span.h"
#include "server/calls/call_environment.h"
#include "server/observe/metrics.h"

namespace quantd {

struct MetricFamily;

// Writes the samples of one family.
class MetricSamples {
 public:
  // Values of the family's labels, in order.
  using Labels = std::initializer_list<std::string_view>;

  MetricSamples(const MetricFamily& family, std::string* page)
      : family_(family), page_(*page) {}
  void Add(double value, Labels labels = {}) { Write("", labels, "", value); }
  void Add(const Histogram::Snapshot& snapshot, Labels labels);

 private:
  void Write(std::string_view suffix, Labels labels, std::string_view le,
             double value);

  const MetricFamily& family_;
  std::string& page_;
};

struct MetricFamily {
  std::string_view name;
  std::string_view type;
  std::string_view labels;  // "method, stage"; empty: no labels
  std::string_view meaning;
  void (*write)(const CallEnvironment& from, MetricSamples& to);
};

// In the order of the page.
absl::Span<const MetricFamily> MetricFamilies();

// Takes locks of the gate, the registry and each device for a short time.
std::string MetricsPage(const CallEnvironment& environment);

}  // namespace quantd

#endif  // QUANTD_SERVER_OBSERVE_METRICS_PAGE_H_
