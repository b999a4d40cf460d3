// Maps bytes of a piece to their offsets in a copy of the whole tensor.
#ifndef QUANTD_CLIENT_TENSORS_COPY_WINDOW_H_
#define QUANTD_CLIENT_TENSORS_COPY_WINDOW_H_

#include <cstddef>
#include <cstdint>
#include <functional>

#include "kernels/plan/geometry.h"
#include "quantd/distributed.h"
#include "quantd/plan.h"

namespace quantd::client {

// Relates the rowwise or columnwise copy of a rows x cols matrix without groups
// to the copy of a piece of the matrix. The piece must be cut where
// QuantizeShard allows.
class CopyWindow {
 public:
  CopyWindow(const QuantizeOptions& options, bool columnwise, int64_t rows,
             int64_t cols, DType input, const Shard& piece);

  // Called for `bytes` bytes at offset `whole` of the whole's copy and at
  // offset `piece` of the piece's copy.
  using Move = std::function<void(size_t whole, size_t piece, size_t bytes)>;
  void Codes(const Move& move) const;
  void Scales(const Move& move) const;

  const CopyGeometry& piece() const { return piece_; }

 private:
  const FormatSpec format_;
  const CopyGeometry whole_;
  const CopyGeometry piece_;
  const int64_t line_;  // where the piece starts in the whole
  const int64_t position_;
};

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_TENSORS_COPY_WINDOW_H_
