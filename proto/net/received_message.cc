#include "proto/net/received_message.h"

#include <grpcpp/support/proto_buffer_reader.h>

namespace quantd {

absl::Span<const std::string_view> ReceivedMessage::Pieces() {
  if (pieces_.empty() && size() != 0) {
    grpc::ProtoBufferReader reader(&buffer_);
    const void* data = nullptr;
    int bytes = 0;
    while (reader.Next(&data, &bytes)) {
      pieces_.emplace_back(static_cast<const char*>(data),
                           static_cast<size_t>(bytes));
    }
  }
  return pieces_;
}

void ReceivedMessage::Clear() {
  pieces_ = {};
  buffer_.Clear();
}

}  // namespace quantd
