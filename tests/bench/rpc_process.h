// Server processes that a benchmark or test starts, observes and stops.
#ifndef QUANTD_TESTS_BENCH_RPC_PROCESS_H_
#define QUANTD_TESTS_BENCH_RPC_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/client/temp_dir.h"

namespace quantd::bench {

// Returns "VmHWM" or "VmRSS" of a process in bytes, or 0 if it has ended.
uint64_t StatusOf(pid_t pid, const std::string& key);

class ServerProcess {
 public:
  // Runs `command` with "--port-file FILE" appended, and waits at most a minute
  // until it has written its address. Its stderr goes to a file, see Log().
  // Check running() afterwards.
  explicit ServerProcess(std::vector<std::string> command);
  // Ends the process and waits for it.
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;

  bool running() const { return !address_.empty(); }
  const std::string& address() const { return address_; }
  pid_t pid() const { return pid_; }

  uint64_t MinorFaults() const;
  double CpuSeconds() const;  // user and system time of live threads
  uint64_t Status(const std::string& key) const { return StatusOf(pid_, key); }
  std::string Log() const;

  void Signal(int number) const;
  // Waits at most `seconds` for the exit. Returns the exit code, the negative
  // number of a signal, or -1000 if the process still runs.
  int WaitForExit(double seconds);

 private:
  TempDir directory_;
  std::string address_;
  pid_t pid_ = -1;
};

// Returns the quantd binary of this build or bundle, found relative to this
// program, or "".
std::string FindQuantd();
// Runs `quantd arguments` through a shell until it exits. Returns its exit code
// and its output on both streams. `environment` is like "A=1 B=2".
std::pair<int, std::string> RunQuantd(const std::string& arguments,
                                      const std::string& environment = "");
// Returns the path of this program.
std::string SelfPath();

}  // namespace quantd::bench

#endif  // QUANTD_TESTS_BENCH_RPC_PROCESS_H_
