#include "client/checkpoint/convert/units.h"

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "client/result.h"

namespace quantd::checkpoint {

absl::Status DoUnits(
    size_t units, int at_once, size_t room_bytes,
    absl::FunctionRef<absl::Status(size_t, absl::Span<std::byte>)> deed) {
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  absl::Status status;
  const auto loop = [&] {
    // One for all units of a thread: pieces that came and went between results
    // of other sizes would tear the heap.
    AlignedBytes memory(room_bytes);
    for (;;) {
      const size_t unit = next++;
      if (unit >= units) return;
      const auto s = deed(unit, memory.span());
      if (s.ok()) continue;
      next = units;
      const std::lock_guard lock(mutex);
      status.Update(s);
    }
  };
  std::vector<std::thread> others;
  for (int i = 1; i < at_once; ++i) others.emplace_back(loop);
  loop();
  for (std::thread& t : others) t.join();
  return status;
}

}  // namespace quantd::checkpoint
