// A file that this process has made where others may make theirs.
#ifndef QUANTD_SERVER_NET_OWN_FILE_H_
#define QUANTD_SERVER_NET_OWN_FILE_H_

#include <sys/types.h>

#include <string>
#include <utility>

namespace quantd {

class OwnFile {
 public:
  OwnFile() = default;
  // The one that is there now.
  explicit OwnFile(std::string path);
  // Unless another has taken its place. While something holds the file open, no
  // other is mistaken for it.
  void Remove();

 private:
  using Identity = std::pair<dev_t, ino_t>;
  static Identity IdentityOf(const std::string& path);

  std::string path_;  // empty: nothing is to be removed
  Identity identity_;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_NET_OWN_FILE_H_
