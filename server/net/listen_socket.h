// Sockets that listen.
#ifndef QUANTD_SERVER_NET_LISTEN_SOCKET_H_
#define QUANTD_SERVER_NET_LISTEN_SOCKET_H_

#include <sys/types.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace quantd {

// A file that this process has made where others may make theirs.
class OwnFile {
 public:
  // The one that is there now.
  explicit OwnFile(std::string path);
  // Unless another has taken its place. While something holds the file open, no
  // other is mistaken for it.
  void Remove() const;

 private:
  std::string path_;
  std::pair<dev_t, ino_t> identity_;
};

// Closes its descriptors, and removes the path of a unix socket, on
// destruction. Move-only.
class ListenSockets {
 public:
  // `address` is "HOST:PORT" (port 0: a free one), "unix:PATH" or
  // "unix-abstract:NAME". Listens on every address that the host has;
  // "0.0.0.0" is every address of this machine, those of IPv6 too.
  // UNAVAILABLE, with the system's reason, where that cannot be had.
  static absl::StatusOr<ListenSockets> Open(std::string_view address);
  ListenSockets(ListenSockets&& other) = default;
  ~ListenSockets();

  // Listens no more.
  void Close();
  // Not blocking.
  const std::vector<int>& descriptors() const { return descriptors_; }
  // What a client dials: the address with the port that was found.
  const std::string& address() const { return address_; }

 private:
  ListenSockets() = default;
  absl::Status OpenUnix(std::string_view address);
  // False, with the reason: none of the host's addresses can be had.
  bool OpenHost(const std::string& host, const std::string& port,
                std::string* why);

  std::vector<int> descriptors_;
  std::string address_;
  std::vector<OwnFile> files_;  // of a unix socket
};

}  // namespace quantd

#endif  // QUANTD_SERVER_NET_LISTEN_SOCKET_H_
