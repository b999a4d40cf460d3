#include "proto/net/address.h"

#include <charconv>
#include <cstdint>
#include <string_view>
#include <vector>

#include "fmt/format.h"

namespace quantd::security {
namespace {

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

bool IsUnix(std::string_view address) {
  return address.starts_with("unix:") || address.starts_with("unix-abstract:");
}

// Removes the scheme of "dns:///host:1", "dns:host:1" and "ipv4:1.2.3.4:1". An
// authority ("dns://resolver/host") is kept, so that it does not count as
// loopback.
std::string_view WithoutScheme(std::string_view address) {
  for (const std::string_view scheme : {"dns:", "ipv4:", "ipv6:"}) {
    if (!address.starts_with(scheme)) continue;
    address.remove_prefix(scheme.size());
    if (address.starts_with("///")) address.remove_prefix(3);
    break;
  }
  return address;
}

// The host part of "host:port", "[host]:port" and "host".
std::string_view HostOf(std::string_view address) {
  if (address.starts_with("[")) {
    const size_t end = address.find(']');
    if (end == std::string_view::npos) return "";
    return address.substr(1, end - 1);
  }
  return address.substr(0, address.rfind(':'));
}

bool IsLoopbackHost(std::string_view host) {
  if (host == "localhost" || host == "::1") return true;
  // 127.a.b.c: checking only the first part would also accept a name.
  const std::vector<std::string_view> parts = Split(host, '.');
  if (parts.size() != 4 || parts[0] != "127") return false;
  for (const std::string_view part : parts) {
    if (part.empty() || part.size() > 3 ||
        part.find_first_not_of("0123456789") != std::string_view::npos) {
      return false;
    }
  }
  return true;
}

absl::Status Refused(std::string_view what, std::string_view address,
                     std::string_view why, std::string_view expected) {
  return absl::InvalidArgumentError(
      fmt::format("{} {}: {}; expected {}", what, address, why, expected));
}

absl::Status CheckTcp(std::string_view what, std::string_view address,
                      std::string_view expected) {
  const auto parts = SplitHostPort(address);
  if (!parts.ok()) {
    return Refused(what, address, std::string(parts.status().message()),
                   expected);
  }
  const std::string& digits = parts->port;
  uint16_t port = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc() || end != digits.data() + digits.size()) {
    return Refused(what, address, "the port is not a number from 0 to 65535",
                   expected);
  }
  return absl::OkStatus();
}

}  // namespace

bool IsLoopback(std::string_view address) {
  for (const std::string_view one : Split(address, ',')) {
    if (!IsUnix(one) && !IsLoopbackHost(HostOf(WithoutScheme(one)))) {
      return false;
    }
  }
  return true;
}

absl::StatusOr<HostPort> SplitHostPort(std::string_view address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string_view::npos) {
    return absl::InvalidArgumentError("no port");
  }
  std::string_view host = address.substr(0, colon);
  const std::string_view port = address.substr(colon + 1);
  if (port.empty()) return absl::InvalidArgumentError("no port");
  if (port.find(']') != std::string_view::npos) {
    return absl::InvalidArgumentError("no port");  // "[::1]"
  }
  const bool bracketed = host.starts_with('[') && host.ends_with(']');
  if (bracketed) host = host.substr(1, host.size() - 2);
  if (host.empty()) {
    return absl::InvalidArgumentError(
        "no host (0.0.0.0 stands for all addresses)");
  }
  if (bracketed != (host.find(':') != std::string_view::npos)) {
    return absl::InvalidArgumentError(
        "an IPv6 address needs brackets, and other hosts must not have them");
  }
  if (host.find_first_of("[]/@ ") != std::string_view::npos) {
    return absl::InvalidArgumentError("the host has an illegal character");
  }
  return HostPort{std::string(host), std::string(port)};
}

absl::Status CheckTcpAddress(std::string_view what, std::string_view address) {
  return CheckTcp(what, address,
                  "HOST:PORT, such as 127.0.0.1:9151, 0.0.0.0:9151 or [::1]:0 "
                  "(port 0: a free one)");
}

absl::Status CheckListenAddress(std::string_view what,
                                std::string_view address) {
  constexpr std::string_view kExpected = "HOST:PORT, [HOST]:PORT or unix:PATH";
  if (!IsUnix(address)) return CheckTcp(what, address, kExpected);
  if (address.back() != ':') return absl::OkStatus();
  return Refused(what, address, "no path", kExpected);
}

}  // namespace quantd::security
