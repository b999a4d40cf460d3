// Processes that a benchmark or test starts, observes and stops.
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

class Process {
 public:
  // Runs `command`. Its output goes to a file, see Log().
  explicit Process(const std::vector<std::string>& command) { Run(command); }
  // Ends the process and waits for it.
  ~Process();
  Process(const Process&) = delete;

  pid_t pid() const { return pid_; }

  uint64_t MinorFaults() const;
  uint64_t Status(const std::string& key) const { return StatusOf(pid_, key); }
  std::string Log() const;

  void Signal(int number) const;
  static constexpr int kRunning = -1000;
  // Waits at most `seconds` for the exit. Returns the exit code, the negative
  // number of a signal, or kRunning if the process still runs.
  int WaitForExit(double seconds);

 protected:
  Process() = default;
  void Run(std::vector<std::string> command);

  TempDir directory_;
  pid_t pid_ = -1;
};

class ServerProcess : public Process {
 public:
  // Runs `command` with "--port-file FILE" appended, and waits at most a minute
  // until it has written its address. Check running() afterwards.
  explicit ServerProcess(std::vector<std::string> command);

  bool running() const { return !address_.empty(); }
  const std::string& address() const { return address_; }

 private:
  std::string address_;
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
