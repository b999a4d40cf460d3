// A directory that is removed at the end of a test, and functions that read and
// write whole files.
#ifndef QUANTD_TESTS_CLIENT_TEMP_DIR_H_
#define QUANTD_TESTS_CLIENT_TEMP_DIR_H_

#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

namespace quantd {

class TempDir {
 public:
  TempDir() {
    std::string name = std::filesystem::temp_directory_path() / "quantd.XXXXXX";
    if (mkdtemp(name.data()) == nullptr) abort();
    path_ = name;
  }
  ~TempDir() { std::filesystem::remove_all(path_); }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  std::string operator/(std::string_view name) const {
    return (path_ / name).string();
  }
  const std::filesystem::path& path() const { return path_; }
  size_t files() const {
    return std::distance(std::filesystem::directory_iterator(path_), {});
  }

 private:
  std::filesystem::path path_;
};

// Makes a device like /dev/null (1, 3) or /dev/full (1, 7) at `path` and
// returns `path`. A faulty test that replaces a device then does not remove the
// machine's own. Returns `usual` if the process may not make devices.
inline std::string OwnDevice(const std::string& path, unsigned minor_number,
                             const std::string& usual) {
  const bool made =
      mknod(path.c_str(), S_IFCHR | 0666, makedev(1, minor_number)) == 0;
  return made || geteuid() == 0 ? path : usual;
}

inline void WriteFile(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

inline std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace quantd

#endif  // QUANTD_TESTS_CLIENT_TEMP_DIR_H_
