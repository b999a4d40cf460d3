// Carries out the chosen route of calls, and chooses another if an attempt
// reveals new facts: the only place that tries a call in a different way.
// (client/net/exchange.h repeats a call unchanged.)
#ifndef QUANTD_CLIENT_ROUTE_ROUTER_H_
#define QUANTD_CLIENT_ROUTE_ROUTER_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/call/call.h"
#include "client/call/endpoint.h"
#include "client/call/reduction.h"
#include "client/route/route.h"
#include "proto/methods.h"
#include "quantd/call_options.h"
#include "quantd/result.h"

namespace quantd::client {

// Thread-safe.
class Router {
 public:
  // The endpoint must outlive it.
  Router(Endpoint* endpoint, const ClientOptions& options);

  absl::StatusOr<Result> Run(const Call& call, const CallProgress& progress) {
    return Run(call, progress, band_bytes_);
  }
  // Computes a plan that reduces (kernels/plan/shards.h), whose amax spans more
  // than this payload. `reduction` is told this payload's maxima, and answers.
  // The payload is sent once if possible, else twice.
  absl::StatusOr<Result> RunReduced(const Call& call, Reduction& reduction);

 private:
  absl::StatusOr<Result> Run(const Call& call, const CallProgress& progress,
                             size_t band_bytes);
  // Asks a server if no recent settings are known, since it may have restarted
  // with others. nullopt if it did not answer.
  std::optional<ServerSettings> SettingsOf(const Call& call);
  Route Choose(const Call& call, RouteFacts* facts);
  // nullopt if the amax cannot be put into a request.
  absl::StatusOr<std::optional<Result>> Follow(const Route& route,
                                               const Call& call,
                                               const CallProgress& progress);

  Endpoint& endpoint_;
  const size_t band_bytes_;
  const size_t stream_from_;
  // Payloads of one message that no server has refused for their size.
  std::array<std::atomic<size_t>, wire::kTensorMethods.size()> most_in_message_;
  std::mutex mutex_;
  std::chrono::steady_clock::time_point asked_;
  std::optional<ServerSettings> settings_;
};

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_ROUTE_ROUTER_H_
