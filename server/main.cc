// quantd: the server as a program.
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <string>
#include <thread>
#include <utility>

#include "server/allocator.h"
#include "server/credentials.h"
#include "server/log.h"
#include "server/options.h"
#include "server/probe.h"
#include "server/server.h"

namespace {

constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;
constexpr int kExitUnclean = 3;  // calls were cancelled, or memory was lost
constexpr int kExitAtOnce = 130;

// Whole or not at all: a reader never sees half a line.
bool WriteAtomically(const std::string& path, const std::string& text) {
  const std::string draft = path + ".new";
  {
    std::ofstream file(draft, std::ios::trunc);
    file << text << '\n';
    if (!file.flush()) return false;
  }
  return std::rename(draft.c_str(), path.c_str()) == 0;
}

std::string DeviceList(const quantd::ServerOptions& options) {
  std::string list;
  for (const std::string& name : options.devices) {
    list += (list.empty() ? "" : ",") + name;
  }
  return list.empty() ? "auto" : list;
}

// --check-config: all that a start would find wrong before it opens devices
// and the address, and unknown variables too, of which a start only warns.
int CheckConfiguration(const quantd::CommandLine& command) {
  absl::Status status = quantd::Validate(command.options);
  if (status.ok()) {
    status = quantd::ServerCredentials::Load(command.options).status();
  }
  if (status.ok() && !command.unknown_environment.empty()) {
    status = absl::InvalidArgumentError(
        command.unknown_environment.front() +
        ": no setting has this variable; quantd --help lists them");
  }
  if (!status.ok()) {
    std::cerr << "quantd: " << status.message() << '\n';
    return kExitUsage;
  }
  std::cout << quantd::ToText(command.settings);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  using quantd::Log;
  using quantd::LogLevel;
  const std::string allocator = quantd::TuneAllocator();

  // Blocked before any thread starts, so that only this one takes them.
  sigset_t stop_signals;
  sigemptyset(&stop_signals);
  sigaddset(&stop_signals, SIGTERM);
  sigaddset(&stop_signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &stop_signals, nullptr);
  signal(SIGPIPE, SIG_IGN);

  quantd::CommandLine command;
  if (const int code = quantd::ParseCommandLine(argc, argv, &command);
      code >= 0) {
    return code == 0 ? 0 : kExitUsage;
  }
  const quantd::ServerOptions& options = command.options;
  if (command.action == quantd::Action::kCheckConfiguration) {
    return CheckConfiguration(command);
  }
  if (command.action == quantd::Action::kProbe) {
    quantd::ConfigureLog(LogLevel::kOff, options.log_format);
    quantd::CaptureGrpcLog();
    const quantd::ProbeResult probe = quantd::Probe(options, command.probe);
    (probe.exit_code == 0 ? std::cout : std::cerr)
        << "quantd: " << probe.message << '\n';
    return probe.exit_code;
  }
  quantd::ConfigureLog(options.log_level, options.log_format);
  quantd::CaptureGrpcLog();
  Log(LogLevel::kInfo, "start",
      {{"version", QUANTD_VERSION},
       {"devices", DeviceList(options)},
       {"allocator", allocator}});
  Log(LogLevel::kInfo, "configuration",
      {{"settings", quantd::ToLine(command.settings)}});
  for (const std::string& name : command.unknown_environment) {
    Log(LogLevel::kWarn, "unknown_environment", {{"name", name}});
  }

  auto server = quantd::Server::Start(options);
  if (!server.ok()) {
    std::cerr << "quantd: " << server.status().message() << '\n';
    return absl::IsInvalidArgument(server.status()) ? kExitUsage : kExitFailed;
  }
  const quantd::MemoryShares& shares = (*server)->shares();
  (*server)->LogDevices();
  Log(LogLevel::kInfo, "serving",
      {{"address", (*server)->address()},
       {"transport", (*server)->credentials().transport()},
       {"tokens", (*server)->credentials().tokens()},
       {"pid", getpid()},
       {"memory_bound_bytes", shares.bound},
       {"memory_budget_bytes", shares.budget},
       {"receive_bytes", shares.receive},
       {"payload_bytes_per_device", shares.per_device},
       {"grpc_quota_bytes", shares.grpc_quota}});
  const std::string metrics = (*server)->metrics_address();
  if (!metrics.empty()) {
    Log(LogLevel::kInfo, "metrics",
        {{"url", "http://" + metrics + "/metrics"}});
  }
  const std::string metrics_file = options.port_file.empty() || metrics.empty()
                                       ? ""
                                       : options.port_file + ".metrics";
  // Who sees the port file finds the other there already.
  for (const auto& [path, address] :
       {std::pair(metrics_file, metrics),
        std::pair(options.port_file, (*server)->address())}) {
    if (path.empty() || WriteAtomically(path, address)) continue;
    std::cerr << "quantd: cannot write " << path << '\n';
    return kExitFailed;
  }

  int signal_number = 0;
  sigwait(&stop_signals, &signal_number);
  std::thread([&stop_signals] {
    int second = 0;
    sigwait(&stop_signals, &second);
    _exit(kExitAtOnce);
  }).detach();
  const bool clean = (*server)->Drain(options.drain_delay);
  for (const std::string& path : {metrics_file, options.port_file}) {
    if (!path.empty()) unlink(path.c_str());
  }
  server->reset();
  return clean ? 0 : kExitUnclean;
}
