#include "server/observe/probe.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/client_unary_call.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "fmt/format.h"
#include "proto/net/pem.h"
#include "proto/net/received_message.h"
#include "server/net/credentials.h"

namespace quantd {
namespace {

constexpr int kServing = 0;
constexpr int kNotServing = 1;
constexpr int kBadOptions = 2;

// A server at its limit of connections closes some that have no call yet,
// perhaps this one. So the probe tries several times, for two seconds in all.
constexpr int kAttempts = 40;
constexpr absl::Duration kPause = absl::Milliseconds(50);

// HealthCheckResponse {SERVING}.
constexpr char kServingReply[] = "\x08\x01";

// The address at which this machine reaches the server; a free port is read
// from the port file.
absl::StatusOr<std::string> AddressOf(const ServerOptions& options) {
  std::string address = options.listen;
  if (address.ends_with(":0") && !address.starts_with("unix")) {
    if (options.port_file.empty()) {
      return absl::InvalidArgumentError(
          "--listen names no port; give the --port-file of the server");
    }
    // Written once the server serves, so a missing file means that it does not.
    const auto text = security::ReadSmallFile(
        "--port-file " + options.port_file, options.port_file);
    if (!text.ok()) return absl::UnavailableError(text.status().message());
    address = text->substr(0, text->find('\n'));
  }
  if (address.starts_with("0.0.0.0:")) address.replace(0, 7, "127.0.0.1");
  if (address.starts_with("[::]:")) address.replace(0, 4, "[::1]");
  return address;
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> CredentialsFor(
    const ServerOptions& options, const ProbeOptions& probe) {
  using namespace grpc::experimental;  // NOLINT: its names say so already
  if (!options.tls.used()) return grpc::InsecureChannelCredentials();
  TlsFiles shown = options.tls;
  shown.client_ca.clear();
  if (!probe.certificate.empty() || !probe.key.empty()) {
    shown.certificate = probe.certificate;
    shown.key = probe.key;
  }
  const auto identity = TlsIdentity::Load(shown);
  if (!identity.ok()) return identity.status();
  const auto provider = std::make_shared<StaticDataCertificateProvider>(
      identity->certificate,
      std::vector<IdentityKeyCertPair>{{identity->key, identity->certificate}});
  TlsChannelCredentialsOptions tls;
  tls.set_certificate_provider(provider);
  tls.watch_root_certs();
  tls.watch_identity_key_cert_pairs();
  tls.set_verify_server_certs(false);
  tls.set_certificate_verifier(std::make_shared<NoOpCertificateVerifier>());
  tls.set_check_call_host(false);
  return TlsCredentials(tls);
}

grpc::Status Check(const std::shared_ptr<grpc::Channel>& channel,
                   absl::Time deadline, std::string* reply) {
  using grpc::internal::RpcMethod;
  using Bytes = grpc::ByteBuffer;
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(deadline));
  const RpcMethod method("/grpc.health.v1.Health/Check", RpcMethod::NORMAL_RPC);
  ReceivedMessage answer;
  const grpc::Status status =
      grpc::internal::BlockingUnaryCall<Bytes, Bytes, Bytes, Bytes>(
          channel.get(), method, &context, Bytes(nullptr, 0), answer.buffer());
  for (const std::string_view piece : answer.Pieces()) *reply += piece;
  return status;
}

}  // namespace

ProbeResult Probe(const ServerOptions& options, const ProbeOptions& probe) {
  const auto bad = [](const absl::Status& status) {
    return ProbeResult{kBadOptions, std::string(status.message())};
  };
  if (auto s = Validate(options); !s.ok()) return bad(s);
  const auto address = AddressOf(options);
  if (absl::IsUnavailable(address.status())) {
    return {kNotServing, std::string(address.status().message())};
  }
  if (!address.ok()) return bad(address.status());
  const auto credentials = CredentialsFor(options, probe);
  if (!credentials.ok()) return bad(credentials.status());
  grpc::ChannelArguments arguments;
  // A proxy named in the environment cannot reach this machine's loopback.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // Each attempt dials anew, without gRPC's backoff.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  const absl::Time deadline = absl::Now() + probe.timeout;
  std::string reply;
  grpc::Status status;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    status = Check(grpc::CreateCustomChannel(*address, *credentials, arguments),
                   deadline, &reply);
    if (status.error_code() != grpc::UNAVAILABLE ||
        absl::Now() + kPause >= deadline) {
      break;
    }
    absl::SleepFor(kPause);
  }
  if (!status.ok()) {
    const bool may_be_certificate =
        !options.tls.client_ca.empty() && probe.certificate.empty();
    return {
        kNotServing,
        fmt::format("no answer from {}: {}{}", *address, status.error_message(),
                    may_be_certificate
                        ? " (if the server does not take its own "
                          "certificate as a client's, give --probe-cert "
                          "and --probe-key)"
                        : "")};
  }
  if (reply != kServingReply) {
    return {kNotServing, fmt::format("{} is not serving", *address)};
  }
  return {kServing, fmt::format("{} is serving", *address)};
}

}  // namespace quantd
