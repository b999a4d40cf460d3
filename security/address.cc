#include "security/address.h"

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

// "dns:///host:1", "dns:host:1", "ipv4:1.2.3.4:1" without what stands before
// the host. An authority ("dns://resolver/host") stays, and is no loopback.
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
  // 127.a.b.c: digits alone would also allow a name.
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

}  // namespace

bool IsLoopback(std::string_view address) {
  for (const std::string_view one : Split(address, ',')) {
    if (!IsUnix(one) && !IsLoopbackHost(HostOf(WithoutScheme(one)))) {
      return false;
    }
  }
  return true;
}

absl::Status CheckListenAddress(std::string_view flag,
                                std::string_view address) {
  const auto refuse = [&](std::string_view why) {
    return absl::InvalidArgumentError(
        fmt::format("{} {}: {}; expected HOST:PORT, [HOST]:PORT or unix:PATH",
                    flag, address, why));
  };
  if (IsUnix(address)) {
    return address.back() == ':' ? refuse("no path") : absl::OkStatus();
  }
  const size_t colon = address.rfind(':');
  if (colon == std::string_view::npos) return refuse("no port");
  const std::string_view digits = address.substr(colon + 1);
  uint32_t port = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc() || end != digits.data() + digits.size() ||
      port > 65535) {
    return refuse("the port is not a number from 0 to 65535");
  }
  const std::string_view host = address.substr(0, colon);
  const bool bracketed = host.starts_with("[") && host.ends_with("]");
  if (host.empty()) return refuse("no host (0.0.0.0 is every address)");
  if (!bracketed && host.find(':') != std::string_view::npos) {
    return refuse("an IPv6 address needs brackets");
  }
  return absl::OkStatus();
}

}  // namespace quantd::security
