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
#include "server/log.h"
#include "server/options.h"
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

  quantd::ServerOptions options;
  if (const int code = quantd::ParseCommandLine(argc, argv, &options);
      code >= 0) {
    return code == 0 ? 0 : kExitUsage;
  }
  quantd::ConfigureLog(options.log_level, options.log_format);
  quantd::CaptureGrpcLog();
  Log(LogLevel::kInfo, "start",
      {{"version", QUANTD_VERSION},
       {"devices", DeviceList(options)},
       {"allocator", allocator}});

  auto server = quantd::Server::Start(options);
  if (!server.ok()) {
    std::cerr << "quantd: " << server.status().message() << '\n';
    return absl::IsInvalidArgument(server.status()) ? kExitUsage : kExitFailed;
  }
  const quantd::MemoryShares& shares = (*server)->shares();
  (*server)->LogDevices();
  Log(LogLevel::kInfo, "serving",
      {{"address", (*server)->address()},
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
