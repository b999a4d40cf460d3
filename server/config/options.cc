#include "server/config/options.h"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <limits>
#include <list>
#include <map>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_split.h"
#include "fmt/format.h"
#include "proto/net/strict_numbers.h"

namespace quantd {
namespace {

constexpr int kExitBadConfiguration = 2;

// Group of flags that are not settings.
constexpr char kActions[] = "What to do (default: serve)";

constexpr char kDescription[] =
    "quantd quantizes tensors (NVFP4, FP8, MXFP8, MXFP4; randomized Hadamard "
    "transform) for gRPC clients, on CUDA devices or on the CPU, with the same "
    "bytes.\n"
    "Every setting is a flag, an environment variable (--max-wait-ms is "
    "QUANTD_MAX_WAIT_MS) or a line of the --config file (max-wait-ms = 5000); "
    "a flag wins over the environment, the environment over the file.\n"
    "Sizes are written 4096, 64KiB, 512MB or 2GiB; KB and KiB both mean 1024 "
    "bytes.";

constexpr char kFooter[] =
    R"help(Exit codes: 0 stopped, all accepted calls answered; 1 it could not start
(address in use, no device); 2 wrong usage or configuration; 3 stopped, but
calls were cancelled; 4 no device works, and a new start may help; 130 stopped
at once by a second signal.

A token, and its line in the token file:
  openssl rand -hex 32 > token
  printf %s "$(cat token)" | sha256sum >> tokens
Examples:
  quantd --listen 127.0.0.1:50151
  quantd --listen 0.0.0.0:50151 --tls-cert server.pem --tls-key server.key \
    --token-file tokens
  quantd --config quantd.conf --check-config)help";

constexpr absl::Duration kMs = absl::Milliseconds(1);
constexpr absl::Duration kSecond = absl::Seconds(1);
constexpr int64_t kHourMs = 3'600'000;
constexpr int64_t kDayMs = 86'400'000;
constexpr int64_t kDay = 86'400;

// Adds flags to a command, by the type of their values. Values that are
// converted are stored by Finish.
class Flags {
 public:
  explicit Flags(CLI::App* app) : app_(*app) {}

  void Group(const char* name) { group_ = name; }
  void Switch(const char* flag, bool* to, const char* help) {
    app_.add_flag(flag, *to, help)->group(group_);
  }
  CLI::Option* Text(const char* flag, std::string* to, const char* type,
                    const char* help) {
    return Add(flag, to, help)->type_name(type);
  }
  template <typename T>
  CLI::Option* Number(const char* flag, T* to, T least, T most,
                      const char* help) {
    return Add(flag, to, help)->check(CLI::Range(least, most));
  }
  void Size(const char* flag, size_t* to, const char* help) {
    Add(flag, to, help)->transform(CLI::AsSizeValue(false));
  }
  // With `endless`, 0 means an infinite time.
  CLI::Option* Time(const char* flag, absl::Duration* to, absl::Duration unit,
                    int64_t least, int64_t most, bool endless,
                    const char* help) {
    int64_t& number = numbers_.emplace_back(*to / unit);
    finish_.push_back([=, &number] {
      *to = endless && number == 0 ? absl::InfiniteDuration() : number * unit;
    });
    return Number(flag, &number, least, most, help);
  }
  // A list separated by commas. The default, `none`, is not an element.
  CLI::Option* List(const char* flag, std::vector<std::string>* to,
                    const char* none, const char* help) {
    std::string& text = texts_.emplace_back(none);
    finish_.push_back([=, &text] {
      to->clear();
      if (text != none) *to = absl::StrSplit(text, ',');
    });
    return Add(flag, &text, help);
  }
  // One of a few words; the default is the value of `first`.
  template <typename T>
  void Word(const char* flag, T* to, const char* first,
            const std::map<std::string, T>& words, const CLI::Validator& rule,
            const char* help) {
    std::string& text = texts_.emplace_back(first);
    finish_.push_back([=, &text] { *to = words.at(text); });
    Add(flag, &text, help)->check(rule);
  }
  void Finish() const {
    for (const auto& step : finish_) step();
  }

 private:
  template <typename T>
  CLI::Option* Add(const char* flag, T* to, const char* help) {
    return app_.add_option(flag, *to, help)
        ->capture_default_str()
        ->group(group_);
  }

