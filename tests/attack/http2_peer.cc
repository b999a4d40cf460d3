#include "tests/attack/http2_peer.h"

#include <algorithm>

namespace quantd::attack {
namespace {

using std::chrono::milliseconds;

constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
constexpr size_t kFrameHead = 9;
constexpr uint32_t kLargestWindow = 0x7fffffff;
constexpr uint16_t kInitialWindowSize = 4;  // in SETTINGS
constexpr uint64_t kReportEvery = 4 << 20;

uint64_t Number(std::string_view octets) {
  uint64_t value = 0;
  for (const char octet : octets) {
    value = value << 8 | static_cast<uint8_t>(octet);
  }
  return value;
}

// Encodes a string as in HPACK, 5.1 and 5.2: a length of 7 bits, or 127 and
// further groups of 7 bits.
void AppendString(std::string_view text, std::string* to) {
  size_t rest = text.size();
  if (rest < 127) {
    to->push_back(static_cast<char>(rest));
  } else {
    to->push_back(127);
    for (rest -= 127; rest >= 128; rest /= 128) {
      to->push_back(static_cast<char>(rest % 128 + 128));
    }
    to->push_back(static_cast<char>(rest));
  }
  to->append(text);
}

}  // namespace

std::string Octets(uint64_t value, int count) {
  std::string octets;
  while (count-- > 0) octets.push_back(static_cast<char>(value >> 8 * count));
  return octets;
}

std::string LiteralField(std::string_view name, std::string_view value) {
  std::string field(1, '\0');
  AppendString(name, &field);
  AppendString(value, &field);
  return field;
}

std::string FrameHead(size_t length, uint8_t type, uint8_t flags,
                      uint32_t stream) {
  return Octets(length, 3) + Octets(type, 1) + Octets(flags, 1) +
         Octets(stream, 4);
}

std::unique_ptr<Http2Peer> Http2Peer::Connect(const Target& target,
                                              const Habits& habits,
                                              Clock::time_point end) {
  auto socket = Socket::Connect(target, end);
  if (socket == nullptr) return nullptr;
  std::unique_ptr<Http2Peer> peer(
      new Http2Peer(std::move(socket), target, habits));
  peer->Greet();
  if (!peer->alive()) return nullptr;
  return peer;
}

Http2Peer::Http2Peer(std::unique_ptr<Socket> socket, const Target& target,
                     const Habits& habits)
    : socket_(std::move(socket)),
      authority_(target.tls ? "localhost" : "attacker"),
      token_(target.token),
      tls_(target.tls),
      habits_(habits) {}

void Http2Peer::Greet() {
  const uint32_t window =
      habits_.welcome_replies ? kLargestWindow : habits_.window;
  std::string greeting(kPreface);
  greeting += FrameHead(6, kSettings, kNone, 0) +
              Octets(kInitialWindowSize, 2) + Octets(window, 4);
  if (habits_.welcome_replies) {
    greeting += FrameHead(4, kWindowUpdate, kNone, 0) +
                Octets(kLargestWindow - 65535, 4);
  }
  SendRaw(greeting);
}

bool Http2Peer::SendFrame(uint8_t type, uint8_t flags, uint32_t stream,
                          std::string_view payload) {
  std::string frame = FrameHead(payload.size(), type, flags, stream);
  frame.append(payload);
  return SendRaw(frame);
}

std::string Http2Peer::HeaderBlock(std::string_view path,
                                   const Metadata& metadata) const {
  std::string block = LiteralField(":method", "POST") +
                      LiteralField(":scheme", tls_ ? "https" : "http") +
                      LiteralField(":path", path) +
                      LiteralField(":authority", authority_) +
                      LiteralField("te", "trailers") +
                      LiteralField("content-type", "application/grpc");
  if (!token_.empty()) {
    block += LiteralField("authorization", "Bearer " + token_);
  }
  for (const auto& [name, value] : metadata) block += LiteralField(name, value);
  return block;
}

uint32_t Http2Peer::NextStream() {
  const uint32_t stream = next_stream_;
  next_stream_ += 2;
  windows_[stream] = initial_window_;
  return stream;
}

uint32_t Http2Peer::Open(std::string_view path, const Metadata& metadata,
                         bool ends) {
  const uint32_t stream = NextStream();
  const uint8_t flags = kEndHeaders | (ends ? kEndStream : kNone);
  return SendFrame(kHeaders, flags, stream, HeaderBlock(path, metadata))
             ? stream
             : 0;
}

bool Http2Peer::BeginMessage(uint32_t stream, uint32_t claimed_bytes,
                             bool compressed) {
  return SendBody(stream, Octets(compressed ? 1 : 0, 1) +
                              Octets(claimed_bytes, 4)) == 5;
}

size_t Http2Peer::Allowance(uint32_t stream) {
  if (!habits_.respect_windows) return SIZE_MAX;
  while (alive() && !socket_->over()) {
    Pump();
    const auto window = windows_.find(stream);
    if (window == windows_.end()) return 0;
    const int64_t open = std::min(window->second, connection_window_);
    if (open > 0) return static_cast<size_t>(open);
    Pump(milliseconds(50));
  }
  return 0;
}

size_t Http2Peer::SendBody(uint32_t stream, std::string_view bytes) {
  constexpr size_t kFrame = 16384;
  // Frames are collected up to this many bytes and sent by one system call.
  constexpr size_t kBatch = 256 << 10;
  size_t done = 0;
  while (done < bytes.size()) {
    size_t most = std::min(Allowance(stream), kBatch);
    if (most == 0 || !alive()) break;
    std::string batch;
    while (done < bytes.size() && most > 0 && batch.size() < kBatch) {
      const size_t n = std::min({most, kFrame, bytes.size() - done});
      batch += FrameHead(n, kData, kNone, stream);
      batch.append(bytes.substr(done, n));
      done += n;
      most -= n;
      connection_window_ -= static_cast<int64_t>(n);
      if (const auto window = windows_.find(stream); window != windows_.end()) {
        window->second -= static_cast<int64_t>(n);
      }
    }
    if (!SendRaw(batch)) break;
    if (habits_.read) Pump();
  }
  return done;
}

size_t Http2Peer::SendZeros(uint32_t stream, size_t count) {
  static const std::string zeros(256 << 10, '\0');
  size_t done = 0;
  while (done < count) {
    const size_t step = std::min(zeros.size(), count - done);
    const size_t n = SendBody(stream, std::string_view(zeros).substr(0, step));
    done += n;
    if (n < step || !IsOpen(stream)) break;
  }
  return done;
}

bool Http2Peer::SendMessage(uint32_t stream, std::string_view message) {
  return BeginMessage(stream, static_cast<uint32_t>(message.size())) &&
         SendBody(stream, message) == message.size() && EndStream(stream);
}

bool Http2Peer::EndStream(uint32_t stream) {
  return SendFrame(kData, kEndStream, stream, "");
}

bool Http2Peer::Reset(uint32_t stream) {
  constexpr uint32_t kCancel = 8;
  windows_.erase(stream);
  return SendFrame(kResetStream, kNone, stream, Octets(kCancel, 4));
}

void Http2Peer::Pump(milliseconds wait) {
  if (!habits_.read) return;
  socket_->Receive(&inbox_, wait);
  size_t at = 0;
  while (inbox_.size() - at >= kFrameHead) {
    const std::string_view rest = std::string_view(inbox_).substr(at);
    const size_t length = Number(rest.substr(0, 3));
    if (rest.size() < kFrameHead + length) break;
    OnFrame(static_cast<uint8_t>(rest[3]), static_cast<uint8_t>(rest[4]),
            static_cast<uint32_t>(Number(rest.substr(5, 4))),
            rest.substr(kFrameHead, length));
    at += kFrameHead + length;
  }
  inbox_.erase(0, at);
}

bool Http2Peer::AwaitEnd(uint32_t stream, milliseconds patience) {
  const auto until = Clock::now() + patience;
  while (alive() && IsOpen(stream) && Clock::now() < until &&
         !socket_->over()) {
    Pump(milliseconds(20));
  }
  return !IsOpen(stream);
}

void Http2Peer::OnFrame(uint8_t type, uint8_t flags, uint32_t stream,
                        std::string_view payload) {
  switch (type) {
    case kData:
      return OnData(flags, stream, payload.size());
    case kHeaders:
      if (flags & kEndStream) windows_.erase(stream);
      return;
    case kResetStream:
      windows_.erase(stream);
      return;
    case kSettings:
      if (!(flags & kAcknowledge)) OnSettings(payload);
      return;
    case kPing:
      // PING is always answered, because the server measures its receive window
      // with it.
      if (!(flags & kAcknowledge)) SendFrame(kPing, kAcknowledge, 0, payload);
      return;
    case kGoAway:
      gone_ = true;
      return;
    case kWindowUpdate: {
      const auto more = static_cast<int64_t>(Number(payload));
      if (stream == 0) {
        connection_window_ += more;
      } else if (const auto window = windows_.find(stream);
                 window != windows_.end()) {
        window->second += more;
      }
      return;
    }
    default:
      return;
  }
}

void Http2Peer::OnSettings(std::string_view payload) {
  for (; payload.size() >= 6; payload.remove_prefix(6)) {
    if (Number(payload.substr(0, 2)) != kInitialWindowSize) continue;
    const auto window = static_cast<int64_t>(Number(payload.substr(2, 4)));
    for (auto& [stream, left] : windows_) left += window - initial_window_;
    initial_window_ = window;
  }
  if (habits_.acknowledge_settings) SendFrame(kSettings, kAcknowledge, 0, "");
}

void Http2Peer::OnData(uint8_t flags, uint32_t stream, size_t size) {
  received_data_ += size;
  unreported_ += size;
  if (habits_.welcome_replies && unreported_ >= kReportEvery) {
    SendFrame(kWindowUpdate, kNone, 0, Octets(unreported_, 4));
    unreported_ = 0;
  }
  if (flags & kEndStream) windows_.erase(stream);
}

}  // namespace quantd::attack
