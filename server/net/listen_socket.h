// Listening sockets.
#ifndef QUANTD_SERVER_NET_LISTEN_SOCKET_H_
#define QUANTD_SERVER_NET_LISTEN_SOCKET_H_

#include <sys/types.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace quantd {

// A file made by this process in a folder where others may make files of the
// same name.
class OwnFile {
 public:
  // Remembers the file that is at `path` now.
  explicit OwnFile(std::string path);
  // Removes the file unless another has taken its place. While something holds
  // the file open, no other can be mistaken for it.
  void Remove() const;

 private:
  std::string path_;
  std::pair<dev_t, ino_t> identity_;
};

// Closes its descriptors, and removes the path of a unix socket, on
// destruction. Move-only.
class ListenSockets {
 public:
  // Listens on every address of the host. `address` is "HOST:PORT" (port 0: a
  // free one), "unix:PATH" or "unix-abstract:NAME"; host "0.0.0.0" means every
  // address of this machine, IPv6 included. UNAVAILABLE, with the system's
  // reason, if the address cannot be used.
  static absl::StatusOr<ListenSockets> Open(std::string_view address);
  ListenSockets(ListenSockets&& other) = default;
  ~ListenSockets() { Close(); }

  // Stops listening.
  void Close();
  // Non-blocking descriptors.
  const std::vector<int>& descriptors() const { return descriptors_; }
  // The address that clients dial, with the actual port.
  const std::string& address() const { return address_; }

 private:
  ListenSockets() = default;
  absl::Status OpenUnix(std::string_view address);
  // Returns false, and why, if none of the host's addresses can be used.
  bool OpenHost(const std::string& host, const std::string& port,
                std::string* why);

  std::vector<int> descriptors_;
  std::string address_;
  std::vector<OwnFile> files_;  // paths of unix sockets
};

}  // namespace quantd

#endif  // QUANTD_SERVER_NET_LISTEN_SOCKET_H_
