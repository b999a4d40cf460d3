#include "server/net/credentials.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "fmt/format.h"
#include "proto/net/pem.h"
#include "server/observe/log.h"

namespace quantd {
namespace {

constexpr absl::Duration kExpiresSoon = absl::Hours(24 * 14);
constexpr std::string_view kHealth = "/grpc.health.v1.Health/";

// Who showed a certificate that was asked for.
std::shared_ptr<const Caller> CertificateOf(
    const TlsFiles& files, const grpc::ServerContext& context) {
  constexpr size_t kMostOfName = 256;
  if (files.client_ca.empty()) return nullptr;
  const auto peer = context.auth_context();
  if (peer == nullptr) return nullptr;
  for (const char* property :
       {GRPC_X509_SUBJECT_PROPERTY_NAME, GRPC_X509_CN_PROPERTY_NAME}) {
    const auto values = peer->FindPropertyValues(property);
    if (values.empty()) continue;
    auto caller = std::make_shared<Caller>();
    caller->identity = fmt::format(
        "certificate:{}",
        std::string_view(values.front().data(),
                         std::min(values.front().size(), kMostOfName)));
    return caller;
  }
  return nullptr;
}

// absl's own is late by up to two seconds after somebody has set the clock, who
// may renew the certificate in the same breath.
absl::Time WallNow() {
  return absl::FromChrono(std::chrono::system_clock::now());
}

void WarnOfExpiry(const TlsIdentity& tls) {
  const absl::Duration left = tls.expires - WallNow();
  if (left > kExpiresSoon) return;
  Log(LogLevel::kWarn, "certificate_expires_soon",
      {{"subject", tls.subject},
       {"expires", absl::FormatTime(tls.expires, absl::UTCTimeZone())},
       {"hours_left", absl::ToInt64Hours(left)}});
}

}  // namespace

// gRPC's C++ layer has no server credentials that change, its C layer has:
// this brings them to a ServerBuilder.
class PortCredentials final : public grpc::ServerCredentials {
 public:
  using Owner = quantd::ServerCredentials;  // not the base

  explicit PortCredentials(Owner* owner) : owner_(owner) {
    const auto tls = owner_->tls();
    credentials_ = grpc_ssl_server_credentials_create_with_options(
        grpc_ssl_server_credentials_create_options_using_config_fetcher(
            tls->client_ca.empty()
                ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY,
            &PortCredentials::Fetch, this));
  }
  ~PortCredentials() override { grpc_server_credentials_release(credentials_); }

