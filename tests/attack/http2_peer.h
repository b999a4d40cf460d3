// An HTTP/2 client without gRPC that can misbehave: send less or more than it
// declared, ignore the server's limits, and never read a reply.
#ifndef QUANTD_TESTS_ATTACK_HTTP2_PEER_H_
#define QUANTD_TESTS_ATTACK_HTTP2_PEER_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/attack/socket.h"

namespace quantd::attack {

using Metadata = std::vector<std::pair<std::string, std::string>>;

enum FrameType : uint8_t {
  kData = 0,
  kHeaders = 1,
  kResetStream = 3,
  kSettings = 4,
  kPing = 6,
  kGoAway = 7,
  kWindowUpdate = 8,
  kContinuation = 9,
};
enum FrameFlag : uint8_t {
  kNone = 0,
  kAcknowledge = 1,
  kEndStream = 1,
  kEndHeaders = 4,
};

// How a peer behaves.
struct Habits {
  bool acknowledge_settings = true;
  // Obeys the server's flow-control windows, which requires reading.
  bool respect_windows = true;
  // Reads what the server sends.
  bool read = true;
  // The initial window that a stream gives the server.
  uint32_t window = 65535;
  // Lets the server send without limit, by large windows that are updated as
  // data arrive.
  bool welcome_replies = false;
};

// Encodes a number big-endian in `count` bytes.
std::string Octets(uint64_t value, int count);
// Encodes a header field in HPACK, without table and Huffman code.
std::string LiteralField(std::string_view name, std::string_view value);
// Encodes the 9 bytes before the payload of a frame.
std::string FrameHead(size_t length, uint8_t type, uint8_t flags,
                      uint32_t stream);

// A connection. After its end time all operations fail.
class Http2Peer {
 public:
  using Clock = Socket::Clock;

  // Connects and sends preface and SETTINGS. Returns null if connecting fails.
  static std::unique_ptr<Http2Peer> Connect(const Target& target,
                                            const Habits& habits,
                                            Clock::time_point end);

  bool alive() const { return socket_->alive() && !gone_; }
  uint64_t received_data() const { return received_data_; }
  // Returns the number of streams that the server has not ended.
  size_t open_streams() const { return windows_.size(); }
  bool IsOpen(uint32_t stream) const { return windows_.contains(stream); }

  bool SendRaw(std::string_view bytes) { return socket_->Send(bytes); }
  bool SendFrame(uint8_t type, uint8_t flags, uint32_t stream,
                 std::string_view payload);

  // Returns the header block of a gRPC call, with the target's token if it has
  // one.
  std::string HeaderBlock(std::string_view path,
                          const Metadata& metadata = {}) const;
  // Returns the number for a new stream, which the caller must then open by
  // sending frames.
  uint32_t NextStream();
  // Opens a call and returns its stream, or 0 if the connection has ended.
  uint32_t Open(std::string_view path, const Metadata& metadata = {},
                bool ends = false);

  // Sends the prefix of a gRPC message that declares `claimed_bytes`.
  bool BeginMessage(uint32_t stream, uint32_t claimed_bytes,
                    bool compressed = false);
  // Sends `bytes`. Returns the number of bytes sent before the stream, the
  // connection or its time ended.
  size_t SendBody(uint32_t stream, std::string_view bytes);
  // Sends `count` zeros in the same way.
  size_t SendZeros(uint32_t stream, size_t count);
  // Sends a whole message and the end of the stream.
  bool SendMessage(uint32_t stream, std::string_view message);
  bool EndStream(uint32_t stream);
  bool Reset(uint32_t stream);

  // Reads the frames that have arrived, waiting at most `wait`, and reacts to
  // them as the habits say.
  void Pump(std::chrono::milliseconds wait = std::chrono::milliseconds(0));
  // Pumps until the server has ended the stream. Returns false if it does not
  // within `patience`.
  bool AwaitEnd(uint32_t stream, std::chrono::milliseconds patience);

 private:
  Http2Peer(std::unique_ptr<Socket> socket, const Target& target,
            const Habits& habits);
  void Greet();
  void OnFrame(uint8_t type, uint8_t flags, uint32_t stream,
               std::string_view payload);
  void OnSettings(std::string_view payload);
  void OnData(uint8_t flags, uint32_t stream, size_t size);
  // Waits until the windows allow bytes on the stream, and returns their
  // number.
  size_t Allowance(uint32_t stream);

  std::unique_ptr<Socket> socket_;
  const std::string authority_;
  const std::string token_;
  const bool tls_;
  const Habits habits_;
  std::string inbox_;
  uint32_t next_stream_ = 1;
  std::map<uint32_t, int64_t> windows_;  // send windows of open streams
  int64_t connection_window_ = 65535;
  int64_t initial_window_ = 65535;
  uint64_t unreported_ = 0;  // bytes received since the last WINDOW_UPDATE
  uint64_t received_data_ = 0;
  bool gone_ = false;
};

}  // namespace quantd::attack

#endif  // QUANTD_TESTS_ATTACK_HTTP2_PEER_H_
