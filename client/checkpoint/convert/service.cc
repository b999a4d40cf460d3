#include "client/checkpoint/convert/service.h"

#include <atomic>
#include <mutex>

#include "client/tensors/on_threads.h"

namespace quantd::checkpoint {

uint64_t Pace::memory() const {
  // A call holds a piece of input, and its output in two copies: as received
  // and as kept. Output is at most half as large as input, for fp8 from bf16.
  // Heap fragmentation adds another piece. A device in this process holds as
  // much again.
  const uint64_t pieces = in_process ? 6 : 3;
  return static_cast<uint64_t>(at_once) * piece_bytes * pieces +
         (uint64_t{64} << 20);
}

absl::Status ForEachUnit(
    size_t units, int at_once, size_t room_bytes, Service* service,
    absl::FunctionRef<absl::Status(size_t, absl::Span<std::byte>)> work) {
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  absl::Status status;
  const auto fail = [&](const absl::Status& s) {
    next = units;
    const std::lock_guard lock(mutex);
    status.Update(s);
  };
  const auto loop = [&] {
    // Allocated once for each thread, because allocating pieces between results
    // of other sizes would fragment the heap.
    const auto room = service != nullptr ? service->Allocate(room_bytes)
                                         : HostMemory::Ordinary(room_bytes);
    if (!room.ok()) return fail(room.status());
    for (;;) {
      const size_t unit = next++;
      if (unit >= units) return;
      if (const auto s = work(unit, room->bytes()); !s.ok()) fail(s);
    }
  };
  client::OnThreads(at_once, loop);
  return status;
}

}  // namespace quantd::checkpoint
