// Attacks that use rpc Stream, and hold or waste what a stream may have.
#include <chrono>
#include <string>
#include <string_view>

#include "tests/attack/attacks.h"
#include "tests/attack/requests.h"

namespace quantd::attack {
namespace {

using std::chrono::milliseconds;

// One message of several: the stream goes on.
void Send(Http2Peer& peer, uint32_t stream, std::string_view message) {
  peer.BeginMessage(stream, static_cast<uint32_t>(message.size()));
  peer.SendBody(stream, message);
}

// So many streams at once on each of the connections, for as long as it lasts:
// what is ended is begun again, a few a moment.
template <typename Begin>
void KeepOpen(Assault& assault, int connections, size_t most, Begin begin) {
  assault.OnConnections(connections, {}, [&](Http2Peer& peer) {
    while (!assault.over() && peer.alive()) {
      for (int i = 0; i < 2 && peer.open_streams() < most; ++i) {
        const uint32_t stream = peer.Open(kStream);
        if (stream == 0) return;
        begin(peer, stream);
      }
      peer.Pump(milliseconds(10));
    }
  });
}

// Small ones that are whole, and leave the maxima that are told unanswered.
void UnansweredMaxima(Assault& assault) {
  constexpr int64_t kRows = 16;
  const std::string start = StreamStartOf(kRows, /*reduces=*/true);
  const std::string chunk = ChunkOf(kRows * 2048);
  KeepOpen(assault, 8, 40, [&](Http2Peer& peer, uint32_t stream) {
    Send(peer, stream, start);
    Send(peer, stream, chunk);
  });
}

// More than a device has places for, each with its first message and nothing
// behind it.
void SilentStreams(Assault& assault) {
  const std::string start = StreamStartOf(512);
  KeepOpen(assault, 1, 40, [&](Http2Peer& peer, uint32_t stream) {
    Send(peer, stream, start);
  });
}

constexpr Attack kStreamAttacks[] = {
    {.name = "unanswered_maxima",
     .what = "8 x 40 streams whose maxima nobody answers",
     .run = UnansweredMaxima,
     .connections = 8,
     .moment = milliseconds(1500)},
    {.name = "silent_streams",
     .what = "40 streams that bring their first message alone",
     .run = SilentStreams,
     .call_bytes = 1 * kMiB,
     .takes_streams = true,
     .moment = milliseconds(2000)},
};

}  // namespace

std::span<const Attack> StreamAttacks() { return kStreamAttacks; }

}  // namespace quantd::attack
