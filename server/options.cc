#include "server/options.h"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <map>

#include "absl/strings/str_cat.h"
#include "fmt/format.h"
#include "server/http_listener.h"
#include "server/sizing.h"

namespace quantd {
namespace {

// The host part of "host:port" and "[host]:port".
std::string_view HostOf(std::string_view address) {
  if (address.starts_with("[")) {
    return address.substr(1, address.find(']') - 1);
  }
  return address.substr(0, address.rfind(':'));
}

bool IsLocal(std::string_view address) {
  if (address.starts_with("unix:") || address.starts_with("unix-abstract:")) {
    return true;
  }
  const std::string_view host = HostOf(address);
  return host == "localhost" || host == "::1" ||
         (host.starts_with("127.") &&
          host.find_first_not_of("0123456789.") == std::string_view::npos);
}

std::vector<std::string> SplitList(std::string_view list) {
  std::vector<std::string> parts;
  while (true) {
    const size_t comma = list.find(',');
    parts.emplace_back(list.substr(0, comma));
    if (comma == std::string_view::npos) return parts;
    list.remove_prefix(comma + 1);
  }
}

}  // namespace

absl::Status Validate(const ServerOptions& options) {
  if (options.listen.find(':') == std::string::npos) {
    return absl::InvalidArgumentError(fmt::format(
        "--listen {}: expected HOST:PORT or unix:PATH", options.listen));
  }
  if (!IsLocal(options.listen) && !options.insecure_network) {
    return absl::InvalidArgumentError(fmt::format(
        "--listen {} can be reached from other machines, and this version has "
        "neither "
        "encryption nor authentication. Listen on 127.0.0.1 or unix:PATH, or "
        "say --insecure-network if the network is trusted.",
        options.listen));
  }
  if (!options.metrics_address.empty()) {
    const absl::Status s = HttpListener::CheckAddress(options.metrics_address);
    if (!s.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--metrics-address ", s.message()));
    }
  }
  if (options.max_request_bytes > kLargestMessage) {
    return absl::InvalidArgumentError(fmt::format(
        "--max-request-bytes: gRPC allows at most {} bytes", kLargestMessage));
  }
  if (options.memory_budget != 0 &&
      options.memory_budget < (size_t{16} << 20)) {
    return absl::InvalidArgumentError(
        "--memory-budget: expected at least 16MiB");
  }
  return absl::OkStatus();
}

int ParseCommandLine(int argc, char** argv, ServerOptions* options) {
  ServerOptions& o = *options;
  CLI::App app(
      "quantd quantizes tensors (NVFP4 with randomized Hadamard transform) "
      "for gRPC clients, on CUDA devices or on the CPU, with the same bytes.\n"
      "Sizes may be written 4096, 64KiB, 512MiB, 2GiB.",
      "quantd");
  app.set_version_flag("--version", "quantd " QUANTD_VERSION);
  const CLI::AsSizeValue size(false);

  std::string device = "auto";
  int64_t max_wait = absl::ToInt64Milliseconds(o.max_wait);
  int64_t max_receive = absl::ToInt64Milliseconds(o.max_receive);
  int64_t drain_delay = absl::ToInt64Milliseconds(o.drain_delay);
  int64_t drain_timeout = absl::ToInt64Seconds(o.drain_timeout);
  uint64_t budget = o.memory_budget;
  uint64_t max_request = o.max_request_bytes;

  constexpr char kAddress[] = "Address";
  app.add_option("--listen", o.listen,
                 "HOST:PORT (port 0: a free one) or "
                 "unix:PATH")
      ->capture_default_str()
      ->group(kAddress);
  app.add_option("--port-file", o.port_file,
                 "File to write the address to once serving")
      ->group(kAddress);
  app.add_flag("--insecure-network", o.insecure_network,
               "Allow an address that other machines can reach; there is no "
               "encryption or authentication")
      ->group(kAddress);

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
      ->capture_default_str()
      ->group(kDevices);

  constexpr char kMemory[] = "Memory and admission";
  app.add_option("--memory-budget", budget,
                 "Memory for payloads (0: a quarter of the machine's or "
                 "control group's, at most 8GiB)")
      ->transform(size)
      ->capture_default_str()
      ->group(kMemory);
  app.add_option("--max-request-bytes", max_request,
                 "Largest request, made smaller to fit the budget")
      ->transform(size)
      ->capture_default_str()
      ->group(kMemory);
  app.add_option("--max-waiting", o.max_waiting,
                 "Calls that may wait for memory; more are refused as busy")
      ->capture_default_str()
      ->group(kMemory);
  app.add_option("--max-wait-ms", max_wait,
                 "Longest wait for memory before a call is refused as busy")
      ->check(CLI::Range(int64_t{0}, int64_t{3600000}))
      ->capture_default_str()
      ->group(kMemory);
  app.add_option("--max-receive-ms", max_receive,
                 "Longest time a request may take to arrive")
      ->check(CLI::Range(int64_t{1}, int64_t{86400000}))
      ->capture_default_str()
      ->group(kMemory);
  app.add_option("--max-streams", o.max_streams,
                 "Calls at once on one connection")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str()
      ->group(kMemory);
  app.add_option("--queues", o.queues,
                 "Network threads (0: one for every 8 cores)")
      ->check(CLI::Range(0, 256))
      ->capture_default_str()
      ->group(kMemory);

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
  app.add_option("--log-level", o.log_level,
                 "debug (a line for every call), info, warn, error or off")
      ->transform(CLI::CheckedTransformer(levels).description("LEVEL"))
      ->default_str("info")
      ->group(kLog);
  app.add_option("--log-format", o.log_format, "text or json")
      ->transform(CLI::CheckedTransformer(formats).description("FORMAT"))
      ->default_str("text")
      ->group(kLog);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e);
  }
  o.memory_budget = budget;
  o.max_request_bytes = max_request;
  o.max_wait = absl::Milliseconds(max_wait);
  o.max_receive = absl::Milliseconds(max_receive);
  o.drain_delay = absl::Milliseconds(drain_delay);
  o.drain_timeout = absl::Seconds(drain_timeout);
  o.devices.clear();
  if (device != "auto") o.devices = SplitList(device);
  return -1;
}

}  // namespace quantd
