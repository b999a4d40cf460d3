// Attacks with rpc Stream that hold or waste a stream's resources.
#include <chrono>
#include <string>
#include <string_view>

#include "tests/attack/attacks.h"
#include "tests/attack/requests.h"

namespace quantd::attack {
namespace {

using std::chrono::milliseconds;

// Sends one message and keeps the stream open.
void Send(Http2Peer& peer, uint32_t stream, std::string_view message) {
  peer.BeginMessage(stream, static_cast<uint32_t>(message.size()));
  peer.SendBody(stream, message);
}

// Keeps a number of streams open on each connection, and replaces ended ones a
// few at a time.
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

// Opens small complete streams and never replies to their maxima.
void UnansweredMaxima(Assault& assault) {
  constexpr int64_t kRows = 16;
  const std::string start = StreamStartOf(kRows, /*reduces=*/true);
  const std::string chunk = ChunkOf(kRows * 2048);
  KeepOpen(assault, 8, 40, [&](Http2Peer& peer, uint32_t stream) {
    Send(peer, stream, start);
    Send(peer, stream, chunk);
  });
}

// Opens more streams than a device has slots, and sends only the first message
// of each.
void SilentStreams(Assault& assault) {
  const std::string start = StreamStartOf(512);
  KeepOpen(assault, 1, 40, [&](Http2Peer& peer, uint32_t stream) {
    Send(peer, stream, start);
  });
}

constexpr Attack kStreamAttacks[] = {
    {.name = "unanswered_maxima",
     .what = "8 x 40 streams without a reply to their maxima",
     .run = UnansweredMaxima,
     .connections = 8,
     .moment = milliseconds(1500)},
    {.name = "silent_streams",
     .what = "40 streams that send only their first message",
     .run = SilentStreams,
     .call_bytes = 1 * kMiB,
     .takes_streams = true,
     .moment = milliseconds(2000)},
};

}  // namespace

std::span<const Attack> StreamAttacks() { return kStreamAttacks; }

}  // namespace quantd::attack
