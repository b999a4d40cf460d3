// A server process that a benchmark or test starts, reads about and stops.
#ifndef QUANTD_TESTS_BENCH_RPC_PROCESS_H_
#define QUANTD_TESTS_BENCH_RPC_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace quantd::bench {

// "VmHWM", "VmRSS", in bytes, of a process that is alive; else 0.
uint64_t StatusOf(pid_t pid, const std::string& key);

class ServerProcess {
 public:
  // Runs `command` with "--port-file FILE" appended and waits until it has
  // written its address there, at most a minute. Its stderr goes to a
  // file of its own. Check running().
  explicit ServerProcess(std::vector<std::string> command);
  // Terminates it, and waits.
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;

  bool running() const { return !address_.empty(); }
  const std::string& address() const { return address_; }
  pid_t pid() const { return pid_; }

  uint64_t MinorFaults() const;
  double CpuSeconds() const;  // user and system, of the threads alive
  uint64_t Status(const std::string& key) const { return StatusOf(pid_, key); }
  std::string Log() const;

  void Signal(int number) const;
  // Waits for the end, at most that long. The exit code; negative: a signal,
  // or still running (-1000).
  int WaitForExit(double seconds);

 private:
  std::string directory_;
  std::string address_;
  pid_t pid_ = -1;
};

// The quantd binary of this build or bundle, found from where this program
// lies. Empty: not found.
std::string FindQuantd();
// What `quantd arguments` says on both streams and its exit code, for runs
// that end at once. Both as for a shell; `environment` like "A=1 B=2".
std::pair<int, std::string> RunQuantd(const std::string& arguments,
                                      const std::string& environment = "");
// This program.
std::string SelfPath();

}  // namespace quantd::bench

#endif  // QUANTD_TESTS_BENCH_RPC_PROCESS_H_
