// Runs processes one after the other that share memory and make calls, and ends
// each by a signal at a random moment. A process runs a disabled test of this
// program, and writes a byte to descriptor 3 when its calls work.
#ifndef QUANTD_TESTS_CLIENT_MEMORY_VICTIMS_H_
#define QUANTD_TESTS_CLIENT_MEMORY_VICTIMS_H_

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/bench/rpc_process.h"

namespace quantd {

class Victims {
 public:
  // `test` is "Suite.DISABLED_Test". It reads the server's address from
  // QUANTD_VICTIM_TARGET and the memory socket from QUANTD_VICTIM_SOCKET.
  Victims(const std::string& test, const std::string& calls,
          const std::string& socket)
      : filter_("--gtest_filter=" + test),
        target_("QUANTD_VICTIM_TARGET=" + calls),
        socket_("QUANTD_VICTIM_SOCKET=" + socket) {}

  // Starts `count` processes and ends each by the signal `by`.
  void End(int count, int by) {
    for (int i = 0; i < count; ++i) {
      ASSERT_NO_FATAL_FAILURE(EndOne(by));
    }
  }
  void EndOne(int by) {
    int ready[2];
    ASSERT_EQ(pipe2(ready, O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ready[1], 3);
    const char* const arguments[] = {self_.c_str(),
                                     "--gtest_also_run_disabled_tests",
                                     filter_.c_str(), nullptr};
    std::vector<const char*> environment = {target_.c_str(), socket_.c_str()};
    for (char** entry = environ; *entry != nullptr; ++entry) {
      environment.push_back(*entry);
    }
    environment.push_back(nullptr);
    pid_t victim = -1;
    ASSERT_EQ(posix_spawn(&victim, self_.c_str(), &actions, nullptr,
                          const_cast<char**>(arguments),
                          const_cast<char**>(environment.data())),
              0);
    posix_spawn_file_actions_destroy(&actions);
    close(ready[1]);
    char byte = 0;
    EXPECT_EQ(read(ready[0], &byte, 1), 1);
    std::this_thread::sleep_for(std::chrono::microseconds(random_() % 20'000));
    kill(victim, by);
    waitpid(victim, nullptr, 0);
    close(ready[0]);
  }

 private:
  const std::string self_ = bench::SelfPath();
  const std::string filter_;
  const std::string target_;
  const std::string socket_;
  std::mt19937 random_{11};
};

}  // namespace quantd

#endif  // QUANTD_TESTS_CLIENT_MEMORY_VICTIMS_H_
