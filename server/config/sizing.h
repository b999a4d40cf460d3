// How much memory a request may need, told from its size alone, and how the
// server's memory budget is divided. The only home of these numbers, but for
// what a method makes of its request, which its row in proto/methods.h says,
// and what payloads take of a device, which kernels/device/budget.h does.
#ifndef QUANTD_SERVER_CONFIG_SIZING_H_
#define QUANTD_SERVER_CONFIG_SIZING_H_

#include <cstddef>

#include "proto/methods.h"

namespace quantd {

// What the network holds of a message of `bytes`, and what the process needs to
// understand it if its lists are short.
size_t ReceiveNeed(size_t bytes);
// What a head becomes that has `list_bytes` of lists among its `bytes`.
size_t HeadNeed(size_t bytes, size_t list_bytes);
// What a request of `bytes` serialized bytes is expected to need of a device's
// pools, before its plan is known.
size_t ExpectedPayload(wire::Method method, size_t bytes);

struct MemoryShares {
  size_t budget = 0;
  size_t receive = 0;  // gate: messages
  size_t message = 0;  // of them, the most that one may need
  // What gRPC takes of a connection's messages that nobody reads; beside the
  // budget, too.
  size_t window = 0;
  size_t heads = 0;       // gate: beside the budget
  size_t per_device = 0;  // gate, and the limit of each device's pool
  size_t grpc_quota = 0;  // gRPC's own hard wall, above `receive`
  size_t bound = 0;       // the most resident memory of the process
};

// `budget` is divided into what the network may hold and what the pools may
// hold; `bound` adds what gRPC may hold beside admitted messages and what the
// process needs with no payload at all.
MemoryShares DivideBudget(size_t budget, int devices, int cuda_devices);

// The largest request of that method which an empty server can hold, no more
// than `cap`. Of an extreme shape a smaller one may be refused, too, once its
// plan is known.
size_t LargestRequest(wire::Method method, const MemoryShares& shares,
                      size_t cap);

}  // namespace quantd

#endif  // QUANTD_SERVER_CONFIG_SIZING_H_
