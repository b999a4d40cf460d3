// Places of a piece's bytes in a copy of the whole tensor.
#ifndef QUANTD_CLIENT_TENSORS_COPY_WINDOW_H_
#define QUANTD_CLIENT_TENSORS_COPY_WINDOW_H_

#include <cstddef>
#include <cstdint>
#include <functional>

#include "kernels/plan/geometry.h"
#include "quantd/distributed.h"
#include "quantd/plan.h"

namespace quantd::client {

// The rowwise or columnwise copy of a rows x cols matrix that is not grouped,
// and that of a piece of it, cut where QuantizeShard allows.
class CopyWindow {
 public:
  CopyWindow(const QuantizeOptions& options, bool columnwise, int64_t rows,
             int64_t cols, DType input, const Shard& piece);

  // `bytes` bytes at `whole` of the one are those at `piece` of the other.
  using Move = std::function<void(size_t whole, size_t piece, size_t bytes)>;
  void Codes(const Move& move) const;
  void Scales(const Move& move) const;

  const CopyGeometry& piece() const { return piece_; }

 private:
  const FormatSpec format_;
  const CopyGeometry whole_;
  const CopyGeometry piece_;
  const int64_t line_;  // of the whole, where the piece begins
  const int64_t position_;
};

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_TENSORS_COPY_WINDOW_H_
