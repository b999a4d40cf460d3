// Attacks with ordinary calls that hold or waste their resources.
#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "tests/attack/attacks.h"
#include "tests/attack/requests.h"

namespace quantd::attack {
namespace {

using std::chrono::milliseconds;

constexpr uint32_t kLargestClaim = 0xffffffff;

Metadata Declares(size_t bytes) {
  return {{"quantd-request-bytes", std::to_string(bytes)}};
}

// Sends the first `bytes` of a message that declares the largest possible
// length, and then waits until the server ends the call or `patience` is over.
void SendAndStall(Assault& assault, Http2Peer& peer, const char* path,
                  const Metadata& metadata, size_t bytes,
                  milliseconds patience) {
  const uint32_t stream = peer.Open(path, metadata);
  if (stream == 0) return;
  peer.BeginMessage(stream, kLargestClaim);
  peer.SendZeros(stream, bytes);
  const auto until = Assault::Clock::now() + patience;
  while (!assault.over() && Assault::Clock::now() < until &&
         !peer.AwaitEnd(stream, milliseconds(100)) && peer.alive()) {
  }
  if (peer.IsOpen(stream)) peer.Reset(stream);
}

void NeverEndingHealth(Assault& assault) {
  assault.OnConnections(8, {}, [&](Http2Peer& peer) {
    while (!assault.over() && peer.alive()) {
      SendAndStall(assault, peer, kCheck, {}, 48 * kMiB, milliseconds(2000));
    }
  });
}

// An unknown field takes two bytes in the message, and sixteen in a parser's
// memory.
void UnknownFields(Assault& assault) {
  std::string message;
  while (message.size() < kMiB) message += std::string("\x78\x00", 2);
  assault.OnConnections(4, {}, [&](Http2Peer& peer) {
    while (!assault.over() && peer.alive()) {
      const uint32_t stream = peer.Open(kServerInfo);
      if (stream == 0) return;
      peer.SendMessage(stream, message);
      peer.AwaitEnd(stream, milliseconds(5000));
    }
  });
}

void Liar(Assault& assault) {
  assault.OnConnections(4, {}, [&](Http2Peer& peer) {
    while (!assault.over() && peer.alive()) {
      SendAndStall(assault, peer, kQuantize, Declares(1024), 200 * kMiB,
                   milliseconds(2000));
    }
  });
}

// Opens calls without a message, one every 50 ms on each connection and at most
// 2,048 in all.
void TrickleOfHeaders(Assault& assault, const Metadata& metadata) {
  constexpr milliseconds kPause{50};
  constexpr size_t kMost = 64;
  assault.OnConnections(32, {}, [&](Http2Peer& peer) {
    while (!assault.over() && peer.alive()) {
      peer.Pump();
      if (peer.open_streams() < kMost) peer.Open(kQuantize, metadata);
      assault.Sleep(kPause);
    }
  });
}

void HeadersOnly(Assault& assault) { TrickleOfHeaders(assault, {}); }

void HeadersDeclared(Assault& assault) {
  TrickleOfHeaders(assault, Declares(assault.largest_request()));
}

void StalledBody(Assault& assault, int connections, bool half) {
  const size_t declared = std::min(64 * kMiB, assault.largest_request());
  assault.OnConnections(connections, {}, [&](Http2Peer& peer) {
    const uint32_t stream = peer.Open(kQuantize, Declares(declared));
    peer.BeginMessage(stream, static_cast<uint32_t>(declared));
    peer.SendZeros(stream, half ? declared / 2 : 64 << 10);
    while (!assault.over() && peer.alive() &&
           !peer.AwaitEnd(stream, milliseconds(100))) {
    }
  });
}

void Stalled64(Assault& assault) { StalledBody(assault, 64, false); }
void StalledHalf16(Assault& assault) { StalledBody(assault, 16, true); }

void DribbledBody(Assault& assault) {
  const size_t declared = std::min(64 * kMiB, assault.largest_request());
  assault.OnConnections(16, {}, [&](Http2Peer& peer) {
    const uint32_t stream = peer.Open(kQuantize, Declares(declared));
    peer.BeginMessage(stream, static_cast<uint32_t>(declared));
    peer.SendZeros(stream, 64 << 10);
    while (!assault.over() && peer.alive() && peer.IsOpen(stream)) {
      peer.SendZeros(stream, 1);
      assault.Sleep(milliseconds(50));
    }
  });
}

// Requests replies of 32 MiB by requests of 4 MiB, and does not read them. If
// it `drips`, it reads them byte by byte: they make progress, but never end.
void Unread(Assault& assault, bool drips) {
  const std::string request = DequantizeRequestOf(2048);
  const std::string one = Octets(1, 4);
  assault.OnConnections(22, {.window = 0}, [&](Http2Peer& peer) {
    const uint32_t stream = peer.Open(kDequantize, Declares(request.size()));
    peer.SendMessage(stream, request);
    while (!assault.over() && peer.alive() && peer.IsOpen(stream)) {
      peer.Pump();
      if (drips) peer.SendFrame(kWindowUpdate, kNone, stream, one);
      assault.Sleep(milliseconds(50));
    }
  });
}

void UnreadReplies(Assault& assault) { Unread(assault, false); }
void DrippingReplies(Assault& assault) { Unread(assault, true); }

void UnreadGroups(Assault& assault) {
  const std::string request = GroupsRequest(16384);
  assault.OnConnections(8, {.window = 0}, [&](Http2Peer& peer) {
    for (int i = 0; i < 250 && peer.alive() && !assault.over(); ++i) {
      const uint32_t stream = peer.Open(kQuantize, Declares(request.size()));
      peer.SendMessage(stream, request);
    }
    assault.Hold(peer);
  });
}

// Makes calls that are refused at full rate, with at most a hundred in flight.
void Flood(Assault& assault, const Metadata& metadata,
           std::string_view message) {
  assault.OnConnections(2, {.welcome_replies = true}, [&](Http2Peer& peer) {
    while (!assault.over() && peer.alive()) {
      peer.SendMessage(peer.Open(kQuantize, metadata), message);
      while (peer.open_streams() > 100 && peer.alive() && !assault.over()) {
        peer.Pump(milliseconds(10));
      }
    }
  });
}

void BadRequests(Assault& assault) { Flood(assault, {}, "\xff\xff\xff"); }

void BadTokens(Assault& assault) {
  Flood(assault, {{"authorization", "Bearer mallory"}}, "");
}

// Makes legal calls of the slowest kind: tall matrices with square blocks.
void SlowJobs(Assault& assault) {
  const std::string request = SlowRequestOf(int64_t{1} << 21);
  assault.OnConnections(4, {.welcome_replies = true}, [&](Http2Peer& peer) {
    while (!assault.over() && peer.alive()) {
      const uint32_t stream = peer.Open(kQuantize, Declares(request.size()));
      peer.SendMessage(stream, request);
      peer.AwaitEnd(stream, milliseconds(30'000));
    }
  });
}

// Never reads errors. All calls are sent first, except their ends.
void UnreadErrors(Assault& assault) {
  const std::string request = WrongShapeRequest(30'000);
  const auto length = static_cast<uint32_t>(request.size());
  assault.OnConnections(8, {}, [&](Http2Peer& peer) {
    std::vector<uint32_t> streams(200);
    for (uint32_t& stream : streams) {
      stream = peer.Open(kDequantize);
      peer.BeginMessage(stream, length);
      peer.SendBody(stream, request);
    }
    for (const uint32_t stream : streams) {
      peer.SendFrame(kData, kEndStream, stream, "");
    }
    assault.Sleep(milliseconds(60'000));
  });
}

constexpr Attack kCallAttacks[] = {
    {.name = "never_ending_health",
     .what = "8 x 48 MiB of a Health/Check that never ends",
     .run = NeverEndingHealth,
     .connections = 8,
     .call_bytes = 16 * kMiB,
     .moment = milliseconds(1000)},
    {.name = "unknown_fields",
     .what = "1 MiB of unknown fields to GetServerInfo, repeatedly",
     .run = UnknownFields,
     .connections = 4,
     .call_bytes = 1 * kMiB,
     .moment = milliseconds(1000)},
    {.name = "liar",
     .what = "4 x 200 MiB where 1 KiB was declared",
     .run = Liar,
     .connections = 4,
     .call_bytes = 16 * kMiB,
     .moment = milliseconds(600)},
    {.name = "headers_only",
     .what = "HEADERS of Quantize alone, 32 x 64 at once",
     .run = HeadersOnly,
     .connections = 32,
     .moment = milliseconds(2000)},
    {.name = "headers_declared",
     .what = "the same, declaring the largest request",
     .run = HeadersDeclared,
     .connections = 32,
     .moment = milliseconds(2000)},
    {.name = "stalled_64",
     .what = "64 MiB declared, 64 KiB sent, 64 connections",
     .run = Stalled64,
     .connections = 64},
    {.name = "stalled_half",
     .what = "64 MiB declared, half sent, 16 connections",
     .run = StalledHalf16,
     .connections = 16,
     .call_bytes = 16 * kMiB},
    {.name = "dribble",
     .what = "64 MiB declared, a byte every 50 ms, 16 connections",
     .run = DribbledBody,
     .connections = 16},
    {.name = "unread_replies",
     .what = "22 replies of 32 MiB, window 0",
     .run = UnreadReplies,
     .connections = 22,
     .call_bytes = 4 * kMiB},
    {.name = "dripping_replies",
     .what = "22 replies of 32 MiB, read byte by byte",
     .run = DrippingReplies,
     .connections = 22,
     .call_bytes = 4 * kMiB},
    {.name = "unread_groups",
     .what = "2,000 unread calls of 16,384 groups",
     .run = UnreadGroups,
     .connections = 8,
     .call_bytes = 16 << 10},
    {.name = "bad_requests",
     .what = "malformed requests at full rate",
     .run = BadRequests,
     .connections = 2,
     .call_bytes = 4 << 10,
     .moment = milliseconds(500)},
    {.name = "bad_tokens",
     .what = "wrong tokens at full rate",
     .run = BadTokens,
     .connections = 2,
     .call_bytes = 4 << 10,
     .without_token = true},
    {.name = "unread_errors",
     .what = "1,600 calls with a wrong shape of 30,000 numbers, not read",
     .run = UnreadErrors,
     .connections = 8,
     .call_bytes = 30 << 10,
     .moment = milliseconds(3000)},
    {.name = "slow_jobs",
     .what = "4 jobs at once of [2Mi,1] in FP8 squares",
     .run = SlowJobs,
     .connections = 4,
     .call_bytes = 4 * kMiB,
     .moment = milliseconds(1500)},
};

}  // namespace

std::span<const Attack> CallAttacks() { return kCallAttacks; }

}  // namespace quantd::attack
