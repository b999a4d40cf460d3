#include "client/checkpoint/convert/journal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <span>
#include <string_view>
#include <vector>

#include "client/checkpoint/model.h"
#include "client/files/file.h"
#include "client/files/words.h"
#include "fmt/format.h"

// Header-only, so that nothing is linked and everything can be inlined.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace quantd::checkpoint {
namespace {

constexpr std::string_view kTitle = "quantd-journal-1";
constexpr size_t kMostBytes = size_t{1} << 30;
constexpr size_t kCheckDigits = 8;

// The check of a line. A line that was cut off by a crash fails it.
std::string CheckOf(std::string_view text) {
  ContentHash hash;
  hash.Add(text);
  return hash.Hex().substr(0, kCheckDigits);
}

std::string Line(std::string_view text) {
  return fmt::format("{} {}\n", text, CheckOf(text));
}

// The words of a line without its check; empty if the check fails.
std::vector<std::string_view> WordsOf(std::string_view line) {
  const size_t last = line.rfind(' ');
  if (last == std::string_view::npos ||
      line.substr(last + 1) != CheckOf(line.substr(0, last))) {
    return {};
  }
  return Split(line.substr(0, last), ' ');
}

}  // namespace

absl::StatusOr<std::unique_ptr<Journal>> Journal::Open(
    const std::string& path, const std::string& fingerprint) {
  std::unique_ptr<Journal> journal(new Journal);
  journal->path_ = path;
  journal->fd_ = open(
      path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (journal->fd_ < 0) {
    return absl::ErrnoToStatus(errno, fmt::format("cannot create {}", path));
  }
  if (flock(journal->fd_, LOCK_EX | LOCK_NB) != 0) {
    return absl::AbortedError(fmt::format(
        "another process is converting into the same directory ({})", path));
  }
  if (auto s = journal->Read(fingerprint); !s.ok()) return s;
  return journal;
}

Journal::~Journal() {
  if (fd_ >= 0) close(fd_);
}

absl::Status Journal::Read(const std::string& fingerprint) {
  const std::string title = fmt::format("{} {}", kTitle, fingerprint);
  const auto text = ReadText(InputFile::Open(path_), kMostBytes);
  if (!text.ok()) return text.status();
  std::string_view rest = *text;
  const size_t end = rest.find('\n');
  // Without a complete title, the earlier process has not converted anything.
  if (end == std::string_view::npos) {
    if (ftruncate(fd_, 0) != 0) {
      return absl::ErrnoToStatus(errno, fmt::format("cannot write {}", path_));
    }
    return WriteLine(Line(title));
  }
  resumed_ = true;
  const auto words = WordsOf(rest.substr(0, end));
  if (words.size() != 2 || words[0] != kTitle || words[1] != fingerprint) {
    return absl::FailedPreconditionError(
        fmt::format("{}: belongs to an interrupted conversion of another model "
                    "or with other options; repeat that command to finish it, "
                    "or remove the directory",
                    path_));
  }
  rest.remove_prefix(end + 1);
  size_t whole = text->size() - rest.size();
  while (!rest.empty()) {
    const size_t stop = rest.find('\n');
    if (stop == std::string_view::npos) break;
    const auto line = WordsOf(rest.substr(0, stop));
    rest.remove_prefix(stop + 1);
    whole = text->size() - rest.size();
    size_t unit = 0;
    if (line.size() != 3 ||
        std::from_chars(line[0].data(), line[0].data() + line[0].size(), unit)
                .ec != std::errc()) {
      continue;
    }
    done_[unit] = {std::string(line[1]), std::string(line[2])};
  }
  // Removes an incomplete line at the end before anything is appended.
  if (whole < text->size() && ftruncate(fd_, static_cast<off_t>(whole)) != 0) {
    return absl::ErrnoToStatus(errno, fmt::format("cannot write {}", path_));
  }
  return absl::OkStatus();
}

absl::Status Journal::WriteLine(const std::string& line) {
  if (WriteAll(fd_, std::nullopt, std::as_bytes(std::span(line)))) {
    return absl::OkStatus();
  }
  return absl::ErrnoToStatus(errno, fmt::format("cannot write {}", path_));
}

absl::Status Journal::Append(size_t unit, const UnitHashes& hashes) {
  const std::string line =
      Line(fmt::format("{} {} {}", unit, hashes.source, hashes.output));
  const std::lock_guard lock(mutex_);
  return WriteLine(line);
}

absl::Status Journal::Remove() {
  if (unlink(path_.c_str()) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, fmt::format("cannot remove {}", path_));
}

void ContentHash::Free::operator()(void* state) const {
  XXH3_freeState(static_cast<XXH3_state_t*>(state));
}

ContentHash::ContentHash() : state_(XXH3_createState()) {
  XXH3_128bits_reset(static_cast<XXH3_state_t*>(state_.get()));
}

void ContentHash::Add(absl::Span<const std::byte> bytes) {
  XXH3_128bits_update(static_cast<XXH3_state_t*>(state_.get()), bytes.data(),
                      bytes.size());
}

void ContentHash::Add(std::string_view text) {
  Add({reinterpret_cast<const std::byte*>(text.data()), text.size()});
}

std::string ContentHash::Hex() const {
  const XXH128_hash_t hash =
      XXH3_128bits_digest(static_cast<const XXH3_state_t*>(state_.get()));
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace quantd::checkpoint
