#include "server/config/options.h"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <map>
#include <utility>

#include "absl/status/statusor.h"
#include "fmt/format.h"
#include "proto/net/strict_numbers.h"

namespace quantd {
namespace {

constexpr int kExitBadConfiguration = 2;

// Flags that say what to do and not how: no settings.
constexpr char kActions[] = "What to do (default: serve)";

constexpr char kDescription[] =
    "quantd quantizes tensors (NVFP4, FP8, MXFP8, MXFP4; randomized Hadamard "
    "transform) for gRPC clients, on CUDA devices or on the CPU, with the same "
    "bytes.\n"
    "Every setting is a flag, an environment variable (--max-wait-ms is "
    "QUANTD_MAX_WAIT_MS) or a line of the --config file (max-wait-ms = 5000); "
    "a flag wins over the environment, the environment over the file.\n"
    "Sizes may be written 4096, 64KiB, 512MiB, 2GiB.";

constexpr char kFooter[] =
    R"help(Exit codes: 0 stopped, all accepted calls answered; 1 it could not start
(address in use, no device); 2 wrong usage or configuration; 3 stopped, but
calls were cancelled; 4 no device works, and a new start may help; 130 stopped at once by a second signal.

A token, and its line in the token file:
  openssl rand -hex 32 > token
  printf %s "$(cat token)" | sha256sum >> tokens
Examples:
  quantd --listen 127.0.0.1:50151
  quantd --listen 0.0.0.0:50151 --tls-cert server.pem --tls-key server.key     --token-file tokens
  quantd --config quantd.toml --check-config)help";

std::vector<std::string> SplitList(std::string_view list) {
  std::vector<std::string> parts;
  while (true) {
    const size_t comma = list.find(',');
    parts.emplace_back(list.substr(0, comma));
    if (comma == std::string_view::npos) return parts;
    list.remove_prefix(comma + 1);
  }
}

// As ParseCommandLine, but for what is wrong with the layers below the flags.
absl::StatusOr<int> Parse(int argc, char** argv, CommandLine* command) {
  ServerOptions& o = command->options;
  CLI::App app(kDescription, "quantd");
  app.footer(kFooter);
  app.set_version_flag("--version", "quantd " QUANTD_VERSION);
  const CLI::AsSizeValue size(false);

  std::string device = "auto";
  int64_t max_wait = absl::ToInt64Milliseconds(o.max_wait);
  int64_t max_receive = absl::ToInt64Milliseconds(o.max_receive);
  int64_t max_send = absl::ToInt64Milliseconds(o.max_send);
  int64_t busy_poll = o.busy_poll.count();
  std::string trusted;
  std::string peers;
  int64_t drain_delay = absl::ToInt64Milliseconds(o.drain_delay);
  int64_t drain_timeout = absl::ToInt64Seconds(o.drain_timeout);
  int64_t reload_interval = absl::ToInt64Milliseconds(o.reload_interval);
  int64_t probe_timeout = absl::ToInt64Milliseconds(command->probe.timeout);
  std::string log_level = "info";
  std::string log_format = "text";
  std::string file;
  std::string fallback = "none";
  int64_t self_test = absl::ToInt64Seconds(o.self_test_interval);
  int64_t max_job = absl::ToInt64Milliseconds(o.max_job);
  int64_t most_without = absl::ToInt64Seconds(o.most_without);
  bool check = false;
  bool probe = false;

  app.add_option("--config", file,
                 "File of settings (TOML): any flag below without its dashes, "
                 "like listen = \"0.0.0.0:50151\"; unknown keys are refused")
      ->type_name("FILE")
      ->group(kActions);
  app.add_flag("--check-config", check,
               "Read and check everything that a start would, print what is in "
               "effect, and end: 0, or 2 and what is wrong")
      ->group(kActions);
  app.add_flag("--probe", probe,
               "Ask the server that runs with these settings for its health, "
               "and end: 0 serving, 1 not serving or not there, 2 settings "
               "that cannot work")
      ->group(kActions);
  uint64_t budget = o.memory_budget;
  uint64_t max_request = o.max_request_bytes;
  uint64_t shared = o.shared_memory_limit;

  constexpr char kAddress[] = "Address";
  app.add_option("--listen", o.listen,
                 "HOST:PORT (port 0: a free one) or "
                 "unix:PATH")
      ->capture_default_str()
      ->group(kAddress);
  app.add_option("--port-file", o.port_file,
                 "File to write the address to once serving")
      ->group(kAddress);

  constexpr char kTls[] = "TLS and tokens (files are read again when changed)";
  app.add_option("--tls-cert", o.tls.certificate,
                 "PEM file: the server's certificate, then those above it")
      ->type_name("FILE")
      ->group(kTls);
  app.add_option("--tls-key", o.tls.key, "PEM file: its private key")
      ->type_name("FILE")
      ->group(kTls);
  app.add_option("--tls-client-ca", o.tls.client_ca,
                 "PEM file: clients must show a certificate signed by one of "
                 "these")
      ->type_name("FILE")
      ->group(kTls);
  app.add_option("--token-file", o.token_file,
                 "Calls need a bearer token whose SHA-256 is in this file; "
                 "health needs none")
      ->type_name("FILE")
      ->group(kTls);
  app.add_flag("--insecure", o.insecure,
               "Allow plain text on an address that other machines can reach")
      ->group(kTls);
  app.add_option("--reload-interval-ms", reload_interval,
                 "How often these files are looked at (SIGHUP: now)")
      ->check(CLI::Range(int64_t{10}, int64_t{3600000}))
      ->capture_default_str()
      ->group(kTls);

  constexpr char kProbe[] = "Probe";
  app.add_option("--probe-cert", command->probe.certificate,
                 "With --tls-client-ca: PEM file, the certificate to show "
                 "(default: the server's own)")
      ->type_name("FILE")
      ->group(kProbe);
  app.add_option("--probe-key", command->probe.key, "PEM file: its private key")
      ->type_name("FILE")
      ->group(kProbe);
  app.add_option("--probe-timeout-ms", probe_timeout,
                 "Time the server has to answer")
      ->check(CLI::Range(int64_t{1}, int64_t{3600000}))
      ->capture_default_str()
      ->group(kProbe);

  app.add_option("--metrics-address", o.metrics_address,
                 "HOST:PORT of Prometheus metrics, /healthz and /readyz over "
                 "HTTP (port 0: a free one, written to PORT_FILE.metrics); "
                 "none unless given")
      ->group(kAddress);

  constexpr char kDevices[] = "Devices";
  app.add_option("--device", device,
                 "auto (every CUDA device, else cpu), cpu, cuda, or a list: "
                 "cuda:0,cuda:1 or cpu:0,cpu:1")
      ->capture_default_str()
      ->group(kDevices);
  app.add_option("--slots", o.slots,
                 "Jobs at once on each device (0: the device's choice)")
      ->check(CLI::Range(0, 256))
      ->capture_default_str()
      ->group(kDevices);
  app.add_option("--cpu-threads", o.cpu_threads,
                 "Threads of each CPU device (0: one per core)")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str()
      ->group(kDevices);
  app.add_option("--cpu-isa", o.cpu_isa, "auto, baseline, avx2 or avx512")
      ->check(CLI::IsMember({"auto", "baseline", "avx2", "avx512"}))
      ->capture_default_str()
      ->group(kDevices);

  app.add_option("--self-test-interval", self_test,
                 "Seconds between two tests of each device, whose answers are "
                 "known to the byte; one is made at the start and after a "
                 "fault in any case (0: no others)")
      ->check(CLI::Range(int64_t{0}, int64_t{86400}))
      ->type_name("SECONDS")
      ->capture_default_str()
      ->group(kDevices);
  app.add_option(
         "--max-job-ms", max_job,
         "Longest time a job may stand still on a device, and a second more "
         "for each 16MiB of its input and output: then the caller is "
         "answered and the device gets no work until the job ends")
      ->check(CLI::Range(int64_t{1}, int64_t{86400000}))
      ->capture_default_str()
      ->group(kDevices);
  app.add_option("--fallback", fallback,
                 "none, or cpu: calls run on the CPU while no other device "
                 "works, and their replies name cpu:fallback; its memory is "
                 "beside the budget")
      ->check(CLI::IsMember({"none", "cpu"}))
      ->capture_default_str()
      ->group(kDevices);
  app.add_option("--max-no-device-s", most_without,
                 "Longest time without a device that works: then the server "
                 "stops with exit code 4, to be started anew (0: never)")
      ->check(CLI::Range(int64_t{0}, int64_t{86400}))
      ->capture_default_str()
      ->group(kDevices);

  app.add_option("--estimate", o.estimate,
                 "Estimate the amax of rotated copies where a request leaves "
                 "it open: that before the rotation times SCALE (0: none)")
      ->check(CLI::Range(0.0f, std::numeric_limits<float>::max()))
      ->type_name("SCALE")
      ->capture_default_str()
      ->group("Arithmetic");

  constexpr char kMemory[] = "Memory and admission";
  app.add_option("--memory-budget", budget,
                 "Memory for payloads (0: a quarter of the machine's or "
                 "control group's, at most 8GiB)")
      ->transform(size)
      ->capture_default_str()
      ->group(kMemory);
  app.add_option("--max-request-bytes", max_request,
                 "Largest request in one message, made smaller to fit the "
                 "budget; streams are held by the budget alone")
      ->transform(size)
      ->capture_default_str()
      ->group(kMemory);
  app.add_option("--max-waiting", o.max_waiting,
                 "Calls that may wait for memory; more are refused as busy")
      ->check(CLI::Range(size_t{0}, size_t{1} << 20))
      ->capture_default_str()
      ->group(kMemory);
  app.add_option("--max-wait-ms", max_wait,
                 "Longest wait for memory before a call is refused as busy")
      ->check(CLI::Range(int64_t{0}, int64_t{3600000}))
      ->capture_default_str()
      ->group(kMemory);
  app.add_option("--max-receive-ms", max_receive,
                 "Longest time a request may take to arrive, and between "
                 "chunks of a stream")
      ->check(CLI::Range(int64_t{1}, int64_t{86400000}))
      ->capture_default_str()
      ->group(kMemory);
  app.add_option("--max-send-ms", max_send,
                 "Longest time in which a client may take nothing of a reply; "
                 "a second for each MiB more for the whole")
      ->check(CLI::Range(int64_t{1}, int64_t{86400000}))
      ->capture_default_str()
      ->group(kMemory);
  app.add_option("--max-streams", o.max_streams,
                 "Calls at once on one connection")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str()
      ->group(kMemory);
  app.add_option("--max-connections", o.max_connections,
                 "Connections at once; at the limit an idle one makes room (0: "
                 "as many as file descriptors allow, at most 4096)")
      ->check(CLI::Range(size_t{0}, size_t{1} << 20))
      ->capture_default_str()
      ->group(kMemory);
  app.add_option("--trusted-proxies", trusted,
                 "Addresses, separated by commas, of proxies whose clients "
                 "share one: they are held to no one host's share of memory")
      ->group(kMemory);
  app.add_option(
         "--queues", o.queues,
         "Threads that take calls (0: one for every 16 cores): one alone "
         "answers a caller who waits soonest, several take more callers")
      ->check(CLI::Range(0, 256))
      ->capture_default_str()
      ->group(kMemory);
  app.add_option("--stream-queues", o.stream_queues,
                 "Threads that receive streams (0: one for every 4 cores); "
                 "they sleep while there are none")
      ->check(CLI::Range(0, 256))
      ->capture_default_str()
      ->group(kMemory);

  app.add_option("--busy-poll-us", busy_poll,
                 "How long threads look for more work, on a core each, before "
                 "they sleep: where cores are idle a call that follows another "
                 "is not woken for (0: they sleep at once)")
      ->check(CLI::Range(0, 10000))
      ->capture_default_str()
      ->group(kMemory);

  constexpr char kShared[] = "Shared memory, with clients of this host";
  app.add_option("--memory-socket", o.memory_socket,
                 "Unix socket where clients of this machine hand in memory, "
                 "the host's or a GPU's, that calls then work in, so that "
                 "nothing is sent (quantctl --transport shared); none unless "
                 "given")
      ->type_name("PATH")
      ->group(kShared);
  app.add_option("--shared-memory-limit", shared,
                 "Most of it that is mapped at once; a connection may have "
                 "half")
      ->transform(size)
      ->capture_default_str()
      ->group(kShared);
  app.add_option("--memory-peers", peers,
                 "Users (names or numbers, separated by commas) who may; the "
                 "server's own unless given")
      ->type_name("USERS")
      ->group(kShared);

  constexpr char kShutdown[] = "Shutdown (SIGTERM or SIGINT; twice: at once)";
  app.add_option("--drain-delay-ms", drain_delay,
                 "Time between health NOT_SERVING and refusing new calls")
      ->check(CLI::Range(int64_t{0}, int64_t{3600000}))
      ->capture_default_str()
      ->group(kShutdown);
  app.add_option("--drain-timeout-s", drain_timeout,
                 "Time that accepted calls have to finish")
      ->check(CLI::Range(int64_t{0}, int64_t{86400}))
      ->capture_default_str()
      ->group(kShutdown);

  constexpr char kLog[] = "Log (on stderr)";
  const std::map<std::string, LogLevel> levels = {{"debug", LogLevel::kDebug},
                                                  {"info", LogLevel::kInfo},
                                                  {"warn", LogLevel::kWarn},
                                                  {"error", LogLevel::kError},
                                                  {"off", LogLevel::kOff}};
  const std::map<std::string, LogFormat> formats = {{"text", LogFormat::kText},
                                                    {"json", LogFormat::kJson}};
  app.add_option("--log-level", log_level,
                 "debug (a line for every call), info, warn, error or off")
      ->check(CLI::IsMember(levels).description("LEVEL"))
      ->capture_default_str()
      ->group(kLog);
  app.add_option("--log-format", log_format, "text or json")
      ->check(CLI::IsMember(formats).description("FORMAT"))
      ->capture_default_str()
      ->group(kLog);

  ReadNumbersStrictly(&app);
  Configuration configuration(&app, kActions);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e);
  }
  if (absl::Status s = configuration.ReadLayers("--config"); !s.ok()) return s;
  command->settings = configuration.Settings();
  command->unknown_environment = configuration.UnknownEnvironment();
  command->action = probe   ? Action::kProbe
                    : check ? Action::kCheckConfiguration
                            : Action::kServe;
  command->probe.timeout = absl::Milliseconds(probe_timeout);
  o.log_level = levels.at(log_level);
  o.log_format = formats.at(log_format);
  o.reload_interval = absl::Milliseconds(reload_interval);
  o.memory_budget = budget;
  o.max_request_bytes = max_request;
  o.max_wait = absl::Milliseconds(max_wait);
  o.max_receive = absl::Milliseconds(max_receive);
  o.max_send = absl::Milliseconds(max_send);
  o.busy_poll = std::chrono::microseconds(busy_poll);
  o.trusted_proxies.clear();
  if (!trusted.empty()) o.trusted_proxies = SplitList(trusted);
  o.shared_memory_limit = shared;
  o.memory_peers.clear();
  if (!peers.empty()) o.memory_peers = SplitList(peers);
  o.fallback = fallback == "cpu";
  o.self_test_interval =
      self_test == 0 ? absl::InfiniteDuration() : absl::Seconds(self_test);
  o.max_job = absl::Milliseconds(max_job);
  o.most_without = most_without == 0 ? absl::InfiniteDuration()
                                     : absl::Seconds(most_without);
  o.drain_delay = absl::Milliseconds(drain_delay);
  o.drain_timeout = absl::Seconds(drain_timeout);
  o.devices.clear();
  if (device != "auto") o.devices = SplitList(device);
  return -1;
}

}  // namespace

int ParseCommandLine(int argc, char** argv, CommandLine* command) {
  const absl::StatusOr<int> code = Parse(argc, argv, command);
  if (code.ok()) return *code;
  fmt::print(stderr, "quantd: {}\n", std::string(code.status().message()));
  return kExitBadConfiguration;
}

absl::Status ReadSettingsAgain(int argc, char** argv, CommandLine* command) {
  // The flags themselves were good once.
  return Parse(argc, argv, command).status();
}

}  // namespace quantd
