// Tensors of any size. One that a server takes in one call goes in one; a
// larger one goes in pieces, and what comes back is joined to the bytes that
// the whole would have given. How that can be is in client/distributed.h.
//
// Not for a tensor in pieces: groups, dbias, delayed scaling with a history
// (INVALID_ARGUMENT, fields "splits", "dbias", "history"). Statistics of pieces
// are added up.
//
// Threads: all functions may be called from many at once.
#ifndef QUANTD_CLIENT_PIECES_H_
#define QUANTD_CLIENT_PIECES_H_

#include <cstddef>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/client.h"
#include "client/distributed.h"
#include "client/quantized_tensor.h"
#include "kernels/plan/plan.h"

namespace quantd {

// Reads bytes of a tensor, row-major, from `offset` on. Called from several
// threads at once, and for a tensor in pieces twice for every byte.
using TensorReader =
    std::function<absl::Status(size_t offset, absl::Span<std::byte> bytes)>;

struct PieceOptions {
  // The largest request to send: ServerInfo::max_request_bytes.
  size_t request_bytes = size_t{512} << 20;
  // Of a tensor that does not fit: what is sent, decoded and held at once.
  size_t piece_bytes = size_t{128} << 20;
  int at_once = 2;
  // Told how many more bytes of the tensor are done; in the end all of them.
  // Called by one thread at a time.
  std::function<void(size_t bytes)> progress = {};
};

// As Client::Quantize. CallOptions::into must be empty, and its deadline is
// that of each call.
absl::StatusOr<Result> QuantizeInPieces(Client& client,
                                        const TensorDesc& tensor,
                                        const TensorReader& input,
                                        const QuantizeOptions& options,
                                        const PieceOptions& pieces = {},
                                        const CallOptions& call = {});

// As Client::RhtAmax.
absl::StatusOr<Result> RhtAmaxInPieces(Client& client, const TensorDesc& tensor,
                                       const TensorReader& input,
                                       const RhtAmaxOptions& options,
                                       const PieceOptions& pieces = {},
                                       const CallOptions& call = {});

// Takes the rows and columns of the decoded matrix that `place` names: part
// kDequantized of the Result. Called by one thread at a time.
using DecodedSink =
    std::function<absl::Status(const Shard& place, const Result& decoded)>;

// As QuantizedTensor::DequantizeCopy, the decoded tensor handed over as it
// comes, in any order. A grouped tensor always goes in one call.
absl::Status DequantizeInPieces(Client& client, const QuantizedTensor& tensor,
                                Usage copy, DType dtype,
                                const DecodedSink& sink,
                                const PieceOptions& pieces = {},
                                const CallOptions& call = {});

}  // namespace quantd

#endif  // QUANTD_CLIENT_PIECES_H_
