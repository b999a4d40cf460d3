#include "server/net/credentials.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <string_view>
#include <tuple>
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

// The caller named by the client certificate, or null.
std::shared_ptr<const Caller> CertificateOf(
    const TlsFiles& files, const grpc::ServerContext& context) {
  constexpr size_t kMostOfName = 256;
  if (files.client_ca.empty()) return nullptr;
  const auto peer = context.auth_context();
  if (peer == nullptr) return nullptr;
  const auto subjects =
      peer->FindPropertyValues(GRPC_X509_SUBJECT_PROPERTY_NAME);
  if (subjects.empty()) return nullptr;
  const std::string_view subject(subjects.front().data(),
                                 subjects.front().size());
  auto caller = std::make_shared<Caller>();
  caller->identity =
      fmt::format("certificate:{}", subject.substr(0, kMostOfName));
  return caller;
}

// absl::Now lags by up to two seconds after the clock was set, perhaps just
// before a certificate was renewed.
absl::Time WallNow() {
  return absl::FromChrono(std::chrono::system_clock::now());
}

// Changes when a file is replaced, written, created or removed.
std::string SignatureOf(const std::vector<std::string>& paths) {
  std::string signature;
  for (const std::string& path : paths) {
    struct stat s = {};
    if (stat(path.c_str(), &s) != 0) s.st_size = -errno;
    signature += fmt::format("{} {} {} {}.{} {}.{};", s.st_dev, s.st_ino,
                             s.st_size, s.st_mtim.tv_sec, s.st_mtim.tv_nsec,
                             s.st_ctim.tv_sec, s.st_ctim.tv_nsec);
  }
  return signature;
}

}  // namespace

// Gives a ServerBuilder credentials that can change: gRPC has them in its C API
// but not in C++.
class PortCredentials final : public grpc::ServerCredentials {
 public:
  using Owner = quantd::ServerCredentials;  // not the base class

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

  // Called before each handshake, on any thread.
  static grpc_ssl_certificate_config_reload_status Fetch(
      void* self, grpc_ssl_server_certificate_config** config) {
    auto& port = *static_cast<PortCredentials*>(self);
    const auto tls = port.owner_->tls();
    absl::MutexLock lock(&port.mutex_);
    if (tls == port.given_) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    const grpc_ssl_pem_key_cert_pair pair = {tls->key.c_str(),
                                             tls->certificate.c_str()};
    // gRPC insists on roots even if no client certificate is asked for; they
    // are then unused.
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
  TlsIdentity tls;
  const std::tuple<const char*, const std::string&, std::string&> read[] = {
      {"--tls-cert", files.certificate, tls.certificate},
      {"--tls-key", files.key, tls.key},
      {"--tls-client-ca", files.client_ca, tls.client_ca}};
  std::string what[3];
  for (int i = 0; i < 3; ++i) {
    const auto& [flag, path, to] = read[i];
    what[i] = fmt::format("{} {}", flag, path);
    if (i == 2 && path.empty()) continue;
    auto text = security::ReadSmallFile(what[i], path);
    if (!text.ok()) return text.status();
    to = *std::move(text);
  }
  const auto facts = security::CheckIdentity(what[0], tls.certificate, what[1],
                                             tls.key, WallNow());
  if (!facts.ok()) return facts.status();
  tls.subject = facts->subject;
  tls.expires = facts->expires;
  if (!tls.client_ca.empty()) {
    auto s = security::CheckAuthorities(what[2], tls.client_ca, WallNow());
    if (!s.ok()) return s;
  }
  return tls;
}

ServerCredentials::ServerCredentials(const ServerOptions& options)
    : files_(options.tls), token_file_(options.token_file) {}

absl::StatusOr<std::unique_ptr<ServerCredentials>> ServerCredentials::Load(
    const ServerOptions& options) {
  std::unique_ptr<ServerCredentials> made(new ServerCredentials(options));
  const TlsFiles& tls = options.tls;
  for (Source source : {Source{{tls.certificate, tls.key, tls.client_ca},
                               &ServerCredentials::ReadTls,
                               "certificate_kept"},
                        Source{{options.token_file},
                               &ServerCredentials::ReadTokens,
                               "tokens_kept"}}) {
    std::erase(source.paths, "");
    if (source.paths.empty()) continue;
    if (auto s = (made.get()->*source.read)(); !s.ok()) {
      return absl::InvalidArgumentError(s.message());
    }
    made->sources_.push_back(std::move(source));
  }
  if (!made->sources_.empty()) {
    made->thread_ = std::thread(&ServerCredentials::Watch, made.get(),
                                options.reload_interval);
  }
  return made;
}

ServerCredentials::~ServerCredentials() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    wanted_.SignalAll();
  }
  if (thread_.joinable()) thread_.join();
}

