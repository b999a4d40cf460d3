#include "client/net/client_options.h"

#include "fmt/format.h"
#include "quantd/field_error.h"

namespace quantd::client {
namespace {

// Smaller bands take longer as calls of their own.
constexpr size_t kLeastBandBytes = size_t{256} << 10;

}  // namespace

absl::Status CheckOptions(const ClientOptions& options) {
  const auto in_range = [](int64_t value, int64_t low, int64_t high) {
    return value >= low && value <= high;
  };
  constexpr int64_t kYear = int64_t{1000} * 3600 * 24 * 365;
  const auto refuse = [](std::string_view field, std::string_view expected,
                         auto got) {
    return FieldError(field, expected, fmt::to_string(got));
  };
  if (!in_range(options.channels, 1, 64)) {
    return refuse("channels", "1 to 64", options.channels);
  }
  if (!in_range(options.max_in_flight, 1, 1024)) {
    return refuse("max_in_flight", "1 to 1024", options.max_in_flight);
  }
  if (!in_range(options.deadline.count(), 1, kYear)) {
    return refuse("deadline", "1 ms to a year", options.deadline.count());
  }
  if (!in_range(options.dead_peer_timeout.count(), 100, 3'600'000)) {
    return refuse("dead_peer_timeout", "100 ms to an hour",
                  options.dead_peer_timeout.count());
  }
  if (!in_range(options.busy_poll.count(), 0, 100'000)) {
    return refuse("busy_poll", "0 to 100 ms", options.busy_poll.count());
  }
  if (options.band_bytes != 0 && options.band_bytes < kLeastBandBytes) {
    return FieldError("band_bytes",
                      fmt::format("0 or at least {} bytes", kLeastBandBytes),
                      fmt::to_string(options.band_bytes));
  }
  const RetryPolicy& retry = options.retry;
  if (!in_range(retry.max_attempts, 1, 1000)) {
    return refuse("retry.max_attempts", "1 to 1000", retry.max_attempts);
  }
  if (!in_range(retry.initial_backoff.count(), 1, 3'600'000)) {
    return refuse("retry.initial_backoff", "1 ms to an hour",
                  retry.initial_backoff.count());
  }
  if (!in_range(retry.max_backoff.count(), retry.initial_backoff.count(),
                3'600'000)) {
    return refuse("retry.max_backoff", "initial_backoff to an hour",
                  retry.max_backoff.count());
  }
  if (!(retry.multiplier >= 1 && retry.multiplier <= 100)) {
    return refuse("retry.multiplier", "1 to 100", retry.multiplier);
  }
  return absl::OkStatus();
}

}  // namespace quantd::client
