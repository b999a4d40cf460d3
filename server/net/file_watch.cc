#include "server/net/file_watch.h"

#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "fmt/format.h"

namespace quantd {
namespace {

// Differs when a file was replaced, written, or came or went.
std::string SignatureOf(const std::vector<std::string>& paths) {
  std::string signature;
  for (const std::string& path : paths) {
    struct stat s = {};
    if (stat(path.c_str(), &s) != 0) {
      signature += fmt::format("error {};", errno);
      continue;
    }
    signature += fmt::format("{} {} {} {}.{} {}.{};", s.st_dev, s.st_ino,
                             s.st_size, s.st_mtim.tv_sec, s.st_mtim.tv_nsec,
                             s.st_ctim.tv_sec, s.st_ctim.tv_nsec);
  }
  return signature;
}

}  // namespace

FileWatch::FileWatch(std::vector<WatchedFiles> groups, absl::Duration interval)
    : groups_(std::move(groups)) {
  if (!groups_.empty()) {
    thread_ = std::thread([this, interval] { Run(interval); });
  }
}

FileWatch::~FileWatch() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    wanted_.SignalAll();
  }
  if (thread_.joinable()) thread_.join();
}

void FileWatch::CallNow() {
  absl::MutexLock lock(&mutex_);
  call_now_ = true;
  wanted_.SignalAll();
}

void FileWatch::Run(absl::Duration interval) {
  struct Seen {
    std::string last;
    std::string told;  // empty: nothing yet
  };
  std::vector<Seen> seen(groups_.size());
  while (true) {
    bool at_once = false;
    {
      absl::MutexLock lock(&mutex_);
      wanted_.WaitUntil(&mutex_, SteadyNow() + interval,
                        [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                          return stopping_ || call_now_;
                        });
      if (stopping_) return;
      std::swap(at_once, call_now_);
    }
    for (size_t i = 0; i < groups_.size(); ++i) {
      const std::string now = SignatureOf(groups_[i].paths);
      const bool steady = now == seen[i].last;
      seen[i].last = now;
      if (!at_once && (!steady || now == seen[i].told)) continue;
      seen[i].told = now;
      groups_[i].changed();
    }
  }
}

}  // namespace quantd
