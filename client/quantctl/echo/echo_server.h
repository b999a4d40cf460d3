// A raw gRPC echo: the ceiling for calls that carry the bytes of a tensor there
// and those of a result back. Nothing is computed.
#ifndef QUANTD_CLIENT_QUANTCTL_ECHO_ECHO_SERVER_H_
#define QUANTD_CLIENT_QUANTCTL_ECHO_ECHO_SERVER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace quantd::quantctl {

// The one method, of any messages, and the metadata that says in decimal how
// many bytes the answer shall have in all, and, unless it is one, how many
// messages come: each is answered by its share, ShareOf, as soon as it is
// there.
inline constexpr char kEchoMethod[] = "/quantd.Echo/Exchange";
inline constexpr char kEchoReplyBytes[] = "echo-reply-bytes";
inline constexpr char kEchoMessages[] = "echo-messages";
inline constexpr uint64_t kMostEchoMessages = 1 << 20;

// Where the share of message `i` of `count` begins, of so many bytes.
inline uint64_t ShareOf(uint64_t bytes, uint64_t i, uint64_t count) {
  return bytes / count * i + bytes % count * i / count;
}

struct EchoOptions {
  std::string listen = "127.0.0.1:0";
  uint64_t max_bytes = 256 << 20;  // of a message, each way; at most 2^30
  int threads = 0;                 // 0: one for each four cores
};

// Copies each message once, as a server must that hands its bytes on, and
// answers with as many bytes as were asked for: the first of those that came,
// then zeros. Calls need a deadline, of ten minutes at most, so that none
// stays.
class EchoServer {
 public:
  // INVALID_ARGUMENT for options that are no good, UNAVAILABLE where it cannot
  // listen.
  static absl::StatusOr<std::unique_ptr<EchoServer>> Start(
      const EchoOptions& options);
  // Ends the calls under way.
  virtual ~EchoServer() = default;

  // What a client dials.
  virtual const std::string& address() const = 0;
  // Calls that are worked on at once; more wait unread.
  virtual int calls() const = 0;

 protected:
  EchoServer() = default;
};

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_ECHO_ECHO_SERVER_H_
