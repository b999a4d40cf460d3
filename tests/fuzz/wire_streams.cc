// Random messages of streams: first messages, chunks and others.
#include <cstring>

#include "proto/messages.h"
#include "tests/fuzz/wire_messages.h"

namespace quantd::wire {
namespace {

// Sets the request in a stream's first message from its serialized `bytes`.
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
  const uint64_t turn = random.Below(16);
  switch (turn < 12 ? turn % 4 : turn) {
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
    case 12:
      Open(LegalMessage(0, random), m.mutable_reduce_amax(), &m, random);
      // Removes options that exclude a reduced amax.
      if (v1::QuantizeOptions* o = m.mutable_reduce_amax()->mutable_options();
          !random.OneIn(8)) {
        o->clear_given_amax();
        o->clear_scale();
        o->clear_splits();
        o->clear_history();
      }
      break;
    case 13: {
      v1::GivenAmax& amax = *m.mutable_reduced_amax();
      const auto value = [&] {
        const auto bits = static_cast<uint32_t>(random.Next());
        float f = 0;
        std::memcpy(&f, &bits, sizeof f);
        return f;
      };
      if (random.OneIn(2)) amax.set_rowwise(value());
      if (random.OneIn(2)) amax.set_columnwise(value());
      for (uint64_t n = random.Below(20); n > 0; --n) {
        amax.add_rowwise_values(value());
      }
      break;
    }
    default:
      m.set_chunk(RandomBytes(random.Below(100), random));
      break;
  }
  if (random.OneIn(30)) m.set_payload_bytes(Awkward(random));
  if (random.OneIn(30)) m.mutable_reduced_amax()->set_rowwise(1);
  if (random.OneIn(30)) m.set_chunk(RandomBytes(random.Below(9), random));
  return m.SerializeAsString();
}

}  // namespace quantd::wire