  void SetAuthMetadataProcessor(
      const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 private:
  int AddPortToServer(const std::string& address,
                      grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  // Before each handshake. Any thread.
  static grpc_ssl_certificate_config_reload_status Fetch(
      void* self, grpc_ssl_server_certificate_config** config) {
    auto& port = *static_cast<PortCredentials*>(self);
    const auto tls = port.owner_->tls();
    absl::MutexLock lock(&port.mutex_);
    if (tls == port.given_) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    const grpc_ssl_pem_key_cert_pair pair = {tls->key.c_str(),
                                             tls->certificate.c_str()};
    // gRPC insists on roots here even where no client is asked for a
    // certificate; then they are not looked at.
    const std::string& roots =
        tls->client_ca.empty() ? tls->certificate : tls->client_ca;
    *config =
        grpc_ssl_server_certificate_config_create(roots.c_str(), &pair, 1);
    port.given_ = tls;
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  }

  Owner* const owner_;
  grpc_server_credentials* credentials_ = nullptr;
  absl::Mutex mutex_;
  std::shared_ptr<const TlsIdentity> given_ ABSL_GUARDED_BY(mutex_);
};

absl::StatusOr<TlsIdentity> TlsIdentity::Load(const TlsFiles& files) {
  const std::string certificate =
      fmt::format("--tls-cert {}", files.certificate);
  const std::string key = fmt::format("--tls-key {}", files.key);
  auto certificate_pem =
      security::ReadSmallFile(certificate, files.certificate);
  if (!certificate_pem.ok()) return certificate_pem.status();
  auto key_pem = security::ReadSmallFile(key, files.key);
  if (!key_pem.ok()) return key_pem.status();
  const auto facts = security::CheckIdentity(certificate, *certificate_pem, key,
                                             *key_pem, WallNow());
  if (!facts.ok()) return facts.status();
  TlsIdentity tls{*std::move(certificate_pem), *std::move(key_pem), "",
                  facts->subject, facts->expires};
  if (files.client_ca.empty()) return tls;
  const std::string ca = fmt::format("--tls-client-ca {}", files.client_ca);
  auto ca_pem = security::ReadSmallFile(ca, files.client_ca);
  if (!ca_pem.ok()) return ca_pem.status();
  if (auto s = security::CheckAuthorities(ca, *ca_pem, WallNow()); !s.ok()) {
    return s;
  }
  tls.client_ca = *std::move(ca_pem);
  return tls;
}

ServerCredentials::ServerCredentials(const ServerOptions& options)
    : files_(options.tls), token_file_(options.token_file) {}

ServerCredentials::~ServerCredentials() = default;

absl::StatusOr<std::unique_ptr<ServerCredentials>> ServerCredentials::Load(
    const ServerOptions& options) {
  std::unique_ptr<ServerCredentials> made(new ServerCredentials(options));
  const auto invalid = [](const absl::Status& status) {
    return absl::InvalidArgumentError(status.message());
  };
  std::vector<WatchedFiles> groups;
  absl::MutexLock lock(&made->mutex_);
  if (options.tls.used()) {
    auto tls = TlsIdentity::Load(options.tls);
    if (!tls.ok()) return invalid(tls.status());
    WarnOfExpiry(*tls);
    made->tls_ = std::make_shared<const TlsIdentity>(*std::move(tls));
    WatchedFiles group{{options.tls.certificate, options.tls.key},
                       [self = made.get()] { self->ReloadTls(); }};
    if (!options.tls.client_ca.empty()) {
      group.paths.push_back(options.tls.client_ca);
    }
    groups.push_back(std::move(group));
  }
  if (!options.token_file.empty()) {
    auto tokens = TokenHashes::Load(options.token_file);
    if (!tokens.ok()) return invalid(tokens.status());
    made->tokens_ = std::make_shared<const TokenHashes>(*std::move(tokens));
    groups.push_back(
        {{options.token_file}, [self = made.get()] { self->ReloadTokens(); }});
  }
  made->watch_.emplace(std::move(groups), options.reload_interval);
  return made;
}

Verdict ServerCredentials::Judge(std::string_view path,
                                 const grpc::ServerContext& context,
                                 std::string_view peer) {
  const auto tokens = token_hashes();
  if (path.starts_with(kHealth)) return {};
  if (tokens == nullptr) return {CertificateOf(files_, context), std::nullopt};
  const auto [first, last] =
      context.client_metadata().equal_range("authorization");
  // Of several the last, as anywhere in HTTP where there should be one.
  std::string_view token;
  for (auto it = first; it != last; ++it) {
    token = BearerToken({it->second.data(), it->second.size()});
  }
  const Caller* const caller = token.empty() ? nullptr : tokens->Find(token);
  if (caller == nullptr) {
    return {nullptr,
            Refuse(token.empty() ? TokenFault::kMissing : TokenFault::kUnknown,
                   path, "", peer)};
  }
  const wire::MethodSpec* const ours = wire::FindMethod(path);
  // What a stream carries is known by its first message.
  const bool may = ours == nullptr || ours->method == wire::Method::kStream ||
                   caller->May(ours->method);
  if (!may) {
    return {nullptr,
            Refuse(TokenFault::kForbidden, path, caller->identity, peer)};
  }
  return {std::shared_ptr<const Caller>(tokens, caller), std::nullopt};
}

Failure ServerCredentials::Forbid(wire::Method method, const Caller& caller,
                                  std::string_view peer) {
  return Refuse(TokenFault::kForbidden, wire::SpecOf(method).path,
                caller.identity, peer);
}

Failure ServerCredentials::Refuse(TokenFault fault, std::string_view path,
                                  std::string_view who, std::string_view peer) {
  ++refused_[static_cast<size_t>(fault)];
  const bool forbidden = fault == TokenFault::kForbidden;
  const char* const why =
      forbidden ? "the token may not call this method"
      : fault == TokenFault::kMissing
          ? "this server wants a bearer token: send the metadata "
            "\"authorization: Bearer TOKEN\""
          : "this server does not know the bearer token";
  LogSampled(LogLevel::kInfo, forbidden ? "forbidden" : "unauthenticated", why,
             {{"path", path.substr(0, 64)},
              {"peer", peer},
              {"caller", who},
              {"error", why}});
  return Failure::Of(forbidden ? grpc::StatusCode::PERMISSION_DENIED
                               : grpc::StatusCode::UNAUTHENTICATED,
                     why);
}

void ServerCredentials::ReloadTls() {
  auto fresh = TlsIdentity::Load(files_);
  if (!fresh.ok()) {
    Log(LogLevel::kWarn, "certificate_kept",
        {{"error", std::string(fresh.status().message())},
         {"serving", tls()->subject},
         {"expires", absl::FormatTime(tls()->expires, absl::UTCTimeZone())}});
    return;
  }
  const auto current = tls();
  if (fresh->certificate == current->certificate &&
      fresh->key == current->key && fresh->client_ca == current->client_ca) {
    return;
  }
  WarnOfExpiry(*fresh);
  Log(LogLevel::kInfo, "certificate_reloaded",
      {{"subject", fresh->subject},
       {"expires", absl::FormatTime(fresh->expires, absl::UTCTimeZone())}});
  absl::MutexLock lock(&mutex_);
  tls_ = std::make_shared<const TlsIdentity>(*std::move(fresh));
}

void ServerCredentials::ReloadTokens() {
  auto fresh = TokenHashes::Load(token_file_);
  if (!fresh.ok()) {
    Log(LogLevel::kWarn, "tokens_kept",
        {{"error", std::string(fresh.status().message())},
         {"tokens", tokens()}});
    return;
  }
  if (*fresh == *token_hashes()) return;
  Log(LogLevel::kInfo, "tokens_reloaded", {{"tokens", fresh->size()}});
  absl::MutexLock lock(&mutex_);
  tokens_ = std::make_shared<const TokenHashes>(*std::move(fresh));
}

std::shared_ptr<const TlsIdentity> ServerCredentials::tls() const {
  absl::MutexLock lock(&mutex_);
  return tls_;
}

std::shared_ptr<const TokenHashes> ServerCredentials::token_hashes() const {
  absl::MutexLock lock(&mutex_);
  return tokens_;
}

std::shared_ptr<grpc::ServerCredentials> ServerCredentials::ForPort() {
  if (tls() == nullptr) {
    return grpc::InsecureServerCredentials();
  }
  auto port = std::make_shared<PortCredentials>(this);
  absl::MutexLock lock(&mutex_);
  ports_.push_back(port);
  return port;
}

std::string ServerCredentials::transport() const {
  if (!files_.used()) return "plain";
  return files_.client_ca.empty() ? "tls" : "mtls";
}

size_t ServerCredentials::tokens() const {
  const auto tokens = token_hashes();
  return tokens == nullptr ? 0 : tokens->size();
}

}  // namespace quantd
