// The only copy of a payload: from the received message to the job's staging.
#include <cstddef>
#include <cstring>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "proto/cursor.h"
#include "proto/wire.h"

namespace quantd::wire {

void Gather(const Request& request, Slices message,
            absl::Span<std::byte> staging) {
  const std::vector<TensorSpec>& inputs = request.plan->inputs();
  Cursor in(message);
  size_t written = 0;  // bytes of the staging buffer
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Request::Source& source = request.sources[i];
    if (inputs[i].offset > written) {
      std::memset(staging.data() + written, 0, inputs[i].offset - written);
    }
    std::byte* to = staging.data() + inputs[i].offset;
    written = inputs[i].offset + inputs[i].size;
    if (!source.literal.empty()) {
      std::memcpy(to, source.literal.data(), source.literal.size());
      continue;
    }
    // Sources may be in any order in the message. Restart only if necessary.
    if (source.range.offset < in.position()) in = Cursor(message);
    in.Skip(source.range.offset - in.position());
    in.Walk(source.range.size, [&](std::string_view piece) {
      std::memcpy(to, piece.data(), piece.size());
      to += piece.size();
    });
  }
  if (staging.size() > written) {
    std::memset(staging.data() + written, 0, staging.size() - written);
  }
}

}  // namespace quantd::wire
