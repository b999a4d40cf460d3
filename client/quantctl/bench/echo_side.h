// The echo that a bench measures beside the server.
#ifndef QUANTD_CLIENT_QUANTCTL_BENCH_ECHO_SIDE_H_
#define QUANTD_CLIENT_QUANTCTL_BENCH_ECHO_SIDE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/quantctl/bench/rounds.h"
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

  // Bytes of the messages in which calls of so many go; 0: one message.
  static std::vector<size_t> PiecesFor(uint64_t bytes, uint64_t reply_bytes);

  // Warms up, and makes sure that bytes come back.
  absl::Status FirstCall(absl::Span<const std::byte> input,
                         uint64_t reply_bytes);
  // One for each arrangement of PiecesFor. Both must outlive it.
  std::vector<Contender> ContendersFor(absl::Span<const std::byte> input,
                                       uint64_t reply_bytes);

 private:
  EchoSide() = default;
  absl::Status Call(absl::Span<const std::byte> input, uint64_t reply_bytes,
                    size_t piece_bytes);

  std::unique_ptr<EchoProcess> process_;  // null: not ours
  std::unique_ptr<EchoClient> client_;
  // Where replies go, one for each call under way.
  std::mutex mutex_;
  std::vector<std::vector<std::byte>> spare_;
};

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_BENCH_ECHO_SIDE_H_
