// Records the progress of a conversion in the file .quantd-journal. It has a
// line for each group of weights and each decoded weight, appended when the
// bytes are written. Copied tensors have none: they are copied again. The file
// stays valid if the process ends at any point. Hashes detect accidental
// changes of bytes. They do not protect against deliberate changes.
#ifndef QUANTD_CLIENT_CHECKPOINT_CONVERT_JOURNAL_H_
#define QUANTD_CLIENT_CHECKPOINT_CONVERT_JOURNAL_H_

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace quantd::checkpoint {

// Hashes of a unit's source bytes and output bytes.
struct UnitHashes {
  std::string source;
  std::string output;
};

class Journal {
 public:
  // Creates the file or reads an existing one. ABORTED if another process has
  // it open. FAILED_PRECONDITION if it belongs to another conversion, which has
  // another `fingerprint`.
  static absl::StatusOr<std::unique_ptr<Journal>> Open(
      const std::string& path, const std::string& fingerprint);
  ~Journal();
  Journal(const Journal&) = delete;

  // Whether the file existed and had its first line: an earlier process has
  // begun this conversion.
  bool resumed() const { return resumed_; }
  // The entries that the file had when it was opened, by unit.
  const std::map<size_t, UnitHashes>& done() const { return done_; }

  // Thread-safe.
  absl::Status Append(size_t unit, const UnitHashes& hashes);
  // Removes the file once the conversion is complete.
  absl::Status Remove();

 private:
  Journal() = default;
  absl::Status Read(const std::string& fingerprint);
  absl::Status WriteLine(const std::string& line);

  std::string path_;
  int fd_ = -1;
  bool resumed_ = false;
  std::map<size_t, UnitHashes> done_;
  std::mutex mutex_;
};

// The 128-bit XXH3 hash of bytes that are added in pieces. Movable.
class ContentHash {
 public:
  ContentHash();
  ContentHash(ContentHash&&) noexcept = default;
  ContentHash& operator=(ContentHash&&) noexcept = default;

  void Add(absl::Span<const std::byte> bytes);
  void Add(std::string_view text);
  std::string Hex() const;  // 32 hexadecimal digits

 private:
  struct Free {
    void operator()(void* state) const;
  };
  std::unique_ptr<void, Free> state_;
};

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CONVERT_JOURNAL_H_
