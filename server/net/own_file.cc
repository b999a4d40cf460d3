#include "server/net/own_file.h"

#include <sys/stat.h>
#include <unistd.h>

namespace quantd {

OwnFile::OwnFile(std::string path)
    : path_(std::move(path)), identity_(IdentityOf(path_)) {}

void OwnFile::Remove() {
  if (!path_.empty() && IdentityOf(path_) == identity_) unlink(path_.c_str());
  path_.clear();
}

OwnFile::Identity OwnFile::IdentityOf(const std::string& path) {
  struct stat status = {};
  if (lstat(path.c_str(), &status) != 0) return {};
  return {status.st_dev, status.st_ino};
}

}  // namespace quantd
