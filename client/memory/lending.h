// Which of a call's inputs and outputs lie in memory that is shared with the
// server, and so need not travel.
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

#include "absl/types/span.h"
#include "client/call_options.h"
#include "client/memory/host_region.h"
#include "kernels/plan/plan.h"
#include "proto/memory/ranges.h"

namespace quantd::client {

// What one call lends, and what is left of its payload. Keeps the regions.
struct Lending {
  wire::LentRanges ranges;
  // An input that the request has as a field, not being in a region.
  std::optional<float> amax;
  std::vector<absl::Span<const std::byte>> payload;

  struct Use {
    std::shared_ptr<HostRegion> region;
    std::shared_ptr<DoorConnection> connection;
  };
  std::vector<Use> uses;

  bool any() const { return !uses.empty(); }
  // The server knows none of it any more.
  void Lose() const;
  // The call ended without the server's word.
  void Settle() const;
};

// The regions of one client, by address. Thread-safe.
class HostRegions {
 public:
  void Add(const std::shared_ptr<HostRegion>& region);

  // What lies in regions as a whole and aligned; inputs all or none. `patience`
  // is what there is for sharing one again.
  Lending Lend(const Plan& plan,
               absl::Span<const absl::Span<const std::byte>> payload,
               absl::Span<const Destination> into,
               std::chrono::milliseconds patience);

 private:
  struct Found;
  std::optional<Found> Find(absl::Span<const std::byte> bytes,
                            std::chrono::milliseconds patience);

  std::mutex mutex_;
  std::map<uintptr_t, std::weak_ptr<HostRegion>> regions_;
};

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_MEMORY_LENDING_H_
