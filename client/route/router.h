// Makes calls the way that is chosen for them, and chooses anew where an
// attempt has shown what was not known: the one place where a call is tried
// otherwise. (What is tried again as it was, client/net/exchange.h does.)
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
  // Computes a plan that reduces (kernels/plan/shards.h) with an amax of more
  // than this payload: `reduction` is told what the payload adds, and answers.
  // The payload travels once where it can, else twice.
  absl::StatusOr<Result> RunReduced(const Call& call, Reduction& reduction);

 private:
  absl::StatusOr<Result> Run(const Call& call, const CallProgress& progress,
                             size_t band_bytes);
  // Asks a server where nothing fresh is known: it may have come back with
  // others. Nothing: it did not answer.
  std::optional<ServerSettings> SettingsOf(const Call& call);
  Route Choose(const Call& call, RouteFacts* facts);
  // Nothing if a request cannot give this amax.
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
