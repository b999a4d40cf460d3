#include "tests/attack/edge/edge.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <sstream>
#include <thread>

#include "tests/testing/loopback.h"

namespace quantd::attack {
namespace {

using std::chrono::milliseconds;

std::string Program() {
  if (const char* named = std::getenv("HAPROXY")) return named;
  const char* path = std::getenv("PATH");
  std::istringstream folders((path == nullptr ? "" : std::string(path) + ":") +
                             "/usr/sbin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string program = folder + "/haproxy";
    if (access(program.c_str(), X_OK) == 0) return program;
  }
  return "";
}

bool Listens(const std::string& address) {
  const int fd = DialLoopback(address);
  if (fd >= 0) close(fd);
  return fd >= 0;
}

}  // namespace

bool Edge::IsHere() { return !Program().empty(); }

Edge::Edge(const std::string& server, const std::string& ready,
           const std::string& certificate) {
  const std::string program = Program();
  if (program.empty()) return;
  address_ = LoopbackListener(1).target();  // the port is probably still free
  const size_t colon = ready.rfind(':');
  const auto set = [](const char* name, const std::string& value) {
    setenv(name, value.c_str(), 1);
  };
  set("EDGE_BIND", address_);
  set("EDGE_CERTIFICATE", certificate);
  set("EDGE_SERVER", server);
  set("EDGE_READY_HOST", ready.substr(0, colon));
  set("EDGE_READY_PORT", ready.substr(colon + 1));
  pid_ = fork();
  if (pid_ == 0) {
    const int nowhere = open("/dev/null", O_RDWR);
    dup2(nowhere, STDOUT_FILENO);
    dup2(nowhere, STDERR_FILENO);
    const char* const packed = std::getenv("EDGE_CONFIGURATION");
    execl(program.c_str(), program.c_str(), "-db", "-f",
          packed != nullptr ? packed : QUANTD_EDGE_CONFIGURATION, nullptr);
    _exit(127);
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!Listens(address_)) {
    if (std::chrono::steady_clock::now() >= end ||
        waitpid(pid_, nullptr, WNOHANG) != 0) {
      End();
      return;
    }
    std::this_thread::sleep_for(milliseconds(50));
  }
}

Edge::~Edge() { End(); }

void Edge::End() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

}  // namespace quantd::attack
