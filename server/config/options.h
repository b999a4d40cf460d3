// Everything that an operator can choose, with working defaults, and the layers
// of configuration: flags, then the environment, then one file. All use the
// flags' names: --max-wait-ms is QUANTD_MAX_WAIT_MS and `max-wait-ms = 5000`. A
// variable set to the empty string counts as not set.
#ifndef QUANTD_SERVER_CONFIG_OPTIONS_H_
#define QUANTD_SERVER_CONFIG_OPTIONS_H_

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/gate/steady_time.h"
#include "server/observe/log.h"

namespace CLI {
class App;
}  // namespace CLI

namespace quantd {

// Paths of PEM files; empty: none.
struct TlsFiles {
  std::string certificate;  // the server's, then those that signed it
  std::string key;
  // Signs clients' certificates; if set, clients need one.
  std::string client_ca;

  bool used() const { return !certificate.empty() || !key.empty(); }
};

// Each option is described at its flag, in options.cc.
struct ServerOptions {
  std::string listen = "127.0.0.1:50151";
  bool insecure = false;
  TlsFiles tls;
  std::string token_file;  // SHA-256 of tokens, see server/net/tokens.h
  absl::Duration reload_interval = absl::Seconds(1);
  std::string port_file;
  // Any address is allowed: the metrics hold no secret.
  std::string metrics_address;

  // Names for OpenBackend. Empty: every CUDA device, or else "cpu:0".
  std::vector<std::string> devices;
  int slots = 0;
  int cpu_threads = 0;
  std::string cpu_isa = "auto";
  bool fallback = false;
  absl::Duration self_test_interval = absl::Minutes(5);  // or infinite
  absl::Duration max_job = absl::Seconds(10);
  // After this time without a device the server asks to be restarted.
  absl::Duration most_without = absl::Seconds(60);
  // Called once after that time, on a thread of the server.
  std::function<void()> on_hopeless = {};
  float estimate = 0;

  size_t memory_budget = 0;  // 0: DefaultBudget()
  size_t max_request_bytes = size_t{512} << 20;
  size_t max_waiting = 128;
  absl::Duration max_wait = absl::Seconds(10);
  absl::Duration max_receive = absl::Minutes(1);
  absl::Duration max_send = absl::Minutes(1);
  // Number of completion queues, each with one thread.
  int queues = 0;
  int stream_queues = 0;
  absl::Duration busy_poll = absl::ZeroDuration();
  int max_streams = 256;
  size_t max_connections = 0;
  std::vector<std::string> trusted_proxies;

  std::string memory_socket;
  size_t shared_memory_limit = size_t{1} << 30;
  std::vector<std::string> memory_peers;

  absl::Duration drain_delay = absl::Milliseconds(500);
  absl::Duration drain_timeout = absl::Seconds(30);

  // Clock of time limits; tests replace it.
  std::function<absl::Time()> now = SteadyNow;

  LogLevel log_level = LogLevel::kInfo;
  LogFormat log_format = LogFormat::kText;
};

// Settings of `quantd --probe`, see server/observe/probe.h.
struct ProbeOptions {
  std::string certificate;  // a client's PEM files; empty: the server's own
  std::string key;
  absl::Duration timeout = absl::Seconds(2);
};

struct Setting {
  std::string name;    // "max-wait-ms"
  std::string value;   // as text; likely secrets are masked
  std::string source;  // "flag", "environment", "file" or "default"
};

enum class Action { kServe, kCheckConfiguration, kProbe };

struct CommandLine {
  Action action = Action::kServe;
  ServerOptions options;
  ProbeOptions probe;
  std::vector<Setting> settings;  // in effect; holds no secrets
  // Unknown variables named QUANTD_... Not reported: QUANTD_SERVER, which is
  // for clients, and those that Kubernetes sets for a service named quantd
  // (QUANTD_SERVICE_HOST, QUANTD_PORT_50151_TCP).
  std::vector<std::string> unknown_environment;
};

// Fills in, from the lower layers, the options that the parsed command line of
// `app` left open, and the related fields of `command`. Every flag is a
// setting, except those of the group `actions` and --help. `file_flag` is the
// flag that names the file; the environment can also give it. INVALID_ARGUMENT,
// naming the variable or the file and its key, if a value is invalid.
absl::Status ReadLayers(CLI::App* app, const std::string& actions,
                        const std::string& file_flag, CommandLine* command);

// Lines of a configuration file, each followed by its source.
std::string ToText(const std::vector<Setting>& settings);
// One line, for the log.
std::string ToLine(const std::vector<Setting>& settings);

// Whether a value that should name a file looks like a file's content.
bool LooksLikeSecret(std::string_view value);

// Reads flags, environment and configuration file, in this order of precedence.
// Returns -1 to go on, or the exit code to end with: for --help, --version, or
// a mistake that has been reported.
int ParseCommandLine(int argc, char** argv, CommandLine* command);

// INVALID_ARGUMENT, with a message for the operator, if options are invalid by
// themselves or together: for example a network address in plain text without
// `insecure`. Opens no file.
absl::Status Validate(const ServerOptions& options);

// Resolves --memory-peers, given as names or numbers; empty means the server's
// own user. INVALID_ARGUMENT for an unknown name and, in a user namespace, for
// the user nobody, which stands there for all users that the namespace does not
// map.
absl::StatusOr<std::vector<uid_t>> FindMemoryPeers(
    const std::vector<std::string>& users);

// What the operator should know about valid options: that strangers can open
// HTTP/2 on a network address. Empty: nothing.
std::string StartWarning(const ServerOptions& options);

}  // namespace quantd

#endif  // QUANTD_SERVER_CONFIG_OPTIONS_H_
