// Who can reach, or be reached at, an address as gRPC writes it.
#ifndef QUANTD_SECURITY_ADDRESS_H_
#define QUANTD_SECURITY_ADDRESS_H_

#include <string_view>

#include "absl/status/status.h"

namespace quantd::security {

// Whether what is sent to `address` stays on this machine: "127.0.0.1:50151",
// "localhost:50151", "[::1]:50151", "unix:PATH", with or without a scheme
// ("dns:", "ipv4:", ...), or a comma-separated list of such. A name that only
// begins like one ("127.example.org") does not, nor does what cannot be read.
bool IsLoopback(std::string_view address);

// INVALID_ARGUMENT unless `address` is one that a server can listen on:
// "HOST:PORT", "[HOST]:PORT" or "unix:PATH" ("unix-abstract:NAME"). `flag`
// begins the message.
absl::Status CheckListenAddress(std::string_view flag,
                                std::string_view address);

}  // namespace quantd::security

#endif  // QUANTD_SECURITY_ADDRESS_H_
