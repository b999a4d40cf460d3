// Addresses in gRPC's syntax: functions to split and check them, and to tell
// whether they are local.
#ifndef QUANTD_PROTO_NET_ADDRESS_H_
#define QUANTD_PROTO_NET_ADDRESS_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace quantd::security {

struct HostPort {
  std::string host;  // not empty; an IPv6 address without its brackets
  std::string port;  // as written
};

// Reads "HOST:PORT". Only an IPv6 address has brackets, and it must have them.
// INVALID_ARGUMENT, with a short reason, for anything else. Does not check that
// the host or port exists.
absl::StatusOr<HostPort> SplitHostPort(std::string_view address);

// Whether `address` is on this machine: "127.0.0.1:50151", "localhost:50151",
// "[::1]:50151", "unix:PATH", with or without a scheme ("dns:", "ipv4:", ...),
// or a comma-separated list of these. False for a name that only begins like
// one ("127.example.org") and for an address that cannot be read.
bool IsLoopback(std::string_view address);

// INVALID_ARGUMENT unless a server can listen on `address` by TCP: an address
// that SplitHostPort reads, whose port is a number from 0 to 65535. The message
// begins with `what`, such as the flag's name, and says what was expected.
absl::Status CheckTcpAddress(std::string_view what, std::string_view address);

// Like CheckTcpAddress, but also accepts "unix:PATH" and "unix-abstract:NAME".
absl::Status CheckListenAddress(std::string_view what,
                                std::string_view address);

}  // namespace quantd::security

#endif  // QUANTD_PROTO_NET_ADDRESS_H_
