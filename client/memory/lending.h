// Finds the inputs and outputs of a call in memory shared with the server,
// which need not be sent.
#ifndef QUANTD_CLIENT_MEMORY_LENDING_H_
#define QUANTD_CLIENT_MEMORY_LENDING_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "client/memory/shared_region.h"
#include "proto/memory/ranges.h"
#include "quantd/buffers.h"
#include "quantd/call_options.h"
#include "quantd/plan.h"

namespace quantd::client {

// What a call lends, and the rest of its payload. Keeps the regions alive.
struct Lending {
  wire::LentRanges ranges;
  // The amax, if it lies outside of the regions and is sent as a field of the
  // request.
  std::optional<float> amax;
  std::vector<absl::Span<const std::byte>> payload;

  struct Use {
    std::shared_ptr<SharedRegion> region;
    std::shared_ptr<DoorConnection> connection;
  };
  std::vector<Use> uses;
  // Whether some of it is GPU memory, which cannot be sent.
  bool of_device = false;
  // Not OK if the call cannot be made: some of its memory can be neither sent
  // nor lent.
  absl::Status status;
  // Destinations of the results: the caller's, and further ones in `own`.
  std::vector<Destination> places;
  HostMemory own;

  bool any() const { return !uses.empty(); }
  // Records that the server no longer knows these regions.
  void Lose() const;
  // Must be called if the call ended without an answer from the server.
  void Settle() const;
};

// The regions of one client, by address. Thread-safe.
class SharedRegions {
 public:
  void Add(const std::shared_ptr<SharedRegion>& region);

  // Whether the bytes are within a region.
  bool Holds(absl::Span<const std::byte> bytes);
  // False if a server that stopped answering may still write there.
  bool Settled(absl::Span<const std::byte> bytes);

  // Lends tensors that are aligned and lie within one region; inputs only if
  // all inputs do. `patience` limits the time to share a region or event again.
  Lending Lend(const Plan& plan,
               absl::Span<const absl::Span<const std::byte>> payload,
               absl::Span<const Destination> into, const CallEvents& events,
               std::chrono::milliseconds patience);

 private:
  struct Found;
  Lending LendAll(const Plan& plan,
                  absl::Span<const absl::Span<const std::byte>> payload,
                  absl::Span<const Destination> into,
                  std::chrono::milliseconds patience);
  absl::Status CheckDevice(
      const Plan& plan, absl::Span<const absl::Span<const std::byte>> payload,
      absl::Span<const Destination> into, const Lending& lending);
  static absl::Status LendEvents(const CallEvents& events,
                                 std::chrono::milliseconds patience,
                                 Lending* lending);
  std::shared_ptr<SharedRegion> RegionOf(absl::Span<const std::byte> bytes);
  std::optional<Found> Find(absl::Span<const std::byte> bytes,
                            std::chrono::milliseconds patience);

  std::mutex mutex_;
  std::map<uintptr_t, std::weak_ptr<SharedRegion>> regions_;
};

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_MEMORY_LENDING_H_
