#include "client/checkpoint/convert/units.h"

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

namespace quantd::checkpoint {

absl::Status DoUnits(
    size_t units, int at_once, size_t room_bytes,
    absl::FunctionRef<absl::Status(size_t, absl::Span<std::byte>)> deed,
    const AllocateMemory& allocate) {
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  absl::Status status;
  const auto fail = [&](const absl::Status& s) {
    next = units;
    const std::lock_guard lock(mutex);
    status.Update(s);
  };
  const auto loop = [&] {
    // One for all units of a thread: pieces that came and went between results
    // of other sizes would tear the heap.
    const auto room =
        allocate ? allocate(room_bytes) : HostMemory::Ordinary(room_bytes);
    if (!room.ok()) return fail(room.status());
    for (;;) {
      const size_t unit = next++;
      if (unit >= units) return;
      if (const auto s = deed(unit, room->bytes()); !s.ok()) fail(s);
    }
  };
  std::vector<std::thread> others;
  for (int i = 1; i < at_once; ++i) others.emplace_back(loop);
  loop();
  for (std::thread& t : others) t.join();
  return status;
}

}  // namespace quantd::checkpoint
