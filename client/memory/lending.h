// Finds the inputs and outputs of a call that lie in memory shared with the
// server. Their bytes need not be sent.
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

// The tensors that a call lends to the server, and the payload that it sends.
// Keeps the regions alive.
struct Lending {
  wire::LentRanges ranges;
  // The amax input. Set if it lies outside the regions and is sent as a field
  // of the request.
  std::optional<float> amax;
  std::vector<absl::Span<const std::byte>> payload;

  struct Use {
    std::shared_ptr<SharedRegion> region;
    std::shared_ptr<DoorConnection> connection;
  };
  std::vector<Use> uses;
  // Whether a lent tensor lies in GPU memory, which cannot be sent instead.
  bool of_device = false;
  // An error if the call cannot be made, because some of its memory can be
  // neither sent nor lent.
  absl::Status status;
  // Destinations of results: those that the caller gave, and others in `own`,
  // memory of the client's pool. They replace Call::into.
  std::vector<Destination> into;
  HostMemory own;

  bool any() const { return !uses.empty(); }
  // Records that the server no longer knows these regions.
  void Lose() const;
  // To be called after a call that ended without an answer from the server.
  // Waits until the server no longer uses the regions.
  void Settle() const;
};

// The shared regions of one client, by address. Thread-safe.
class SharedRegions {
 public:
  void Add(const std::shared_ptr<SharedRegion>& region);

  // Whether the bytes lie within one region.
  bool Holds(absl::Span<const std::byte> bytes);
  // False if a server that stopped answering may still write to the bytes.
  bool Settled(absl::Span<const std::byte> bytes);

  // Lends the tensors that are aligned to their elements and lie within one
  // region. Inputs are lent only if all of them can be. `patience` limits the
  // time for sharing a region or event again.
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
