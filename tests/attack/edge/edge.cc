#include "tests/attack/edge/edge.h"

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
  const char* const packed = std::getenv("EDGE_CONFIGURATION");
  process_ = std::make_unique<bench::Process>(std::vector<std::string>{
      "/usr/bin/env", "EDGE_BIND=" + address_,
      "EDGE_CERTIFICATE=" + certificate, "EDGE_SERVER=" + server,
      "EDGE_READY_HOST=" + ready.substr(0, colon),
      "EDGE_READY_PORT=" + ready.substr(colon + 1), program, "-db", "-f",
      packed != nullptr ? packed : QUANTD_EDGE_CONFIGURATION});
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!Listens(address_)) {
    if (std::chrono::steady_clock::now() >= end ||
        process_->WaitForExit(0) != bench::Process::kRunning) {
      process_.reset();
      return;
    }
    std::this_thread::sleep_for(milliseconds(50));
  }
}

}  // namespace quantd::attack