  CLI::App& app_;
  std::string group_;
  std::list<int64_t> numbers_;
  std::list<std::string> texts_;
  std::vector<std::function<void()>> finish_;
};

void AddAddressAndSecurity(Flags& add, ServerOptions& o, ProbeOptions& probe) {
  add.Group("Address");
  add.Text("--listen", &o.listen, "TEXT",
           "HOST:PORT (port 0: a free one) or unix:PATH");
  add.Text("--port-file", &o.port_file, "TEXT",
           "File to write the address to once serving");
  add.Text("--metrics-address", &o.metrics_address, "TEXT",
           "HOST:PORT of Prometheus metrics, /healthz and /readyz over HTTP "
           "(port 0: a free one, written to PORT_FILE.metrics; default: "
           "none)");

  add.Group("TLS and tokens (files are read again when changed)");
  add.Text("--tls-cert", &o.tls.certificate, "FILE",
           "PEM file: the server's certificate, then those that signed it");
  add.Text("--tls-key", &o.tls.key, "FILE", "PEM file: its private key");
  add.Text("--tls-client-ca", &o.tls.client_ca, "FILE",
           "PEM file: clients must show a certificate signed by one of these");
  add.Text("--token-file", &o.token_file, "FILE",
           "Calls need a bearer token whose SHA-256 is in this file; health "
           "needs none");
  add.Switch("--insecure", &o.insecure,
             "Allow plain text on an address that other machines can reach");
  add.Time("--reload-interval-ms", &o.reload_interval, kMs, 10, kHourMs, false,
           "Interval of checks whether these files changed (SIGHUP: at once)");

  add.Group("Probe");
  add.Text("--probe-cert", &probe.certificate, "FILE",
           "With --tls-client-ca: PEM file, the certificate to show (default: "
           "the server's own)");
  add.Text("--probe-key", &probe.key, "FILE", "PEM file: its private key");
  add.Time("--probe-timeout-ms", &probe.timeout, kMs, 1, kHourMs, false,
           "Longest wait for the server's answer");
}

void AddDevices(Flags& add, ServerOptions& o) {
  add.Group("Devices");
  add.List("--device", &o.devices, "auto",
           "auto (every CUDA device, else cpu), cpu, cuda, or a list: "
           "cuda:0,cuda:1 or cpu:0,cpu:1");
  add.Number("--slots", &o.slots, 0, 256,
             "Jobs at once on each device (0: the device's choice)");
  add.Number("--cpu-threads", &o.cpu_threads, 0, 4096,
             "Threads of each CPU device (0: one per core)");
  add.Text("--cpu-isa", &o.cpu_isa, "TEXT", "auto, baseline, avx2 or avx512")
      ->check(CLI::IsMember({"auto", "baseline", "avx2", "avx512"}));
  add.Time("--self-test-interval", &o.self_test_interval, kSecond, 0, kDay,
           true,
           "Seconds between self-tests of each device, which compare known "
           "bytes; one also runs at the start and after a fault (0: only "
           "then)")
      ->type_name("SECONDS");
  add.Time("--max-job-ms", &o.max_job, kMs, 1, kDayMs, false,
           "Longest time without progress of a job on a device, plus a second "
           "for each 16MiB of its input and output; after it the caller is "
           "answered and the device gets no work until the job ends");
  add.Word<bool>("--fallback", &o.fallback, "none",
                 {{"none", false}, {"cpu", true}},
                 CLI::IsMember({"none", "cpu"}),
                 "none, or cpu: calls run on the CPU while no other device "
                 "works, and their replies name cpu:fallback; its memory is "
                 "not part of the budget");
  add.Time("--max-no-device-s", &o.most_without, kSecond, 0, kDay, true,
           "Longest time without a device that works: then the server stops "
           "with exit code 4, to be restarted (0: never)");

  add.Group("Arithmetic");
  add.Number("--amax-estimation-scale,--estimate", &o.estimate, 0.0f,
             std::numeric_limits<float>::max(),
             "Estimate the amax of rotated copies if a request leaves it "
             "open: the amax before the rotation times SCALE (0: never)")
      ->type_name("SCALE");
}

void AddAdmission(Flags& add, ServerOptions& o) {
  add.Group("Memory and admission");
  add.Size("--memory-budget", &o.memory_budget,
           "Memory for payloads (0: a quarter of the machine's or control "
           "group's, at most 8GiB)");
  add.Size("--max-request-bytes", &o.max_request_bytes,
           "Largest request in one message; lowered if the budget is too small "
           "for it. Only the budget limits streams");
  add.Number("--max-waiting", &o.max_waiting, size_t{0}, size_t{1} << 20,
             "Calls that may wait for memory; more are refused as busy");
  add.Time("--max-wait-ms", &o.max_wait, kMs, 0, kHourMs, false,
           "Longest wait for memory before a call is refused as busy");
  add.Time("--max-receive-ms", &o.max_receive, kMs, 1, kDayMs, false,
           "Longest time for a request to arrive, and between chunks of a "
           "stream");
  add.Time("--max-send-ms", &o.max_send, kMs, 1, kDayMs, false,
           "Longest time in which a client may read nothing of a reply; the "
           "whole reply may take this time plus a second for each MiB");
  add.Number("--max-streams", &o.max_streams, 1, 1 << 20,
             "Calls at once on one connection");
  add.Number("--max-connections", &o.max_connections, size_t{0},
             size_t{1} << 20,
             "Connections at once; at the limit an idle one makes room (0: "
             "half of the file descriptors, at most 4096)");
  add.List("--trusted-proxies", &o.trusted_proxies, "",
           "Addresses of proxies, separated by commas: each carries the calls "
           "of many callers, which do not share one connection's part of the "
           "memory");
  add.Number("--queues", &o.queues, 0, 256,
             "Threads that take calls (0: one for every 16 cores): one has the "
             "lowest latency, several serve more callers");
  add.Number("--stream-queues", &o.stream_queues, 0, 256,
             "Threads that receive streams (0: one for every 4 cores); they "
             "sleep while there are none");
  add.Time("--busy-poll-us", &o.busy_poll, absl::Microseconds(1), 0, 10'000,
           false,
           "How long threads poll for more work, each on a core of its own, "
           "before they sleep: a call that soon follows another then wakes "
           "no thread (0: they sleep at once)");

  add.Group("Shared memory, with clients of this host");
  add.Text("--memory-socket", &o.memory_socket, "PATH",
           "Unix socket where clients of this machine hand in memory of the "
           "host or of a GPU; calls then work in that memory, and no tensor is "
           "sent (quantctl --transport shared; default: none)");
  add.Size("--shared-memory-limit", &o.shared_memory_limit,
           "Largest amount of shared memory mapped at once; a connection may "
           "have half of it");
  add.List("--memory-peers", &o.memory_peers, "",
           "Users (names or numbers, separated by commas) that may share "
           "memory (default: the server's own user)")
      ->type_name("USERS");
}

void AddShutdownAndLog(Flags& add, ServerOptions& o) {
  add.Group("Shutdown (SIGTERM or SIGINT; twice: at once)");
  add.Time("--drain-delay-ms", &o.drain_delay, kMs, 0, kHourMs, false,
           "Time between health NOT_SERVING and refusing new calls");
  add.Time("--drain-timeout-s", &o.drain_timeout, kSecond, 0, kDay, false,
           "Longest time for accepted calls to finish");

  add.Group("Log (on stderr)");
  const std::map<std::string, LogLevel> levels = {{"debug", LogLevel::kDebug},
                                                  {"info", LogLevel::kInfo},
                                                  {"warn", LogLevel::kWarn},
                                                  {"error", LogLevel::kError},
                                                  {"off", LogLevel::kOff}};
  const std::map<std::string, LogFormat> formats = {{"text", LogFormat::kText},
                                                    {"json", LogFormat::kJson}};
  add.Word("--log-level", &o.log_level, "info", levels,
           CLI::IsMember(levels).description("LEVEL"),
           "debug (a line for every call), info, warn, error or off");
  add.Word("--log-format", &o.log_format, "text", formats,
           CLI::IsMember(formats).description("FORMAT"), "text or json");
}

// Implements ParseCommandLine, but returns errors in the environment and the
// file instead of printing them.
absl::StatusOr<int> Parse(int argc, char** argv, CommandLine* command) {
  CLI::App app(kDescription, "quantd");
  app.footer(kFooter);
  app.set_version_flag("--version", "quantd " QUANTD_VERSION);
  std::string file;
  bool check = false;
  bool probe = false;
  Flags add(&app);
  add.Group(kActions);
  add.Text(
      "--config", &file, "FILE",
      "File of settings, one on a line: any flag below without its dashes, "
      "like listen = 0.0.0.0:50151; unknown keys are refused");
  add.Switch("--check-config", &check,
             "Read and check everything that a start would; print the settings "
             "in effect and exit with 0, or print the error and exit with 2");
  add.Switch("--probe", &probe,
             "Ask the server that runs with these settings for its health, "
             "and exit with 0 (serving), 1 (not serving or not there) or 2 "
             "(settings that cannot work)");
  AddAddressAndSecurity(add, command->options, command->probe);
  AddDevices(add, command->options);
  AddAdmission(add, command->options);
  AddShutdownAndLog(add, command->options);
  ReadNumbersStrictly(&app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e);
  }
  auto read = ReadLayers(&app, kActions, "--config", command);
  if (!read.ok()) return read;
  add.Finish();
  command->action = probe   ? Action::kProbe
                    : check ? Action::kCheckConfiguration
                            : Action::kServe;
  return -1;
}

}  // namespace

int ParseCommandLine(int argc, char** argv, CommandLine* command) {
  const absl::StatusOr<int> code = Parse(argc, argv, command);
  if (code.ok()) return *code;
  fmt::print(stderr, "quantd: {}\n", std::string(code.status().message()));
  return kExitBadConfiguration;
}

}  // namespace quantd
