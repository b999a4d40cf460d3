
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "client/quantctl/flags.h"
#include "fmt/format.h"

namespace quantd::quantctl {
namespace {

constexpr char kServer[] = "Server";

// Parses a transport other than device memory, which no command uses, because
// files are read into host memory.
std::optional<Transport> ParseTransport(std::string_view text) {
  for (const Transport t : {Transport::kTcp, Transport::kUnix,
                            Transport::kShared, Transport::kLocal}) {
    if (text == Name(t)) return t;
  }
  return std::nullopt;
}

// Adds the default port to addresses without one.
std::string WithPorts(std::string_view addresses) {
  std::string text;
  while (true) {
    const std::string_view one = addresses.substr(0, addresses.find(','));
    text += one;
    // An IPv6 address without a port ends with ']'.
    const bool bare =
        one.find(':') == std::string_view::npos || one.ends_with(']');
    if (bare && !one.empty() && one != "local") {
      text += fmt::format(":{}", kDefaultPort);
    }
    if (one.size() == addresses.size()) return text;
    text += ',';
    addresses.remove_prefix(one.size() + 1);
  }
}

void AddCredentials(CLI::App* app, Credentials* credentials) {
  Credentials& c = *credentials;
  const auto file = [&](const char* flag, std::string* path, const char* help,
                        const char* variable) {
    Add(app, flag, path, "FILE", help)->envname(variable)->group(kServer);
  };
  app->add_flag("--tls", c.tls,
                "Use TLS and trust the certificate authorities of the system")
      ->envname("QUANTD_CLIENT_TLS")
      ->group(kServer);
  file("--tls-ca", &c.ca_file,
       "Use TLS and trust only the certificate authorities in this file",
       "QUANTD_CLIENT_TLS_CA");
  file("--tls-cert", &c.certificate_file,
       "Client certificate, for servers that require one",
       "QUANTD_CLIENT_TLS_CERT");
  file("--tls-key", &c.key_file, "Private key of the client certificate",
       "QUANTD_CLIENT_TLS_KEY");
  Add(app, "--tls-name", &c.server_name, "NAME",
      "Name that the server's certificate must have (default: the host in "
      "--server)")
      ->envname("QUANTD_CLIENT_TLS_NAME")
      ->group(kServer);
  file("--token-file", &c.token_file,
       "File with the bearer token to send (default: the token in "
       "QUANTD_CLIENT_TOKEN)",
       "QUANTD_CLIENT_TOKEN_FILE");
}

}  // namespace

void AddServer(CLI::App* app, Options* o) {
  Add(app, "--server", &o->server, "ADDRESS,...",
      "Address of the server, or several addresses separated by commas; or "
      "local, local:cpu or local:cuda:N to compute in this process")
      ->envname("QUANTD_SERVER")
      ->group(kServer)
      ->capture_default_str();
  Add(app, "--memory-socket", &o->memory_socket, "PATH",
      "The server's --memory-socket, if it runs on this machine: tensors are "
      "then read into memory shared with it instead of being sent")
      ->group(kServer)
      ->envname("QUANTD_MEMORY_SOCKET");
  Named(app, "--transport", "WAY", "Fail if a call would use another transport",
        "tcp, unix, shared or local", ParseTransport, &o->transport)
      ->group(kServer);
  AddCredentials(app, &o->credentials);
  app->add_option("--deadline", o->deadline_seconds,
                  "Seconds that a call may take, including retries")
      ->group(kServer)
      ->check(CLI::Range(0.001, 86400.0))
      ->capture_default_str();
}

absl::Status SettleConnection(Options* o) {
  o->server = WithPorts(o->server);
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (!text.starts_with("QUANTCTL_TLS") &&
        !text.starts_with("QUANTCTL_TOKEN")) {
      continue;
    }
    const std::string_view name = text.substr(9, text.find('=') - 9);
    return absl::InvalidArgumentError(
        fmt::format("QUANTCTL_{0} was renamed to QUANTD_CLIENT_{0}", name));
  }
  if (const char* token = std::getenv("QUANTD_CLIENT_TOKEN");
      token != nullptr && o->credentials.token_file.empty()) {
    o->credentials.token = token;
  }
  return absl::OkStatus();
}

bool Refuses(uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  // The connection is local, so that connect() returns at once.
  const bool refused =
      connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0 &&
      errno == ECONNREFUSED;
  close(fd);
  return refused;
}

void SettleServer(Options* o) {
  if (o->transport == Transport::kLocal) {
    o->server = "local";
    return;
  }
  if (o->transport || !Refuses(kDefaultPort)) return;
  o->server = "local";
  fmt::print(stderr,
             "quantctl: no server at {}, computing in this process (like "
             "--server local)\n",
             kDefaultServer);
}

absl::Status CheckTransport(const Options& o) {
  if (!o.transport) return absl::OkStatus();
  const bool local = o.server == "local" || o.server.starts_with("local:c");
  const bool unix_socket = o.server.starts_with("unix:");
  const auto expected = [&](const char* what) {
    return absl::InvalidArgumentError(
        fmt::format("--transport {}: expected {}", Name(*o.transport), what));
  };
  switch (*o.transport) {
    case Transport::kTcp:
      if (local || unix_socket) return expected("--server HOST:PORT");
      break;
    case Transport::kUnix:
      if (!unix_socket) return expected("--server unix:/PATH");
      break;
    case Transport::kLocal:
      if (!local) return expected("--server local, or no --server");
      break;
    default:
      if (local || o.memory_socket.empty()) {
        return expected("--memory-socket and the server that listens on it");
      }
  }
  return absl::OkStatus();
}

}  // namespace quantd::quantctl
