#include "tests/attack/edge/edge.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <sstream>
#include <thread>

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

sockaddr_in Loopback(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

// Returns a loopback port that is probably free.
int FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof(address);
  const bool known =
      bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
      getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  close(fd);
  return known ? ntohs(address.sin_port) : 0;
}

bool Listens(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = Loopback(port);
  const bool does = connect(fd, reinterpret_cast<const sockaddr*>(&address),
                            sizeof(address)) == 0;
  close(fd);
  return does;
}

}  // namespace

bool Edge::IsHere() { return !Program().empty(); }

Edge::Edge(const std::string& server, const std::string& ready,
           const std::string& certificate) {
  const std::string program = Program();
  const int port = FreePort();
  if (program.empty() || port == 0) return;
  address_ = "127.0.0.1:" + std::to_string(port);
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
  while (!Listens(port)) {
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
