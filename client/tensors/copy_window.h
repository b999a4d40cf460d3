// Maps a piece's bytes to their place in a copy of the whole tensor.
#ifndef QUANTD_CLIENT_TENSORS_COPY_WINDOW_H_
#define QUANTD_CLIENT_TENSORS_COPY_WINDOW_H_

#include <cstddef>
#include <cstdint>
#include <functional>

#include "kernels/plan/geometry.h"
#include "quantd/distributed.h"
#include "quantd/plan.h"

namespace quantd::client {

// Relates the rowwise or columnwise copy of an ungrouped rows x cols matrix to
// that of a piece of it, cut where QuantizeShard allows.
class CopyWindow {
 public:
  CopyWindow(const QuantizeOptions& options, bool columnwise, int64_t rows,
             int64_t cols, DType input, const Shard& piece);

  // Moves `bytes` bytes between offset `whole` of the one and `piece` of the
  // other.
  using Move = std::function<void(size_t whole, size_t piece, size_t bytes)>;
  void Codes(const Move& move) const;
  void Scales(const Move& move) const;

  const CopyGeometry& piece() const { return piece_; }

 private:
  const FormatSpec format_;
  const CopyGeometry whole_;
  const CopyGeometry piece_;
  const int64_t line_;  // start of the piece within the whole
  const int64_t position_;
};

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_TENSORS_COPY_WINDOW_H_
