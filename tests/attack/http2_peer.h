// A hand-written HTTP/2 client that misbehaves as it is told to: it may send
// less or more than it announced, ignore the server's limits and never read an
// answer. It does not use gRPC, which would prevent that.
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
  // Obeys the server's windows, for which it has to read.
  bool respect_windows = true;
  // Reads what the server sends.
  bool read = true;
  // Initial window for the server on a stream.
  uint32_t window = 65535;
  // Lets the server send without limit: big windows, updated as data come.
  bool welcome_replies = false;
};

// Big-endian numbers as frames hold them.
std::string Octets(uint64_t value, int count);
// A header field in HPACK, without table and Huffman code.
std::string LiteralField(std::string_view name, std::string_view value);
// The 9 bytes before the payload of a frame.
std::string FrameHead(size_t length, uint8_t type, uint8_t flags,
                      uint32_t stream);

// One connection. At its end time everything ends, and operations fail from
// then on.
class Http2Peer {
 public:
  using Clock = Socket::Clock;

  // Connects and sends preface and SETTINGS. Returns null if connecting fails.
  static std::unique_ptr<Http2Peer> Connect(const Target& target,
                                            const Habits& habits,
                                            Clock::time_point end);

  bool alive() const { return socket_->alive() && !gone_; }
  uint64_t received_data() const { return received_data_; }
  // Streams that the server has neither answered completely nor reset.
  size_t open_streams() const { return windows_.size(); }
  bool IsOpen(uint32_t stream) const { return windows_.contains(stream); }

  bool SendRaw(std::string_view bytes) { return socket_->Send(bytes); }
  bool SendFrame(uint8_t type, uint8_t flags, uint32_t stream,
                 std::string_view payload);

  // The header block of a gRPC call, with the target's token if it has one.
  std::string HeaderBlock(std::string_view path,
                          const Metadata& metadata = {}) const;
  // A number for a stream that the caller opens with frames of its own.
  uint32_t NextStream();
  // Opens a call. Returns 0 if the connection is gone.
  uint32_t Open(std::string_view path, const Metadata& metadata = {},
                bool ends = false);

  // Sends the prefix of a gRPC message, whatever follows it.
  bool BeginMessage(uint32_t stream, uint32_t claimed_bytes,
                    bool compressed = false);
  // Sends as much of `bytes` as possible. Returns how much was sent before the
  // stream, the connection or its time ended.
  size_t SendBody(uint32_t stream, std::string_view bytes);
  // Sends `count` zeros in the same way.
  size_t SendZeros(uint32_t stream, size_t count);
  // Sends a whole message and the end of the stream.
  bool SendMessage(uint32_t stream, std::string_view message);
  bool EndStream(uint32_t stream);
  bool Reset(uint32_t stream);

  // Reads what has arrived, waiting at most that long, and reacts by the
  // habits.
  void Pump(std::chrono::milliseconds wait = std::chrono::milliseconds(0));
  // Pumps until the server has ended the stream. Returns false if it does not
  // in time.
  bool AwaitEnd(uint32_t stream, std::chrono::milliseconds patience);

 private:
  Http2Peer(std::unique_ptr<Socket> socket, const Target& target,
            const Habits& habits);
  void Greet();
  void OnFrame(uint8_t type, uint8_t flags, uint32_t stream,
               std::string_view payload);
  void OnSettings(std::string_view payload);
  void OnData(uint8_t flags, uint32_t stream, size_t size);
  // How much may be sent on the stream now; waits until it is more than
  // nothing.
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
