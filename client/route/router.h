// Sends calls by the chosen route, and chooses another one if an attempt
// reveals new facts. client/net/exchange.h repeats calls unchanged. Only
// client/bands tries a call in a different way, too: with two passes if a
// server cannot reduce an amax.
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

// Sends the calls of one client. Thread-safe.
class Router {
 public:
  // The endpoint must outlive this.
  Router(Endpoint* endpoint, const ClientOptions& options);

  absl::StatusOr<Result> Run(const Call& call, const CallProgress& progress) {
    return Run(call, progress, band_bytes_);
  }
  // Computes a reducing plan (kernels/plan/shards.h), whose amax covers more
  // than this payload. `reduction` receives this payload's maxima and provides
  // the answer. The payload is sent once if possible, and else twice.
  absl::StatusOr<Result> RunReduced(const Call& call, Reduction& reduction);

 private:
  // Sends a call until an attempt succeeds or shows nothing new. `band_bytes`
  // is 0 for a call that must not be cut.
  absl::StatusOr<Result> Run(const Call& call, const CallProgress& progress,
                             size_t band_bytes);
  // Returns the settings of a server. Known settings are used for 10 s; then a
  // server is asked again, because it may have restarted with others. Returns
  // nullopt if no server answers.
  std::optional<ServerSettings> SettingsOf(const Call& call);
  // Chooses with ChooseRoute, and asks a server for its settings first if the
  // choice depends on them.
  Route Choose(const Call& call, RouteFacts* facts);
  // Sends the call by that route. Returns nullopt if the amax is Inf or NaN,
  // which no request can contain.
  absl::StatusOr<std::optional<Result>> Follow(const Route& route,
                                               const Call& call,
                                               const CallProgress& progress);

  Endpoint& endpoint_;
  const size_t band_bytes_;
  const size_t stream_from_;
  // The largest payload in one message that no server has refused, for each
  // method. A server refuses a larger message by its headers, before the
  // payload is sent. This call and all later ones of such a size are then
  // streams.
  std::array<std::atomic<size_t>, wire::kTensorMethods.size()> most_in_message_;
  std::mutex mutex_;
  std::chrono::steady_clock::time_point asked_;
  std::optional<ServerSettings> settings_;
};

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_ROUTE_ROUTER_H_
