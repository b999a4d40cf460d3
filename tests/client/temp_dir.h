// A directory that is gone with the test, and whole files as strings.
#ifndef QUANTD_TESTS_CLIENT_TEMP_DIR_H_
#define QUANTD_TESTS_CLIENT_TEMP_DIR_H_

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "gtest/gtest.h"

namespace quantd {

class TempDir {
 public:
  TempDir() {
    std::string name = testing::TempDir() + "/quantd.XXXXXX";
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

inline void WriteFile(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

inline std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace quantd

#endif  // QUANTD_TESTS_CLIENT_TEMP_DIR_H_
