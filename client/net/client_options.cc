#include "client/net/client_options.h"

#include "fmt/format.h"
#include "quantd/field_error.h"

namespace quantd::client {
namespace {

// Cutting a call into smaller bands makes it slower.
constexpr size_t kLeastBandBytes = size_t{256} << 10;

}  // namespace

absl::Status CheckOptions(const ClientOptions& options) {
  constexpr int64_t kHour = int64_t{1000} * 3600;
  const RetryPolicy& retry = options.retry;
  const int64_t least_backoff = retry.initial_backoff.count();
  const struct {
    std::string_view field;
    int64_t value, low, high;
    std::string_view expected;
  } ranges[] = {
      {"channels", options.channels, 1, 64, "1 to 64"},
      {"max_in_flight", options.max_in_flight, 1, 1024, "1 to 1024"},
      {"deadline", options.deadline.count(), 1, kHour * 24 * 365,
       "1 ms to a year"},
      {"dead_peer_timeout", options.dead_peer_timeout.count(), 100, kHour,
       "100 ms to an hour"},
      {"busy_poll", options.busy_poll.count(), 0, 100'000, "0 to 100 ms"},
      {"retry.max_attempts", retry.max_attempts, 1, 1000, "1 to 1000"},
      {"retry.initial_backoff", least_backoff, 1, kHour, "1 ms to an hour"},
      {"retry.max_backoff", retry.max_backoff.count(), least_backoff, kHour,
       "initial_backoff to an hour"}};
  for (const auto& [field, value, low, high, expected] : ranges) {
    if (value >= low && value <= high) continue;
    return FieldError(field, expected, fmt::to_string(value));
  }
  if (options.band_bytes != 0 && options.band_bytes < kLeastBandBytes) {
    return FieldError("band_bytes",
                      fmt::format("0 or at least {} bytes", kLeastBandBytes),
                      fmt::to_string(options.band_bytes));
  }
  if (!(retry.multiplier >= 1 && retry.multiplier <= 100)) {
    return FieldError("retry.multiplier", "1 to 100",
                      fmt::to_string(retry.multiplier));
  }
  return absl::OkStatus();
}

}  // namespace quantd::client
