// Parses targets and resolves them to addresses.
#ifndef QUANTD_CLIENT_NET_ADDRESS_H_
#define QUANTD_CLIENT_NET_ADDRESS_H_

#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"

namespace quantd::client {

// One server, in gRPC's notation.
struct Address {
  std::string target;  // "127.0.0.1:50151", "ipv4:10.0.0.7:50151", "unix:/p"
  // The name and port that resolved to `target`. Empty for a numeric target.
  std::string authority;
  // The address for messages: the target, preceded by the name if there is one.
  std::string text() const;

  friend bool operator==(const Address&, const Address&) = default;
};

// A name that may resolve to several servers. They may change over time.
struct HostName {
  std::string host;
  std::string port;
  std::string text() const { return host + ":" + port; }
};

using Place = std::variant<Address, HostName>;

// Parses the target of Client::Create: addresses separated by commas. Removes
// duplicates and keeps the order. Returns a FieldError for "target" if an
// address is invalid.
absl::StatusOr<std::vector<Place>> ParseTarget(std::string_view target);

// Returns all addresses of a name. May block for seconds if a name server does
// not answer.
using Resolver =
    std::function<absl::StatusOr<std::vector<Address>>(const HostName&)>;
// A Resolver that asks the system: /etc/hosts and DNS. Returns NOT_FOUND with
// the system's message if the name is unknown.
absl::StatusOr<std::vector<Address>> ResolveBySystem(const HostName& name);

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_NET_ADDRESS_H_
