// How a large tensor is read, cut and sent in pieces.
#ifndef QUANTD_PIECE_OPTIONS_H_
#define QUANTD_PIECE_OPTIONS_H_

#include <cstddef>
#include <functional>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace quantd {

// Reads bytes of a tensor, row-major, from `offset` on. Called from several
// threads at once. For a tensor in pieces, every byte may be read twice.
using TensorReader =
    std::function<absl::Status(size_t offset, absl::Span<std::byte> bytes)>;

struct PieceOptions {
  // The largest request to send: ServerInfo::max_request_bytes.
  size_t request_bytes = size_t{512} << 20;
  // The size of a piece of a tensor that is larger than request_bytes: the
  // number of bytes that are sent, decoded and held at once.
  size_t piece_bytes = size_t{128} << 20;
  int at_once = 2;  // pieces under way at once
  // Receives the number of bytes done since the previous call; the sum is the
  // size of the tensor. Called by one thread at a time.
  std::function<void(size_t bytes)> progress = {};
};

}  // namespace quantd

#endif  // QUANTD_PIECE_OPTIONS_H_
