#include "client/net/address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>

#include "fmt/format.h"
#include "proto/net/address.h"
#include "quantd/field_error.h"

namespace quantd::client {
namespace {

absl::Status NoAddress(std::string_view got) {
  return FieldError("target",
                    "addresses like 127.0.0.1:50151, NAME:50151 or unix:/PATH "
                    "with commas between them",
                    got.empty() ? "an empty address" : std::string(got));
}

bool TakePrefix(std::string_view* text, std::string_view prefix) {
  if (!text->starts_with(prefix)) return false;
  text->remove_prefix(prefix.size());
  return true;
}

std::string_view Trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

bool IsNumeric(const std::string& host) {
  in6_addr binary;
  return inet_pton(AF_INET, host.c_str(), &binary) == 1 ||
         host.find(':') != std::string::npos;
}

// The URI schemes that gRPC resolves itself.
bool IsScheme(std::string_view word) {
  for (std::string_view known :
       {"unix", "unix-abstract", "ipv4", "ipv6", "vsock", "xds"}) {
    if (word == known) return true;
  }
  return false;
}

// Whether the port is a number or the name of a service.
bool IsPort(std::string_view text) {
  return text.find_first_not_of("0123456789abcdefghijklmnopqrstuvwxyz-") ==
         std::string_view::npos;
}

absl::StatusOr<Place> ParseOne(std::string_view text) {
  // "dns://SERVER/NAME" names a name server, so gRPC resolves it.
  std::string_view rest = text;
  if (TakePrefix(&rest, "dns:")) {
    if (TakePrefix(&rest, "//") && !TakePrefix(&rest, "/")) {
      return Address{std::string(text), ""};
    }
  } else if (const size_t colon = text.find(':');
             colon != std::string_view::npos &&
             IsScheme(text.substr(0, colon))) {
    if (colon + 1 == text.size()) return NoAddress(text);
    return Address{std::string(text), ""};
  }
  const auto name = security::SplitHostPort(rest);
  if (!name.ok() || !IsPort(name->port)) return NoAddress(text);
  if (IsNumeric(name->host)) return Address{std::string(rest), ""};
  return HostName{name->host, name->port};
}

std::string TextOf(const Place& place) {
  return std::visit([](const auto& p) { return p.text(); }, place);
}

}  // namespace

std::string Address::text() const {
  return authority.empty() ? target : fmt::format("{} ({})", authority, target);
}

absl::StatusOr<std::vector<Place>> ParseTarget(std::string_view target) {
  std::vector<Place> places;
  for (bool more = true; more;) {
    const size_t comma = target.find(',');
    auto place = ParseOne(Trimmed(target.substr(0, comma)));
    more = comma != std::string_view::npos;
    if (more) target.remove_prefix(comma + 1);
    if (!place.ok()) return place.status();
    const bool known = std::any_of(
        places.begin(), places.end(),
        [&](const Place& p) { return TextOf(p) == TextOf(*place); });
    if (!known) places.push_back(*std::move(place));
  }
  return places;
}

absl::StatusOr<std::vector<Address>> ResolveBySystem(const HostName& name) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_ADDRCONFIG;
  addrinfo* first = nullptr;
  const int error =
      getaddrinfo(name.host.c_str(), name.port.c_str(), &hints, &first);
  if (error != 0) {
    return absl::NotFoundError(
        fmt::format("the name does not resolve: {}", gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> list(first,
                                                                &freeaddrinfo);
  std::vector<Address> addresses;
  for (const addrinfo* a = first; a != nullptr; a = a->ai_next) {
    char host[NI_MAXHOST];
    char port[NI_MAXSERV];
    if (getnameinfo(a->ai_addr, a->ai_addrlen, host, sizeof host, port,
                    sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
      continue;
    }
    std::string text = host;
    if (a->ai_family == AF_INET6) {
      // gRPC treats a % as the start of an escape, so the zone's % is escaped.
      if (const size_t zone = text.find('%'); zone != std::string::npos) {
        text.replace(zone, 1, "%25");
      }
      text = fmt::format("ipv6:[{}]:{}", text, port);
    } else {
      text = fmt::format("ipv4:{}:{}", text, port);
    }
    addresses.push_back({std::move(text), name.text()});
  }
  if (addresses.empty()) {
    return absl::NotFoundError("the name has no address");
  }
  return addresses;
}

}  // namespace quantd::client
