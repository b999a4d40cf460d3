// The HAProxy of deploy/edge, in front of a server under attack.
#ifndef QUANTD_TESTS_ATTACK_EDGE_EDGE_H_
#define QUANTD_TESTS_ATTACK_EDGE_EDGE_H_

#include <sys/types.h>

#include <string>

namespace quantd::attack {

class Edge {
 public:
  // Listens on a loopback port with the certificate and key of a PEM file.
  // Forwards calls to `server` while its metrics address `ready` reports that
  // it is ready. Both are "IP:PORT". The constructor returns once HAProxy
  // listens or has failed.
  Edge(const std::string& server, const std::string& ready,
       const std::string& certificate);
  ~Edge();
  Edge(const Edge&) = delete;

  bool running() const { return pid_ > 0; }
  pid_t pid() const { return pid_; }
  const std::string& address() const { return address_; }

  // Returns whether HAProxy is installed: in PATH, in /usr/sbin, or at the path
  // in HAPROXY.
  static bool IsHere();

 private:
  void End();

  std::string address_;
  pid_t pid_ = -1;
};

}  // namespace quantd::attack

#endif  // QUANTD_TESTS_ATTACK_EDGE_EDGE_H_
