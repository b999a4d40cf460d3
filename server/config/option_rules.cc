// Which options go together.
#include <cmath>
#include <string>
#include <utility>

#include "fmt/format.h"
#include "kernels/device/budget.h"
#include "proto/limits.h"
#include "proto/net/address.h"
#include "server/config/options.h"
#include "server/memory/peers.h"

namespace quantd {
namespace {

constexpr size_t kMostMemory = size_t{1} << 50;

absl::Status ValidateSecurity(const ServerOptions& options) {
  const TlsFiles& tls = options.tls;
  const auto refuse = [](const std::string& text) {
    return absl::InvalidArgumentError(text);
  };
  for (const auto& [flag, value] : {std::pair{"--tls-key", tls.key},
                                    {"--token-file", options.token_file}}) {
    if (LooksLikeSecret(value)) {
      return refuse(fmt::format(
          "{} takes the name of a file; what was given looks like the secret "
          "itself (not repeated here)",
          flag));
    }
  }
  if (tls.certificate.empty() != tls.key.empty()) {
    return refuse(
        fmt::format("--tls-cert and --tls-key belong together: {} is missing",
                    tls.key.empty() ? "--tls-key" : "--tls-cert"));
  }
  if (!tls.client_ca.empty() && !tls.used()) {
    return refuse("--tls-client-ca needs --tls-cert and --tls-key");
  }
  if (tls.used() && options.insecure) {
    return refuse(
        "--insecure asks for plain text and --tls-cert for TLS: leave one out");
  }
  if (security::IsLoopback(options.listen) || tls.used()) {
    return absl::OkStatus();
  }
  if (!options.token_file.empty()) {
    return refuse(fmt::format(
        "--token-file: on {}, which other machines can reach, tokens would "
        "travel in clear; they need --tls-cert and --tls-key",
        options.listen));
  }
  if (!options.insecure) {
    return refuse(fmt::format(
        "--listen {} can be reached from other machines: give --tls-cert and "
        "--tls-key, listen on 127.0.0.1 or unix:PATH, or say --insecure if "
        "everybody on the network may read, change and send anything",
        options.listen));
  }
  return absl::OkStatus();
}

absl::Status ValidateSharedMemory(const ServerOptions& options) {
  if (options.memory_socket.empty()) return absl::OkStatus();
  if (auto s = security::CheckListenAddress("--memory-socket",
                                            "unix:" + options.memory_socket);
      !s.ok()) {
    return s;
  }
  return FindMemoryPeers(options.memory_peers).status();
}

}  // namespace

absl::Status Validate(const ServerOptions& options) {
  if (auto s = security::CheckListenAddress("--listen", options.listen);
      !s.ok()) {
    return s;
  }
  if (auto s = ValidateSecurity(options); !s.ok()) return s;
  if (!options.metrics_address.empty()) {
    if (auto s = security::CheckTcpAddress("--metrics-address",
                                           options.metrics_address);
        !s.ok()) {
      return s;
    }
  }
  if (auto s = ValidateSharedMemory(options); !s.ok()) return s;
  if (!std::isfinite(options.estimate)) {
    return absl::InvalidArgumentError("--estimate: expected a finite number");
  }
  if (options.max_request_bytes > wire::kMaxMessageBytes) {
    return absl::InvalidArgumentError(
        fmt::format("--max-request-bytes: gRPC allows at most {} bytes",
                    wire::kMaxMessageBytes));
  }
  if (options.memory_budget != 0 && options.memory_budget < kLeastBudget) {
    return absl::InvalidArgumentError(
        "--memory-budget: expected at least 16MiB");
  }
  // Sums and products of them must not overflow.
  for (const auto& [flag, bytes] :
       {std::pair{"--memory-budget", options.memory_budget},
        {"--shared-memory-limit", options.shared_memory_limit}}) {
    if (bytes > kMostMemory) {
      return absl::InvalidArgumentError(
          fmt::format("{}: expected at most 1024TiB", flag));
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
