// Everything an operator can choose, with defaults that work; and the layers of
// configuration it comes from: flags, then the environment, then one file.
// Names come from the flags: --max-wait-ms is QUANTD_MAX_WAIT_MS and
// `max-wait-ms = 5000`. A variable that is set but empty counts as not set.
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

// PEM files; paths, empty: none.
struct TlsFiles {
  std::string certificate;  // the server's, then those that signed it
  std::string key;
  std::string client_ca;  // who signs clients; named: clients need one

  bool used() const { return !certificate.empty() || !key.empty(); }
};

// Each is said in words where its flag is, in options.cc.
struct ServerOptions {
  std::string listen = "127.0.0.1:50151";
  bool insecure = false;
  TlsFiles tls;
  std::string token_file;  // SHA-256 of tokens, see server/net/tokens.h
  absl::Duration reload_interval = absl::Seconds(1);
  std::string port_file;
  // What is read there is no secret, so that any address is allowed.
  std::string metrics_address;

  // Names for OpenBackend. Empty: every CUDA device, or else "cpu:0".
  std::vector<std::string> devices;
  int slots = 0;
  int cpu_threads = 0;
  std::string cpu_isa = "auto";
  bool fallback = false;
  absl::Duration self_test_interval = absl::Minutes(5);  // or infinite
  absl::Duration max_job = absl::Seconds(10);
  // Without a device for so long the server asks to be started anew.
  absl::Duration most_without = absl::Seconds(60);
  // Called then, once, on a thread of the server's.
  std::function<void()> on_hopeless = {};
  float estimate = 0;

  size_t memory_budget = 0;  // 0: DefaultBudget()
  size_t max_request_bytes = size_t{512} << 20;
  size_t max_waiting = 128;
  absl::Duration max_wait = absl::Seconds(10);
  absl::Duration max_receive = absl::Minutes(1);
  absl::Duration max_send = absl::Minutes(1);
  // Completion queues, one thread each.
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

  // The time that limits are held to, for tests to move.
  std::function<absl::Time()> now = SteadyNow;

  LogLevel log_level = LogLevel::kInfo;
  LogFormat log_format = LogFormat::kText;
};

// How `quantd --probe` asks a running server, see server/observe/probe.h.
struct ProbeOptions {
  std::string certificate;  // PEM files of a client; empty: the server's own
  std::string key;
  absl::Duration timeout = absl::Seconds(2);
};

struct Setting {
  std::string name;    // "max-wait-ms"
  std::string value;   // as text; what looks like a secret is masked
  std::string source;  // "flag", "environment", "file" or "default"
};

enum class Action { kServe, kCheckConfiguration, kProbe };

struct CommandLine {
  Action action = Action::kServe;
  ServerOptions options;
  ProbeOptions probe;
  std::vector<Setting> settings;  // in effect; nothing secret
  // Variables QUANTD_... that mean nothing here. Left out are QUANTD_SERVER,
  // which is for clients, and what Kubernetes sets beside a service of a name
  // like quantd (QUANTD_SERVICE_HOST, QUANTD_PORT_50151_TCP).
  std::vector<std::string> unknown_environment;
};

// Once the command line of `app` has been parsed: fills in what it left open,
// and what of `command` says so. All its flags are settings, but for those of
// the group `actions` and --help. `file_flag` names the flag that names the
// file; it can be given by the environment too. INVALID_ARGUMENT, naming the
// variable, or the file and its key, for what is no good.
absl::Status ReadLayers(CLI::App* app, const std::string& actions,
                        const std::string& file_flag, CommandLine* command);

// Lines of a configuration file, each with its source behind it.
std::string ToText(const std::vector<Setting>& settings);
// On one line, for the log.
std::string ToLine(const std::vector<Setting>& settings);

// Whether what should name a file is rather the content of one.
bool LooksLikeSecret(std::string_view value);

// What flags, environment and configuration file ask for, in this order of
// precedence. Returns -1 to go on, or the exit code with which to end now:
// --help, --version or a mistake, already told.
int ParseCommandLine(int argc, char** argv, CommandLine* command);

// Reads all of it again, for a file that may have changed since.
// INVALID_ARGUMENT, with words for the operator, for one that is no good.
absl::Status ReadSettingsAgain(int argc, char** argv, CommandLine* command);

// INVALID_ARGUMENT, with words for the operator, when the options are no good
// by themselves or together: a network address in plain text without
// `insecure`, for example. Opens no file.
absl::Status Validate(const ServerOptions& options);

// Whether a user namespace, by its /proc/PID/uid_map, has every user of the
// machine. Else those that it lacks are one user there, nobody.
bool KnowsAllUsers(const std::string& uid_map);

// The users of --memory-peers, names or numbers; none: the server's own user.
// INVALID_ARGUMENT for a name that nobody has, and for nobody where that is
// more than one.
absl::StatusOr<std::vector<uid_t>> FindMemoryPeers(
    const std::vector<std::string>& users);

// What the operator should know about options that are valid: that strangers
// can open HTTP/2 on a network address. Empty: nothing.
std::string StartWarning(const ServerOptions& options);

}  // namespace quantd

#endif  // QUANTD_SERVER_CONFIG_OPTIONS_H_
