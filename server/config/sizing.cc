#include "server/config/sizing.h"

#include <algorithm>

#include "kernels/device/budget.h"

namespace quantd {
namespace {

// gRPC reads into blocks of 64 KiB; a message's first and last block are shared
// with its neighbours.
constexpr size_t kReceiveSlack = 16 << 10;

// The process without payloads: code, gRPC's own objects, thread stacks in use,
// and the step by which the heap grows.
constexpr size_t kProcessBase = size_t{128} << 20;
// Host memory that the driver maps for one CUDA context.
constexpr size_t kCudaContext = size_t{512} << 20;

}  // namespace

size_t ReceiveNeed(size_t bytes) { return bytes + bytes / 32 + kReceiveSlack; }

size_t HeadNeed(size_t bytes, size_t list_bytes) {
  // The lists, plus HeadMemory's estimate of the other fields.
  const size_t fields = bytes - std::min(bytes, list_bytes);
  const size_t all_fields = wire::HeadMemory(wire::kMaxHeadBytes);
  return wire::HeadMemory(wire::kMaxHeadBytes + list_bytes) - all_fields +
         wire::HeadMemory(std::max(fields, std::min(bytes, kMaxGroups)));
}

MemoryShares DivideBudget(size_t budget, int devices, int cuda_devices) {
  MemoryShares shares;
  shares.budget = budget;
  // A Quantize request of n bytes holds n while it arrives and 2.1 n after.
  shares.receive = budget / 3;
  // Small calls never wait, so the largest message leaves room for them.
  shares.message =
      shares.receive - std::max(shares.receive / 16, size_t{1} << 20);
  // One window for each of 128 waiting calls (the default limit) stays below
  // gRPC's limit.
  shares.window =
      std::clamp(shares.receive / 128, size_t{256} << 10, size_t{1} << 20);
  shares.per_device = (budget - shares.receive) / std::max(devices, 1);
  // One valid head of any kind fits.
  shares.heads = std::max(
      budget / 16, HeadNeed(wire::kMaxRequestHeadBytes, wire::kMaxListBytes));
  // Streams that wait unread hold one flow-control window each, some MiB on a
  // fast connection. Near its limit gRPC kills streams of its own choice, so
  // the limit is well above what is admitted.
  shares.grpc_quota = shares.receive + shares.receive / 2 + (size_t{128} << 20);
  shares.bound = shares.grpc_quota + (budget - shares.receive) + shares.heads +
                 kProcessBase + kCudaContext * cuda_devices;
  return shares;
}

size_t LargestRequest(wire::Method method, const MemoryShares& shares,
                      size_t cap) {
  return LargestThat(std::min(cap, wire::kMaxMessageBytes), [&](size_t bytes) {
    return ReceiveNeed(bytes) <= shares.message &&
           ExpectedPayload(bytes, wire::SpecOf(method).output_sixteenths) <=
               shares.per_device;
  });
}

}  // namespace quantd
