// Tensors of any size. One that a server takes in one call goes in one; a
// larger one goes in pieces, and what comes back is joined to the bytes that
// the whole would have given. How that can be is in quantd/distributed.h.
//
// Not for a tensor in pieces: groups, dbias, delayed scaling with a history
// (INVALID_ARGUMENT, fields "splits", "dbias", "history"). Statistics of pieces
// are added up.
//
// Threads: all functions may be called from many at once.
#ifndef QUANTD_PIECES_H_
#define QUANTD_PIECES_H_

#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "quantd/client.h"
#include "quantd/distributed.h"
#include "quantd/piece_options.h"
#include "quantd/plan.h"
#include "quantd/quantized_tensor.h"

namespace quantd {

// As Client::Quantize. CallOptions::into must be empty, and its deadline is
// that of each call; of several, PieceOptions::progress is told, and not that
// of the call.
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

#endif  // QUANTD_PIECES_H_
