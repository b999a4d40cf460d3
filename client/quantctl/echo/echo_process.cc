#include "client/quantctl/echo/echo_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <string_view>
#include <thread>

#include "fmt/format.h"

extern char** environ;

namespace quantd::quantctl {
namespace {

constexpr int kPatienceMs = 20'000;

// A line without its end; empty: none came in time.
std::string ReadLine(int fd) {
  std::string line;
  char c = 0;
  pollfd one = {fd, POLLIN, 0};
  while (poll(&one, 1, kPatienceMs) > 0 && read(fd, &c, 1) == 1) {
    if (c == '\n') return line;
    line += c;
  }
  return "";
}

}  // namespace

absl::StatusOr<std::unique_ptr<EchoProcess>> EchoProcess::Start(
    const std::string& listen) {
  std::unique_ptr<EchoProcess> echo(new EchoProcess);
  int life[2];
  int out[2];
  if (pipe2(life, O_CLOEXEC) != 0) {
    return absl::ErrnoToStatus(errno, "cannot start an echo");
  }
  echo->lifeline_ = life[1];
  if (pipe2(out, O_CLOEXEC) != 0) {
    const int error = errno;
    close(life[0]);
    return absl::ErrnoToStatus(error, "cannot start an echo");
  }
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, life[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, out[1], STDOUT_FILENO);
  // A terminal's interrupt is for the one that measures.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  std::string words[] = {"quantctl", "echo-server", "--listen", listen,
                         "--for-parent"};
  char* argv[] = {words[0].data(), words[1].data(), words[2].data(),
                  words[3].data(), words[4].data(), nullptr};
  const int error = posix_spawn(&echo->pid_, "/proc/self/exe", &files,
                                &attributes, argv, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  close(life[0]);
  close(out[1]);
  if (error == 0) {
    echo->address_ = ReadLine(out[0]);
  } else {
    echo->pid_ = -1;
  }
  close(out[0]);
  if (error != 0) return absl::ErrnoToStatus(error, "cannot start an echo");
  if (echo->address_.empty()) {
    return absl::InternalError(fmt::format(
        "the echo at {} did not start; run 'quantctl echo-server' by hand, and "
        "name its address with --echo",
        listen));
  }
  return echo;
}

EchoProcess::~EchoProcess() {
  close(lifeline_);
  if (pid_ < 0) return;
  for (int i = 0; i < 100; ++i) {
    if (waitpid(pid_, nullptr, WNOHANG) != 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

}  // namespace quantd::quantctl
