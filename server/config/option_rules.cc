// Rules about combinations of options.
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "fmt/format.h"
#include "kernels/device/budget.h"
#include "proto/limits.h"
#include "proto/net/address.h"
#include "server/config/options.h"

namespace quantd {
namespace {

constexpr size_t kMostMemory = size_t{1} << 50;

// The user that the kernel shows for all users that a user namespace does not
// map.
constexpr uid_t kNobody = 65534;

// Returns INVALID_ARGUMENT with a message for the operator.
template <typename... Parts>
absl::Status Refuse(fmt::format_string<Parts...> words, Parts&&... parts) {
  return absl::InvalidArgumentError(
      fmt::format(words, std::forward<Parts>(parts)...));
}

absl::Status ValidateSecurity(const ServerOptions& options) {
  const TlsFiles& tls = options.tls;
  for (const auto& [flag, value] : {std::pair{"--tls-key", tls.key},
                                    {"--token-file", options.token_file}}) {
    if (LooksLikeSecret(value)) {
      return Refuse(
          "{} takes the name of a file; what was given looks like the secret "
          "itself (not repeated here)",
          flag);
    }
  }
  if (tls.certificate.empty() != tls.key.empty()) {
    return Refuse("--tls-cert and --tls-key belong together: {} is missing",
                  tls.key.empty() ? "--tls-key" : "--tls-cert");
  }
  if (!tls.client_ca.empty() && !tls.used()) {
    return Refuse("--tls-client-ca needs --tls-cert and --tls-key");
  }
  if (tls.used() && options.insecure) {
    return Refuse(
        "--insecure asks for plain text and --tls-cert for TLS: leave one out");
  }
  if (security::IsLoopback(options.listen) || tls.used()) {
    return absl::OkStatus();
  }
  if (!options.token_file.empty()) {
    return Refuse(
        "--token-file: on {}, which other machines can reach, tokens would "
        "travel in clear; they need --tls-cert and --tls-key",
        options.listen);
  }
  if (!options.insecure) {
    return Refuse(
        "--listen {} can be reached from other machines: give --tls-cert and "
        "--tls-key, listen on 127.0.0.1 or unix:PATH, or say --insecure if "
        "everybody on the network may read, change and send anything",
        options.listen);
  }
  return absl::OkStatus();
}

absl::Status ValidateAddresses(const ServerOptions& options) {
  auto s = security::CheckListenAddress("--listen", options.listen);
  if (s.ok() && !options.metrics_address.empty()) {
    s = security::CheckTcpAddress("--metrics-address", options.metrics_address);
  }
  if (s.ok() && !options.memory_socket.empty()) {
    s = security::CheckListenAddress("--memory-socket",
                                     "unix:" + options.memory_socket);
    if (s.ok()) s = FindMemoryPeers(options.memory_peers).status();
  }
  return s;
}

}  // namespace

absl::StatusOr<std::vector<uid_t>> FindMemoryPeers(
    const std::vector<std::string>& users) {
  std::vector<uid_t> found;
  for (const std::string& user : users) {
    uint32_t number = 0;
    if (absl::SimpleAtoi(user, &number)) {
      found.push_back(number);
      continue;
    }
    passwd entry = {};
    passwd* result = nullptr;
    std::vector<char> text(16 << 10);
    getpwnam_r(user.c_str(), &entry, text.data(), text.size(), &result);
    if (result == nullptr) {
      return Refuse("--memory-peers: expected users of this machine, got '{}'",
                    user);
    }
    found.push_back(entry.pw_uid);
  }
  if (found.empty()) found.push_back(geteuid());
  // Outside of user namespaces one line of the map covers every user.
  std::ifstream map("/proc/self/uid_map");
  const std::string users_known((std::istreambuf_iterator<char>(map)), {});
  if (std::find(found.begin(), found.end(), kNobody) != found.end() &&
      users_known.find(" 4294967295") == std::string::npos) {
    return Refuse(
        "--memory-peers: expected users that this user namespace knows, got "
        "{}, which stands for all others here",
        kNobody);
  }
  return found;
}

absl::Status Validate(const ServerOptions& options) {
  if (auto s = ValidateAddresses(options); !s.ok()) return s;
  if (auto s = ValidateSecurity(options); !s.ok()) return s;
  if (!std::isfinite(options.estimate)) {
    return Refuse("--amax-estimation-scale: expected a finite number");
  }
  if (options.max_request_bytes > wire::kMaxMessageBytes) {
    return Refuse("--max-request-bytes: gRPC allows at most {} bytes",
                  wire::kMaxMessageBytes);
  }
  if (options.memory_budget != 0 && options.memory_budget < kLeastBudget) {
    return Refuse("--memory-budget: expected at least 16MiB");
  }
  // Sums and products of these two must not overflow.
  for (const auto& [flag, bytes] :
       {std::pair("--memory-budget", options.memory_budget),
        std::pair("--shared-memory-limit", options.shared_memory_limit)}) {
    if (bytes > kMostMemory) {
      return Refuse("{}: expected at most 1024TiB", flag);
    }
  }
  return absl::OkStatus();
}

std::string StartWarning(const ServerOptions& options) {
  if (security::IsLoopback(options.listen) || !options.tls.client_ca.empty() ||
      !options.trusted_proxies.empty()) {
    return "";
  }
  return "clients without a certificate can open HTTP/2 here and take memory "
         "with it: ask for certificates (--tls-client-ca) or put an edge in "
         "front (deploy/edge)";
}

}  // namespace quantd
