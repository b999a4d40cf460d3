// Estimates a request's memory from its size alone, and divides the server's
// memory budget. Two of these numbers are elsewhere: how much a method's
// request expands is in its row in proto/methods.h, and how much of a device
// payloads take is in kernels/device/budget.h.
#ifndef QUANTD_SERVER_CONFIG_SIZING_H_
#define QUANTD_SERVER_CONFIG_SIZING_H_

#include <cstddef>

#include "proto/methods.h"

namespace quantd {

// Bytes that the network holds for a message of `bytes`, plus what parsing
// needs if its lists are short.
size_t ReceiveNeed(size_t bytes);
// Memory of a parsed head with `list_bytes` of lists among its `bytes`.
size_t HeadNeed(size_t bytes, size_t list_bytes);

struct MemoryShares {
  size_t budget = 0;
  size_t receive = 0;  // the gate's limit for messages
  size_t message = 0;  // largest part of it that one message may need
  // Flow-control window: what gRPC holds of a connection's unread messages. Not
  // part of the budget.
  size_t window = 0;
  size_t heads = 0;       // the gate's limit for heads; not part of the budget
  size_t per_device = 0;  // limit of the gate and of the pool for each device
  size_t grpc_quota = 0;  // gRPC's own hard limit, above `receive`
  size_t bound = 0;       // the most resident memory of the process
};

// Divides `budget` between the network and the pools. `bound` adds what gRPC
// may hold besides admitted messages, and what the process needs without any
// payload.
MemoryShares DivideBudget(size_t budget, int devices, int cuda_devices);

// The largest request of that method that an empty server can hold, at most
// `cap`. A smaller request of an extreme shape may still be refused once its
// plan is known.
size_t LargestRequest(wire::Method method, const MemoryShares& shares,
                      size_t cap);

}  // namespace quantd

#endif  // QUANTD_SERVER_CONFIG_SIZING_H_
