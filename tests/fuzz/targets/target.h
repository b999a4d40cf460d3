// Common parts of fuzz targets. Each source in this folder defines
// LLVMFuzzerTestOneInput. It is linked with libFuzzer to search, and with
// replay.cc to replay the corpus.
#ifndef QUANTD_TESTS_FUZZ_TARGETS_TARGET_H_
#define QUANTD_TESTS_FUZZ_TARGETS_TARGET_H_

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace quantd::fuzz {

// Ends the process unless `right` holds, which the fuzzer counts as a finding.
inline void Check(bool right, std::string_view otherwise) {
  if (right) return;
  std::fprintf(stderr, "FINDING: %.*s\n", static_cast<int>(otherwise.size()),
               otherwise.data());
  std::abort();
}

// Checks that an error has one of these codes, and a message.
inline void CheckRefusal(const absl::Status& status,
                         std::initializer_list<absl::StatusCode> codes) {
  for (const absl::StatusCode code : codes) {
    if (status.code() == code) {
      return Check(!status.message().empty(), "an error without a message");
    }
  }
  Check(false, "an error of the wrong kind: " + status.ToString());
}

// An input that is read from its front.
class Input {
 public:
  Input(const uint8_t* data, size_t size)
      : rest_(reinterpret_cast<const char*>(data), size) {}

  uint8_t Byte() {
    if (rest_.empty()) return 0;
    const auto byte = static_cast<uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return byte;
  }
  std::string_view Bytes(size_t count) {
    const std::string_view bytes = rest_.substr(0, count);
    rest_.remove_prefix(bytes.size());
    return bytes;
  }
  std::string_view Rest() { return Bytes(rest_.size()); }
  bool empty() const { return rest_.empty(); }

  // Returns the rest in pieces: a byte gives the number of cuts, and one byte
  // for each cut the length of the piece before it.
  std::vector<std::string_view> Pieces() {
    const std::string_view where = Bytes(Byte() % 16);
    std::vector<std::string_view> pieces;
    for (const char length : where) {
      pieces.push_back(Bytes(static_cast<uint8_t>(length)));
    }
    pieces.push_back(Rest());
    return pieces;
  }

 private:
  std::string_view rest_;
};

}  // namespace quantd::fuzz

#endif  // QUANTD_TESTS_FUZZ_TARGETS_TARGET_H_
