// The quantd program.
#include <fcntl.h>
#include <grpc/grpc.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "proto/net/allocator.h"
#include "server/config/options.h"
#include "server/net/acceptor.h"
#include "server/net/credentials.h"
#include "server/net/listen_socket.h"
#include "server/observe/log.h"
#include "server/observe/probe.h"
#include "server/server.h"

namespace {

constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;
constexpr int kExitUnclean = 3;  // calls were cancelled, or memory was lost
constexpr int kExitRestart = 4;  // no device works; a new process may help
constexpr int kExitAtOnce = 130;

// Longest time that the end of the program waits until the log is written.
constexpr absl::Duration kLogPatience = absl::Seconds(1);

// Writes all of the file or nothing: a reader never sees half a line. Returns 0
// or an errno.
int WriteAtomically(const std::string& path, const std::string& text) {
  const std::string draft = path + ".new";
  // Removes what another user may have put there, so that no link is followed:
  // the folder may be writable by everybody.
  unlink(draft.c_str());
  const int fd = open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                      S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH);
  if (fd < 0) return errno;
  const std::string line = text + '\n';
  errno = EIO;  // a short write sets no errno
  bool written =
      write(fd, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  written = close(fd) == 0 && written;
  if (written && std::rename(draft.c_str(), path.c_str()) == 0) return 0;
  const int error = errno;
  unlink(draft.c_str());
  return error;
}

// Prints on standard error, after the log, why the program ends, unless nobody
// reads it.
int End(int code, const std::string& message) {
  if (quantd::FlushLog(kLogPatience)) {
    std::cerr << "quantd: " << message << '\n';
  }
  return code;
}

// Replaces std::terminate's abort while the server starts: reports a lack of
// memory, for which it needs none.
[[noreturn]] void EndWithoutMemory() {
  try {
    if (const auto thrown = std::current_exception()) {
      std::rethrow_exception(thrown);
    }
  } catch (const std::bad_alloc&) {
  } catch (const std::system_error&) {  // a thread could not be created
  } catch (...) {
    std::abort();
  }
  dprintf(
      STDERR_FILENO,
      "quantd: not enough memory, threads or address space to start: raise the "
      "limits (ulimit -v: to 1 GiB more than --memory-budget), or lower "
      "--memory-budget, --cpu-threads or --slots\n");
  _exit(kExitFailed);
}

// Handles signals, and returns when one says to stop.
void AwaitStop(const sigset_t& signals, quantd::Server& server) {
  while (true) {
    int number = 0;
    sigwait(&signals, &number);
    if (number != SIGHUP) return;
    quantd::Log(quantd::LogLevel::kInfo, "reload",
                {{"transport", server.credentials().transport()},
                 {"tokens", server.credentials().tokens()}});
    server.credentials().Reload();
  }
}

// --check-config: reports everything that a start would find wrong before it
// opens devices and the address, and also unknown variables, about which a
// start only warns.
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
  const auto ends = std::set_terminate(EndWithoutMemory);
  const std::string allocator = quantd::TuneAllocator();
  // Debian's absl searches for lock cycles at every lock, which costs a
  // twentieth of a small call. Servers in tests keep the search.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);

  // Blocked before any thread starts, so that only AwaitStop takes them.
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) {
    sigaddset(&signals, number);
  }
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  // SIGXFSZ means that a file may not grow: a full log must not end the server.
  for (const int number : {SIGPIPE, SIGUSR1, SIGUSR2, SIGXFSZ}) {
    signal(number, SIG_IGN);
  }

  quantd::CommandLine command;
  if (const int code = quantd::ParseCommandLine(argc, argv, &command);
      code >= 0) {
    return code == 0 ? 0 : kExitUsage;
  }
  quantd::ServerOptions& options = command.options;
  // Stops in the usual way, which answers calls first.
  options.on_hopeless = [] { kill(getpid(), SIGTERM); };
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
  // Never undone: shutting gRPC down waits for a thread of its own, up to 10 s
  // by the wall clock.
  grpc_init();
  const absl::Cleanup flush = [] { quantd::FlushLog(kLogPatience); };
  const uint64_t descriptors = quantd::RaiseDescriptorLimit();
  Log(LogLevel::kInfo, "start",
      {{"version", QUANTD_VERSION},
       {"devices", options.devices.empty()
                       ? "auto"
                       : fmt::format("{}", fmt::join(options.devices, ","))},
       {"allocator", allocator}});
  Log(LogLevel::kInfo, "configuration",
      {{"settings", quantd::ToLine(command.settings)}});
  for (const std::string& name : command.unknown_environment) {
    Log(LogLevel::kWarn, "unknown_environment", {{"name", name}});
  }

  auto server = quantd::Server::Start(options);
  if (!server.ok()) {
    return End(
        absl::IsInvalidArgument(server.status()) ? kExitUsage : kExitFailed,
        std::string(server.status().message()));
  }
  const quantd::MemoryShares& shares = (*server)->shares();
  (*server)->LogDevices();
  Log(LogLevel::kInfo, "serving",
      {{"address", (*server)->address()},
       {"transport", (*server)->credentials().transport()},
       {"tokens", (*server)->credentials().tokens()},
       {"pid", getpid()},
       {"max_descriptors", descriptors},
       {"memory_bound_bytes", shares.bound},
       {"memory_budget_bytes", shares.budget},
       {"receive_bytes", shares.receive},
       {"payload_bytes_per_device", shares.per_device},
       {"grpc_quota_bytes", shares.grpc_quota}});
  if (const std::string text = quantd::StartWarning(options); !text.empty()) {
    Log(LogLevel::kWarn, "exposed",
        {{"address", (*server)->address()}, {"warning", text}});
  }
  const std::string metrics = (*server)->metrics_address();
  if (!metrics.empty()) {
    Log(LogLevel::kInfo, "metrics",
        {{"url", "http://" + metrics + "/metrics"}});
  }
  const std::string metrics_file = options.port_file.empty() || metrics.empty()
                                       ? ""
                                       : options.port_file + ".metrics";
  // The other file and the log are complete before the port file appears.
  quantd::FlushLog(kLogPatience);
  std::vector<quantd::OwnFile> files;
  for (const auto& [path, address] :
       {std::pair(metrics_file, metrics),
        std::pair(options.port_file, (*server)->address())}) {
    if (path.empty()) continue;
    const int error = WriteAtomically(path, address);
    if (error == 0) {
      files.emplace_back(path);
      continue;
    }
    for (const quantd::OwnFile& file : files) file.Remove();
    return End(kExitFailed,
               fmt::format("cannot write --port-file {}: {}; name a file in a "
                           "folder that exists and that user {} may write to",
                           path, std::strerror(error), geteuid()));
  }

  std::set_terminate(ends);
  AwaitStop(signals, **server);
  std::thread([&signals] {
    int number = SIGHUP;
    // No new connections come, so files need not be read again.
    while (number == SIGHUP) sigwait(&signals, &number);
    _exit(kExitAtOnce);
  }).detach();
  const bool clean = (*server)->Drain(options.drain_delay);
  for (const quantd::OwnFile& file : files) file.Remove();
  const int code = (*server)->wants_restart() ? kExitRestart
                   : clean                    ? 0
                                              : kExitUnclean;
  if ((*server)->stuck()) {
    // Only the system can end threads that hang.
    quantd::FlushLog(kLogPatience);
    _exit(code);
  }
  server->reset();
  return code;
}
