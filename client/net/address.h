// Targets as callers name them, and the addresses to which they resolve.
#ifndef QUANTD_CLIENT_NET_ADDRESS_H_
#define QUANTD_CLIENT_NET_ADDRESS_H_

#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"

namespace quantd::client {

// One server, as gRPC dials it.
struct Address {
  std::string target;     // "127.0.0.1:50151", "ipv4:10.0.0.7:50151", "unix:/p"
  std::string authority;  // the name it was found by, with the port; or empty
  // For people: the target, after the name where there is one.
  std::string text() const;

  friend bool operator==(const Address&, const Address&) = default;
};

// A name that stands for any number of servers, and for other ones tomorrow.
struct HostName {
  std::string host;
  std::string port;
  std::string text() const { return host + ":" + port; }
};

using Place = std::variant<Address, HostName>;

// Takes what Client::Create takes: addresses with commas between them. Without
// duplicates, in order. FieldError "target" for what is no address.
absl::StatusOr<std::vector<Place>> ParseTarget(std::string_view target);

// All addresses of a name. Blocks, seconds where a name server does not answer.
using Resolver =
    std::function<absl::StatusOr<std::vector<Address>>(const HostName&)>;
// Asks the system: /etc/hosts, DNS. NOT_FOUND in the system's words.
absl::StatusOr<std::vector<Address>> ResolveBySystem(const HostName& name);

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_NET_ADDRESS_H_
