#include "client/tensors/piece_work.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <mutex>

#include "client/tensors/on_threads.h"
#include "fmt/format.h"

namespace quantd::client {
namespace {

// A multiple of every block, rotation and scale tile, at which every format may
// be cut.
constexpr int64_t kUnit = 128;
// Limit of an amax list, which must fit into a message with the payload.
constexpr int64_t kMostListed = 16384;

}  // namespace

size_t Room(const PieceOptions& pieces) {
  constexpr size_t kOptions = size_t{256} << 10;
  const size_t limit = pieces.request_bytes;
  return limit - std::min(limit / 4, kOptions);
}

absl::StatusOr<std::vector<Shard>> Cut(const Plan& whole, size_t element,
                                       const PieceOptions& pieces,
                                       bool listed) {
  const int64_t rows = whole.rows();
  const int64_t cols = whole.cols();
  const auto most = static_cast<int64_t>(
      std::min(Room(pieces), pieces.piece_bytes) / element);
  const int64_t least = std::min(kUnit, rows);
  if (most < least * std::min(kUnit, cols)) {
    return absl::ResourceExhaustedError(
        fmt::format("a tensor of {} x {} exceeds the limit of a request, {} "
                    "bytes, and so do "
                    "pieces of {} x {}",
                    rows, cols, pieces.request_bytes, kUnit, kUnit));
  }
  const int64_t lines =
      listed ? kMostListed : std::numeric_limits<int64_t>::max();
  // Takes whole rows if possible, because they are contiguous.
  int64_t width = std::min({cols, lines, most / least});
  if (width < cols) width = width / kUnit * kUnit;
  int64_t height = std::min({rows, lines, most / width});
  if (height < rows) height = height / kUnit * kUnit;
  std::vector<Shard> cut;
  for (int64_t row = 0; row < rows; row += height) {
    for (int64_t column = 0; column < cols; column += width) {
      cut.push_back({row,
                     column,
                     std::min(height, rows - row),
                     std::min(width, cols - column),
                     {}});
    }
  }
  return cut;
}

absl::Status ForEach(const std::vector<Shard>& cut, int at_once,
                     const std::function<absl::Status(const Shard&)>& work) {
  std::mutex mutex;
  absl::Status status;
  std::atomic<size_t> next = 0;
  const auto loop = [&] {
    for (;;) {
      const size_t i = next++;
      if (i >= cut.size()) return;
      const absl::Status s = work(cut[i]);
      if (s.ok()) continue;
      next = cut.size();
      const std::lock_guard lock(mutex);
      status.Update(s);
    }
  };
  OnThreads(at_once, loop);
  return status;
}

absl::StatusOr<HostMemory> Allocate(Client& client, size_t size) {
  // If no memory can be shared, the call sends a message instead.
  auto memory = client.TakeHost(size);
  return memory.ok() ? std::move(memory) : HostMemory::Ordinary(size);
}

absl::StatusOr<HostMemory> Read(Client& client, const TensorReader& input,
                                int64_t cols, size_t element,
                                const Shard& piece) {
  const auto bytes = [&](int64_t elements) {
    return static_cast<size_t>(elements) * element;
  };
  auto buffer = Allocate(client, bytes(piece.rows * piece.cols));
  if (!buffer.ok()) return buffer.status();
  const bool together = piece.cols == cols;
  const int64_t runs = together ? 1 : piece.rows;
  const size_t run = buffer->bytes().size() / static_cast<size_t>(runs);
  for (int64_t i = 0; i < runs; ++i) {
    const auto s =
        input(bytes((piece.row + i) * cols + piece.column),
              buffer->bytes().subspan(static_cast<size_t>(i) * run, run));
    if (!s.ok()) return s;
  }
  return buffer;
}

absl::StatusOr<HostMemory> Read(Client& client, const TensorReader& input,
                                size_t size) {
  auto buffer = Allocate(client, size);
  if (!buffer.ok()) return buffer.status();
  if (auto s = input(0, buffer->bytes()); !s.ok()) return s;
  return buffer;
}

}  // namespace quantd::client
