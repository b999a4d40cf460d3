// Fuzzes the port of metrics and health. The first byte selects the client's
// behaviour, the following ones the pieces in which it sends.
#include <charconv>
#include <list>
#include <string>

#include "server/observe/http_listener.h"
#include "tests/fuzz/targets/loopback.h"
#include "tests/fuzz/targets/target.h"
#include "tests/testing/loopback.h"

namespace quantd {
namespace {

using fuzz::Check;

HttpReply Answer(std::string_view path) {
  Check(path.starts_with('/'), "a path without a slash");
  for (const char c : path) {
    Check(c > 0x20 && c < 0x7f && c != '?', "an invalid path");
  }
  if (path == "/metrics") return {"200 OK", std::string(20'000, 'm')};
  if (path == "/healthz") return {"200 OK", "alive\n"};
  if (path == "/readyz") return {"503 Service Unavailable", "not serving\n"};
  return {"404 Not Found", "here are /metrics, /healthz and /readyz\n"};
}

// Checks that a reply is empty or complete. Its end may be missing if the
// client sent more than one request.
void Judge(const std::string& reply, bool may_be_cut) {
  if (reply.empty()) return;
  Check(reply.starts_with("HTTP/1.1 "), "no HTTP");
  const size_t end = reply.find("\r\n\r\n");
  if (end == std::string::npos) return Check(may_be_cut, "an incomplete head");
  constexpr std::string_view kLength = "\r\nContent-Length: ";
  const size_t at = reply.find(kLength);
  Check(at < end, "no length");
  size_t length = 0;
  std::from_chars(reply.data() + at + kLength.size(), reply.data() + end,
                  length);
  const size_t body = reply.size() - end - 4;
  Check(body == length || body == 0 || (may_be_cut && body < length),
        "a body of another length");
}

// Limits are so low that an input can exceed each of them.
const HttpListener& Listener() {
  static const auto listener = [] {
    HttpLimits limits;
    limits.connections = 2;
    limits.request_bytes = 256;
    limits.patience = std::chrono::milliseconds(3);
    auto started = HttpListener::Start("127.0.0.1:0", &Answer, limits);
    Check(started.ok(), started.status().ToString());
    return *std::move(started);
  }();
  return *listener;
}

}  // namespace
}  // namespace quantd

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  quantd::fuzz::Input input(data, size);
  const uint8_t mode = input.Byte();
  const auto pieces = input.Pieces();
  static const sockaddr_in address =
      quantd::LoopbackAddress(quantd::Listener().address());
  // In one of 16 modes all connections are in use.
  std::list<quantd::fuzz::Socket> others;
  for (int i = 0; i < (mode % 16 == 2 ? 2 : 0); ++i) {
    others.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
                        reinterpret_cast<const sockaddr*>(&address),
                        sizeof(address));
  }
  const quantd::fuzz::Socket socket(
      ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
      reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  for (const std::string_view piece : pieces) socket.Send(piece);
  // Most modes shut down sending. One of 16 waits for the timeout, and one
  // closes without reading.
  if (mode % 16 == 1) return 0;
  if (mode % 16 != 0) shutdown(socket.fd(), SHUT_WR);
  quantd::Judge(socket.Receive(size_t{1} << 20), true);
  return 0;
}
