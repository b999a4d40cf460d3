// The HAProxy of deploy/edge, before a server that is attacked through it.
#ifndef QUANTD_TESTS_ATTACK_EDGE_EDGE_H_
#define QUANTD_TESTS_ATTACK_EDGE_EDGE_H_

#include <sys/types.h>

#include <string>

namespace quantd::attack {

class Edge {
 public:
  // Listens on a port of loopback with the certificate and key of that PEM
  // file, and passes calls on to `server` while `ready`, its metrics address,
  // says that it is. Both "IP:PORT". Waits until a server is found behind it.
  Edge(const std::string& server, const std::string& ready,
       const std::string& certificate);
  ~Edge();
  Edge(const Edge&) = delete;

  bool running() const { return pid_ > 0; }
  pid_t pid() const { return pid_; }
  const std::string& address() const { return address_; }

  // Whether HAProxy is installed: that of PATH, of /usr/sbin, or named in
  // HAPROXY.
  static bool IsHere();

 private:
  void End();

  std::string address_;
  pid_t pid_ = -1;
};

}  // namespace quantd::attack

#endif  // QUANTD_TESTS_ATTACK_EDGE_EDGE_H_
