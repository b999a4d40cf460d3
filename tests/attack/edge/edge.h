// The HAProxy of deploy/edge, in front of a server under attack.
#ifndef QUANTD_TESTS_ATTACK_EDGE_EDGE_H_
#define QUANTD_TESTS_ATTACK_EDGE_EDGE_H_

#include <sys/types.h>

#include <memory>
#include <string>

#include "tests/bench/rpc_process.h"

namespace quantd::attack {

class Edge {
 public:
  // Listens on a loopback port with the certificate and key of a PEM file.
  // Forwards calls to `server` while its metrics address `ready` reports that
  // it is ready. Both are "IP:PORT". The constructor returns once HAProxy
  // listens or has failed.
  Edge(const std::string& server, const std::string& ready,
       const std::string& certificate);

  bool running() const { return process_ != nullptr; }
  pid_t pid() const { return running() ? process_->pid() : -1; }
  const std::string& address() const { return address_; }

  // Returns whether HAProxy is installed: in PATH, in /usr/sbin, or at the path
  // in HAPROXY.
  static bool IsHere();

 private:
  std::string address_;
  std::unique_ptr<bench::Process> process_;
};

}  // namespace quantd::attack

#endif  // QUANTD_TESTS_ATTACK_EDGE_EDGE_H_
