// The inputs and outputs of a call that lie in memory shared with the server,
// and so need not travel.
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

// What one call lends, and what is left of its payload. Keeps the regions.
struct Lending {
  wire::LentRanges ranges;
  // An input that the request has as a field, not being in a region.
  std::optional<float> amax;
  std::vector<absl::Span<const std::byte>> payload;

  struct Use {
    std::shared_ptr<SharedRegion> region;
    std::shared_ptr<DoorConnection> connection;
  };
  std::vector<Use> uses;
  // Some of it is a GPU's: it cannot travel.
  bool of_device = false;
  // Why a call cannot be made: what cannot travel cannot be lent, either.
  absl::Status status;
  // Places of the results: the caller's, and more in `own`.
  std::vector<Destination> places;
  HostMemory own;

  bool any() const { return !uses.empty(); }
  // The server knows none of it any more.
  void Lose() const;
  // The call ended without the server's word.
  void Settle() const;
};

// The regions of one client, by address. Thread-safe.
class SharedRegions {
 public:
  void Add(const std::shared_ptr<SharedRegion>& region);

  // Whether it lies in a region.
  bool Holds(absl::Span<const std::byte> bytes);
  // Whether no server that was lost sight of may still write there.
  bool Settled(absl::Span<const std::byte> bytes);

  // What lies in regions as a whole and aligned; inputs all or none. `patience`
  // is what there is for sharing one again, or an event.
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