void ServerCredentials::Reload() {
  absl::MutexLock lock(&mutex_);
  reload_ = true;
  wanted_.SignalAll();
}

void ServerCredentials::Watch(absl::Duration interval) {
  while (true) {
    bool at_once = false;
    {
      absl::MutexLock lock(&mutex_);
      const auto wanted = [this] { return stopping_ || reload_; };
      wanted_.WaitUntil(&mutex_, SteadyNow() + interval, wanted);
      if (stopping_) return;
      std::swap(at_once, reload_);
    }
    for (Source& source : sources_) {
      const std::string now = SignatureOf(source.paths);
      // Two looks must agree: a key and its certificate, written one after the
      // other, count as one change.
      const bool steady = now == std::exchange(source.last, now);
      if (!at_once && (!steady || now == source.told)) continue;
      source.told = now;
      if (auto s = (this->*source.read)(); !s.ok()) {
        Log(LogLevel::kWarn, source.kept,
            {{"error", std::string(s.message())}});
      }
    }
  }
}

Verdict ServerCredentials::Judge(std::string_view path,
                                 const grpc::ServerContext& context,
                                 std::string_view peer) {
  const auto tokens = token_hashes();
  if (path.starts_with(kHealth)) return {};
  if (tokens == nullptr) return {CertificateOf(files_, context), std::nullopt};
  const auto [first, last] =
      context.client_metadata().equal_range("authorization");
  // The last of several, as usual for an HTTP header that should appear once.
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
  // The method within a stream is known from its first message.
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

absl::Status ServerCredentials::ReadTls() {
  auto fresh = TlsIdentity::Load(files_);
  if (!fresh.ok()) return fresh.status();
  const auto current = tls();
  if (current != nullptr && *fresh == *current) return absl::OkStatus();
  const std::string expires =
      absl::FormatTime(fresh->expires, absl::UTCTimeZone());
  const absl::Duration left = fresh->expires - WallNow();
  if (left <= kExpiresSoon) {
    Log(LogLevel::kWarn, "certificate_expires_soon",
        {{"subject", fresh->subject},
         {"expires", expires},
         {"hours_left", absl::ToInt64Hours(left)}});
  }
  if (current != nullptr) {
    Log(LogLevel::kInfo, "certificate_reloaded",
        {{"subject", fresh->subject}, {"expires", expires}});
  }
  absl::MutexLock lock(&mutex_);
  tls_ = std::make_shared<const TlsIdentity>(*std::move(fresh));
  return absl::OkStatus();
}

absl::Status ServerCredentials::ReadTokens() {
  auto fresh = TokenHashes::Load(token_file_);
  if (!fresh.ok()) return fresh.status();
  const auto current = token_hashes();
  if (current != nullptr) {
    if (*fresh == *current) return absl::OkStatus();
    Log(LogLevel::kInfo, "tokens_reloaded", {{"tokens", fresh->size()}});
  }
  absl::MutexLock lock(&mutex_);
  tokens_ = std::make_shared<const TokenHashes>(*std::move(fresh));
  return absl::OkStatus();
}

std::shared_ptr<grpc::ServerCredentials> ServerCredentials::ForPort() {
  port_ = files_.used() ? std::make_shared<PortCredentials>(this)
                        : grpc::InsecureServerCredentials();
  return port_;
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
