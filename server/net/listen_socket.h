// Sockets that listen.
#ifndef QUANTD_SERVER_NET_LISTEN_SOCKET_H_
#define QUANTD_SERVER_NET_LISTEN_SOCKET_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/net/own_file.h"

namespace quantd {

// Closes its descriptors, and removes the path of a unix socket, on
// destruction. Move-only.
class ListenSockets {
 public:
  // `address` is "HOST:PORT" (port 0: a free one), "unix:PATH" or
  // "unix-abstract:NAME". Listens on every address that the host has;
  // "0.0.0.0" is every address of this machine, those of IPv6 too.
  // UNAVAILABLE, with the system's reason, where that cannot be had.
  static absl::StatusOr<ListenSockets> Open(std::string_view address,
                                            int backlog);
  ListenSockets(ListenSockets&& other) noexcept;
  ListenSockets& operator=(ListenSockets&& other) = delete;
  ~ListenSockets();

  // Listens no more.
  void Close();
  // Not blocking.
  const std::vector<int>& descriptors() const { return descriptors_; }
  // What a client dials: the address with the port that was found.
  const std::string& address() const { return address_; }

 private:
  ListenSockets() = default;
  absl::Status OpenUnix(std::string_view address, int backlog);
  absl::Status OpenTcp(std::string_view address, int backlog);

  std::vector<int> descriptors_;
  std::string address_;
  OwnFile file_;  // of a unix socket
};

}  // namespace quantd

#endif  // QUANTD_SERVER_NET_LISTEN_SOCKET_H_
