#include "server/observe/metrics_page.h"

#include <algorithm>
#include <iterator>

#include "fmt/format.h"

namespace quantd {
namespace {

double Seconds(uint64_t nanoseconds) {
  return static_cast<double>(nanoseconds) / 1e9;
}

}  // namespace

void MetricSamples::Write(std::string_view suffix, Labels labels,
                          std::string_view le, double value) {
  page_.append(family_.name).append(suffix);
  std::string_view keys = family_.labels;
  char before = '{';
  const auto write = [&](std::string_view key, std::string_view text) {
    page_ += before;
    page_.append(key) += "=\"";
    for (const char c : text) {
      if (c == '\\' || c == '"') page_ += '\\';
      page_ += c == '\n' ? ' ' : c;
    }
    page_ += '"';
    before = ',';
  };
  for (const std::string_view label : labels) {
    write(keys.substr(0, keys.find(',')), label);
    keys.remove_prefix(std::min(keys.size(), keys.find(' ') + 1));
  }
  if (!le.empty()) write("le", le);
  if (before == ',') page_ += '}';
  fmt::format_to(std::back_inserter(page_), " {}\n", value);
}

void MetricSamples::Add(const Histogram::Snapshot& snapshot, Labels labels) {
  uint64_t below = 0;
  for (size_t i = 0; i < Histogram::kBuckets; ++i) {
    below += snapshot.buckets[i];
    Write("_bucket", labels,
          i + 1 == Histogram::kBuckets
              ? "+Inf"
              : fmt::to_string(Seconds(Histogram::kBounds[i])),
          below);
  }
  Write("_sum", labels, "", Seconds(snapshot.sum_ns));
  Write("_count", labels, "", snapshot.count);
}

std::string MetricsPage(const CallEnvironment& environment) {
  std::string page;
  for (const MetricFamily& f : MetricFamilies()) {
    page += fmt::format("# HELP {} {}\n# TYPE {} {}\n", f.name, f.meaning,
                        f.name, f.type);
    MetricSamples samples(f, &page);
    f.write(environment, samples);
  }
  return page;
}

}  // namespace quantd
