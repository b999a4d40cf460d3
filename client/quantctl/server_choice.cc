#include "client/quantctl/server_choice.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "fmt/format.h"

namespace quantd::quantctl {

bool Refuses(uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  // Of this very machine: the answer is there at once.
  const bool refused =
      connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0 &&
      errno == ECONNREFUSED;
  close(fd);
  return refused;
}

void SettleServer(Options* o) {
  if (!Refuses(kDefaultPort)) return;
  o->server = "local";
  fmt::print(stderr,
             "quantctl: no server at {}: working in this process (as with "
             "--server local)\n",
             kDefaultServer);
}

}  // namespace quantd::quantctl
