// Calls on tensors of any size. A tensor that is too large for one call is sent
// in pieces, and the results are joined to the bytes that one call would have
// given. "quantd/distributed.h" explains why that works.
//
// A tensor in pieces cannot have groups, dbias, or delayed scaling with a
// history (INVALID_ARGUMENT, fields "splits", "dbias", "history"). Statistics
// of pieces are added up.
//
// Threads: any number may call these functions at once.
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

// Quantizes as Client::Quantize does. CallOptions::into must be empty, and
// CallOptions::deadline applies to each call. If several calls are made,
// progress is reported to PieceOptions::progress, not to CallOptions::progress.
absl::StatusOr<Result> QuantizeInPieces(Client& client,
                                        const TensorDesc& tensor,
                                        const TensorReader& input,
                                        const QuantizeOptions& options,
                                        const PieceOptions& pieces = {},
                                        const CallOptions& call = {});

// Finds maxima as Client::RhtAmax does.
absl::StatusOr<Result> RhtAmaxInPieces(Client& client, const TensorDesc& tensor,
                                       const TensorReader& input,
                                       const RhtAmaxOptions& options,
                                       const PieceOptions& pieces = {},
                                       const CallOptions& call = {});

// Receives a part of the decoded matrix: the rows and columns that `place`
// names. `decoded` holds them as part kDequantized. Called by one thread at a
// time.
using DecodedSink =
    std::function<absl::Status(const Shard& place, const Result& decoded)>;

// Decodes as QuantizedTensor::DequantizeCopy does, and passes decoded parts to
// `sink` as they arrive, in any order. A tensor with groups always takes one
// call.
absl::Status DequantizeInPieces(Client& client, const QuantizedTensor& tensor,
                                Usage copy, DType dtype,
                                const DecodedSink& sink,
                                const PieceOptions& pieces = {},
                                const CallOptions& call = {});

}  // namespace quantd

#endif  // QUANTD_PIECES_H_
