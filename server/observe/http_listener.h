// A small HTTP/1.1 listener for the metrics page: GET and HEAD, one request a
// connection, no bodies, no TLS. Requests are bounded in size, time and number,
// and idle connections never keep a new one out.
//
// Threads: one of its own runs everything, the handler too. Start and the
// destructor may be called from any thread.
#ifndef QUANTD_SERVER_OBSERVE_HTTP_LISTENER_H_
#define QUANTD_SERVER_OBSERVE_HTTP_LISTENER_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "absl/status/statusor.h"
#include "server/net/listen_socket.h"

namespace quantd {

struct HttpReply {
  std::string_view status = "200 OK";
  std::string body;
  std::string_view type = "text/plain; charset=utf-8";
};

struct HttpLimits {
  size_t connections = 16;  // one more closes the oldest
  size_t request_bytes = 8 << 10;
  // For a request, and again for its reply.
  std::chrono::milliseconds patience{5000};
};

class HttpListener {
 public:
  // `path` starts with '/' and has no query.
  using Handler = std::function<HttpReply(std::string_view path)>;

  // Listens when it returns; port 0 takes a free one. INVALID_ARGUMENT if
  // security::CheckTcpAddress refuses the address, UNAVAILABLE if it cannot be
  // used.
  static absl::StatusOr<std::unique_ptr<HttpListener>> Start(
      std::string_view address, Handler handler, const HttpLimits& limits = {});
  // Closes every connection.
  ~HttpListener();
  HttpListener(const HttpListener&) = delete;

  // With the actual port: "127.0.0.1:9151".
  const std::string& address() const { return sockets_.address(); }

 private:
  struct Connection;

  HttpListener(ListenSockets sockets, Handler handler,
               const HttpLimits& limits);
  void Run();
  void Accept(int listening);
  // Reads or writes. Returns false if the connection must be closed.
  bool Advance(Connection& c);
  std::string Answer(std::string_view head) const;

  const Handler handler_;
  const HttpLimits limits_;
  ListenSockets sockets_;
  std::atomic<bool> stopping_ = false;
  std::list<Connection> connections_;  // used by the thread only; oldest first
  std::thread thread_;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_OBSERVE_HTTP_LISTENER_H_
