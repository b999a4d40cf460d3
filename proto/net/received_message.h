// A message of gRPC's, looked at where it lies.
//
// Its slices belong to gRPC's memory quota. One that dies under memory pressure
// on a thread which gRPC knows nothing of brings the process down (gRPC 1.51:
// its release wants an execution context, and only the destructor of a whole
// buffer makes one). So nobody gets a slice: the pieces are views, and the
// buffer that owns them is destroyed in one.
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

  // For gRPC to read into.
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
