#include "client/net/channel_credentials.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/time/clock.h"
#include "fmt/format.h"
#include "proto/net/address.h"
#include "proto/net/pem.h"
#include "quantd/field_error.h"

namespace quantd::client {
namespace {

constexpr char kCa[] = "credentials.ca_file";
constexpr char kCertificate[] = "credentials.certificate_file";
constexpr char kKey[] = "credentials.key_file";
constexpr char kToken[] = "credentials.token";
constexpr char kTokenFile[] = "credentials.token_file";

// Turns the error for an unusable file into a FieldError.
absl::Status Refuse(const char* field, const absl::Status& status) {
  return FieldError(field, "a usable file", std::string(status.message()));
}

// The characters of a token in RFC 6750. Other characters could end the header.
bool IsToken(std::string_view text) {
  for (const unsigned char c : text) {
    if (!absl::ascii_isalnum(c) &&
        std::string_view("-._~+/=").find(c) == std::string_view::npos) {
      return false;
    }
  }
  return !text.empty();
}

absl::StatusOr<std::string> LoadToken(const Credentials& credentials) {
  std::string token = credentials.token;
  if (!credentials.token_file.empty()) {
    if (!token.empty()) {
      return FieldError(kToken, "only one of token and token_file", "both");
    }
    auto text =
        security::ReadSmallFile(credentials.token_file, credentials.token_file);
    if (!text.ok()) return Refuse(kTokenFile, text.status());
    token = *std::move(text);
    token.erase(token.find_last_not_of(" \t\r\n") + 1);
  } else if (token.empty()) {
    return token;
  }
  if (!IsToken(token)) {
    // The message must not contain the token, which is a secret.
    return FieldError(credentials.token_file.empty() ? kToken : kTokenFile,
                      "letters, digits and -._~+/= on one line",
                      "something else");
  }
  return token;
}

absl::StatusOr<grpc::SslCredentialsOptions> LoadTls(
    const Credentials& credentials) {
  grpc::SslCredentialsOptions ssl;
  const absl::Time now = absl::Now();
  if (!credentials.ca_file.empty()) {
    auto ca = security::ReadSmallFile(credentials.ca_file, credentials.ca_file);
    if (!ca.ok()) return Refuse(kCa, ca.status());
    if (auto s = security::CheckAuthorities(credentials.ca_file, *ca, now);
        !s.ok()) {
      return Refuse(kCa, s);
    }
    ssl.pem_root_certs = *std::move(ca);
  }
  const std::string& certificate_file = credentials.certificate_file;
  const std::string& key_file = credentials.key_file;
  if (certificate_file.empty() != key_file.empty()) {
    return FieldError(key_file.empty() ? kKey : kCertificate,
                      "certificate_file and key_file together", "none");
  }
  if (certificate_file.empty()) return ssl;
  auto certificate =
      security::ReadSmallFile(certificate_file, certificate_file);
  if (!certificate.ok()) return Refuse(kCertificate, certificate.status());
  auto key = security::ReadSmallFile(key_file, key_file);
  if (!key.ok()) return Refuse(kKey, key.status());
  const auto facts = security::CheckIdentity(certificate_file, *certificate,
                                             key_file, *key, now);
  if (!facts.ok()) return Refuse(kCertificate, facts.status());
  ssl.pem_cert_chain = *std::move(certificate);
  ssl.pem_private_key = *std::move(key);
  return ssl;
}

}  // namespace

void ChannelCredentials::Configure(grpc::ChannelArguments* arguments) const {
  if (!server_name.empty()) arguments->SetSslTargetNameOverride(server_name);
}

void ChannelCredentials::Authorize(grpc::ClientContext* context) const {
  if (!authorization.empty()) {
    context->AddMetadata("authorization", authorization);
  }
}

absl::StatusOr<ChannelCredentials> LoadCredentials(
    std::string_view target, const Credentials& credentials) {
  ChannelCredentials made;
  auto token = LoadToken(credentials);
  if (!token.ok()) return token.status();
  const bool tls = credentials.tls || !credentials.ca_file.empty() ||
                   !credentials.certificate_file.empty() ||
                   !credentials.key_file.empty();
  if (!token->empty()) {
    if (!tls && !security::IsLoopback(target)) {
      return FieldError(
          "credentials.tls",
          "TLS, because the token would be sent in plain text to another "
          "machine",
          fmt::format("plain text to {}", target));
    }
    made.authorization = "Bearer " + *token;
  }
  if (!tls) {
    if (!credentials.server_name.empty()) {
      return FieldError("credentials.server_name", "TLS",
                        "plain text, where no certificate has a name");
    }
    made.channel = grpc::InsecureChannelCredentials();
    return made;
  }
  const auto ssl = LoadTls(credentials);
  if (!ssl.ok()) return ssl.status();
  made.channel = grpc::SslCredentials(*ssl);
  made.server_name = credentials.server_name;
  return made;
}

}  // namespace quantd::client
