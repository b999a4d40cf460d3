// Addresses as gRPC writes them: their parts, and who can reach, or be reached
// at, one.
#ifndef QUANTD_PROTO_NET_ADDRESS_H_
#define QUANTD_PROTO_NET_ADDRESS_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace quantd::security {

struct HostPort {
  std::string host;  // not empty; of an IPv6 address without its brackets
  std::string port;  // as it stands there
};

// Reads "HOST:PORT", where an IPv6 address has brackets and nothing else has
// them. INVALID_ARGUMENT, in a few words, for what is neither. Whether there is
// such a host or port is not asked.
absl::StatusOr<HostPort> SplitHostPort(std::string_view address);

// Whether what is sent to `address` stays on this machine: "127.0.0.1:50151",
// "localhost:50151", "[::1]:50151", "unix:PATH", with or without a scheme
// ("dns:", "ipv4:", ...), or a comma-separated list of such. A name that only
// begins like one ("127.example.org") does not, nor does what cannot be read.
bool IsLoopback(std::string_view address);

// INVALID_ARGUMENT unless a server can listen on `address` by TCP: what
// SplitHostPort reads, with a number from 0 to 65535 for the port. The message
// begins with `what`, such as the flag, and says what was expected.
absl::Status CheckTcpAddress(std::string_view what, std::string_view address);

// The same, or "unix:PATH" or "unix-abstract:NAME", as gRPC also listens on.
absl::Status CheckListenAddress(std::string_view what,
                                std::string_view address);

}  // namespace quantd::security

#endif  // QUANTD_PROTO_NET_ADDRESS_H_
