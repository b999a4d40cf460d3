#include "server/observe/process_usage.h"

#include <sys/resource.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace quantd {
namespace {

// Seconds since 1970 at which the machine was started.
double BootTime() {
  std::ifstream file("/proc/stat");
  for (std::string word; file >> word;) {
    double seconds = 0;
    if (word == "btime" && file >> seconds) return seconds;
  }
  return 0;
}

}  // namespace

ProcessUsage ReadProcessUsage() {
  ProcessUsage usage;
  const double tick = 1.0 / static_cast<double>(sysconf(_SC_CLK_TCK));
  std::ifstream file("/proc/self/stat");
  std::string stat((std::istreambuf_iterator<char>(file)),
                   std::istreambuf_iterator<char>());
  // The second field is the program's name in parentheses, which may hold
  // anything; proc(5) counts fields from 1, so that [0] here is its field 3.
  stat.erase(0, stat.rfind(')') + 2);
  const std::vector<std::string> fields = absl::StrSplit(stat, ' ');
  const auto field = [&](size_t number) {
    uint64_t value = 0;
    if (number - 3 < fields.size()) {
      (void)absl::SimpleAtoi(fields[number - 3], &value);
    }
    return value;
  };
  usage.cpu_seconds = static_cast<double>(field(14) + field(15)) * tick;
  usage.start_time = BootTime() + static_cast<double>(field(22)) * tick;
  usage.virtual_bytes = field(23);
  usage.resident_bytes = field(24) * static_cast<uint64_t>(getpagesize());
#ifdef __GLIBC__
  const struct mallinfo2 heap = mallinfo2();
  usage.heap_used_bytes = heap.uordblks + heap.hblkhd;
#endif

  std::error_code error;
  const std::filesystem::directory_iterator fds("/proc/self/fd", error);
  if (!error) {
    // One of them is the descriptor that lists them.
    usage.open_fds =
        static_cast<uint64_t>(std::distance(begin(fds), end(fds))) - 1;
  }
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) usage.max_fds = limit.rlim_cur;
  return usage;
}

}  // namespace quantd
