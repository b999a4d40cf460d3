// The echo that a bench measures beside the server.
#ifndef QUANTD_CLIENT_QUANTCTL_BENCH_ECHO_SIDE_H_
#define QUANTD_CLIENT_QUANTCTL_BENCH_ECHO_SIDE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/quantctl/bench/load.h"
#include "client/quantctl/commands.h"
#include "client/quantctl/echo/echo_client.h"
#include "client/quantctl/echo/echo_process.h"

namespace quantd::quantctl {

class EchoSide {
 public:
  // `echo` is an address or "self", an echo that is started here and is
  // reached as the server is. INVALID_ARGUMENT where it would not be the
  // server's ceiling.
  static absl::StatusOr<std::unique_ptr<EchoSide>> Create(
      const std::string& echo, const Options& options, int connections);

  // Ways to carry so many bytes, all of them with one order of in and out.
  static std::vector<Arrangement> ArrangementsFor(uint64_t bytes,
                                                  uint64_t reply_bytes,
                                                  bool in_then_out,
                                                  int connections);

  // Warms up, and makes sure that bytes come back.
  absl::Status FirstCall(absl::Span<const std::byte> input,
                         uint64_t reply_bytes);
  // Those that carried most when each was tried for a moment, with a part of
  // the bytes, by the callers of the load; three at most, the best first.
  absl::StatusOr<std::vector<Arrangement>> BestFor(
      absl::Span<const std::byte> input, uint64_t reply_bytes, bool in_then_out,
      const Load& load, const std::atomic<int>& stop);
  absl::Status Call(absl::Span<const std::byte> input, uint64_t reply_bytes,
                    const Arrangement& how);

 private:
  explicit EchoSide(int connections) : connections_(connections) {}

  const int connections_;                 // of the client's own
  std::unique_ptr<EchoProcess> process_;  // null: not ours
  std::unique_ptr<EchoClient> client_;
  // Where replies go, one for each call under way.
  std::mutex mutex_;
  std::vector<std::vector<std::byte>> spare_;
};

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_BENCH_ECHO_SIDE_H_
