// A message received by gRPC, read in place.
//
// Its slices belong to gRPC's memory quota. Releasing a single slice under
// memory pressure, on a thread that gRPC did not start, ends the process (gRPC
// 1.51: the release needs an execution context, which only the destructor of a
// whole buffer creates). So this class returns only views of the slices, and
// destroys the buffer that owns them as a whole.
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
