// A message received by gRPC, read in place.
//
// Its slices belong to gRPC's memory quota. Releasing a slice under memory
// pressure on a thread that gRPC does not know ends the process (gRPC 1.51: the
// release wants an execution context, and only the destructor of a whole buffer
// makes one). So no slice is handed out: the pieces are views, and the buffer
// that owns them is destroyed as a whole.
#ifndef QUANTD_PROTO_NET_RECEIVED_MESSAGE_H_
#define QUANTD_PROTO_NET_RECEIVED_MESSAGE_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstddef>
#include <string_view>
#include <vector>

#include "absl/types/span.h"

namespace quantd {

// Not thread-safe.
class ReceivedMessage {
 public:
  ReceivedMessage() = default;
  ReceivedMessage(const ReceivedMessage&) = delete;

  // The buffer for gRPC to read into.
  grpc::ByteBuffer* buffer() { return &buffer_; }
  size_t size() const { return buffer_.Valid() ? buffer_.Length() : 0; }
  // The message in pieces, in order; valid until Clear.
  absl::Span<const std::string_view> Pieces();
  void Clear();

 private:
  grpc::ByteBuffer buffer_;
  std::vector<std::string_view> pieces_;
};

}  // namespace quantd

#endif  // QUANTD_PROTO_NET_RECEIVED_MESSAGE_H_
