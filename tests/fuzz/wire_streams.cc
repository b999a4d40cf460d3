// Messages of streams: first ones, chunks, and what is neither.
#include "proto/messages.h"
#include "tests/fuzz/wire_messages.h"

namespace quantd::wire {
namespace {

// A request as a stream's first message has it.
template <typename Request>
void Open(const std::string& bytes, Request* request, v1::StreamRequest* start,
          Random& random) {
  request->ParseFromString(bytes);
  start->set_payload_bytes(request->payload().size());
  if (!random.OneIn(20)) request->clear_payload();
  if (!random.OneIn(20)) request->clear_memory();
}

}  // namespace

std::string StreamMessage(Random& random) {
  v1::StreamRequest m;
  switch (random.Below(5)) {
    case 0:
      Open(LegalMessage(0, random), m.mutable_quantize(), &m, random);
      break;
    case 1:
      Open(LegalMessage(1, random), m.mutable_dequantize(), &m, random);
      break;
    case 2:
      Open(LegalMessage(2, random), m.mutable_rht_amax(), &m, random);
      break;
    case 3:
      Open(LegalMessage(3, random), m.mutable_apply_rht(), &m, random);
      break;
    default:
      m.set_chunk(RandomBytes(random.Below(100), random));
      break;
  }
  if (random.OneIn(30)) m.set_payload_bytes(Awkward(random));
  if (random.OneIn(30)) m.set_chunk(RandomBytes(random.Below(9), random));
  return m.SerializeAsString();
}

}  // namespace quantd::wire
