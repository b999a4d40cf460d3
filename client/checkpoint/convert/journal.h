// What of a conversion is done: a line for each unit, appended when its bytes
// were written. Survives the death of the process at any point.
#ifndef QUANTD_CLIENT_CHECKPOINT_CONVERT_JOURNAL_H_
#define QUANTD_CLIENT_CHECKPOINT_CONVERT_JOURNAL_H_

#include <cstddef>
#include <map>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace quantd::checkpoint {

// Hashes of the bytes that a unit was made of and of those that it became.
struct UnitHashes {
  std::string source;
  std::string output;
};

class Journal {
 public:
  // Makes the file, or reads the one that is there. ABORTED while another
  // process has it; FAILED_PRECONDITION where it is of another conversion.
  static absl::StatusOr<std::unique_ptr<Journal>> Open(
      const std::string& path, const std::string& fingerprint);
  ~Journal();
  Journal(const Journal&) = delete;

  // Whether there was one.
  bool resumed() const { return resumed_; }
  // What it said when it was opened. A torn line counts as none.
  const std::map<size_t, UnitHashes>& done() const { return done_; }

  // Thread-safe.
  absl::Status Append(size_t unit, const UnitHashes& hashes);
  // The conversion is whole.
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

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CONVERT_JOURNAL_H_
