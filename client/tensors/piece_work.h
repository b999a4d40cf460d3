// Cuts a tensor into pieces, and reads and processes them.
#ifndef QUANTD_CLIENT_TENSORS_PIECE_WORK_H_
#define QUANTD_CLIENT_TENSORS_PIECE_WORK_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "quantd/buffers.h"
#include "quantd/client.h"
#include "quantd/distributed.h"
#include "quantd/piece_options.h"
#include "quantd/result.h"

namespace quantd::client {

// The number of a tensor's bytes that one call may carry: the limit of a
// request minus space for its options.
size_t Room(const PieceOptions& pieces);

// Returns pieces that cover the matrix of `whole` without overlap, cut where
// every format may be cut. `element` is the size of an element in bytes.
// `listed` means that a request has an amax for each line. Returns
// RESOURCE_EXHAUSTED if even the smallest pieces are too large.
absl::StatusOr<std::vector<Shard>> Cut(const Plan& whole, size_t element,
                                       const PieceOptions& pieces,
                                       bool listed = false);

// Calls `work` for all pieces, `at_once` at a time. Stops at the first error.
absl::Status ForEach(const std::vector<Shard>& cut, int at_once,
                     const std::function<absl::Status(const Shard&)>& work);

// Allocates memory that the client's calls use in place, if possible: shared
// with the server, or page-locked. Returns RESOURCE_EXHAUSTED if the allocation
// of ordinary memory fails as well.
absl::StatusOr<HostMemory> Allocate(Client& client, size_t size);
// Reads a whole tensor.
absl::StatusOr<HostMemory> Read(Client& client, const TensorReader& input,
                                size_t size);
// Reads the elements of a piece of a matrix with `cols` columns into contiguous
// memory.
absl::StatusOr<HostMemory> Read(Client& client, const TensorReader& input,
                                int64_t cols, size_t element,
                                const Shard& piece);

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_TENSORS_PIECE_WORK_H_
