// A file in memory, for parsers that open files by name.
#ifndef QUANTD_TESTS_FUZZ_TARGETS_MEMORY_FILE_H_
#define QUANTD_TESTS_FUZZ_TARGETS_MEMORY_FILE_H_

#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <string_view>

#include "tests/fuzz/targets/target.h"

namespace quantd::fuzz {

class MemoryFile {
 public:
  MemoryFile() : fd_(memfd_create("fuzz", MFD_CLOEXEC)) {
    Check(fd_ >= 0, "no memfd");
  }
  ~MemoryFile() { close(fd_); }
  MemoryFile(const MemoryFile&) = delete;

  // Replaces the content.
  void Write(std::string_view bytes) {
    Check(ftruncate(fd_, 0) == 0, "ftruncate");
    Check(pwrite(fd_, bytes.data(), bytes.size(), 0) ==
              static_cast<ssize_t>(bytes.size()),
          "pwrite");
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  const int fd_;
};

}  // namespace quantd::fuzz

#endif  // QUANTD_TESTS_FUZZ_TARGETS_MEMORY_FILE_H_
