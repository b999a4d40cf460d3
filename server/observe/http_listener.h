// A small HTTP/1.1 listener for pages that machines and people read: GET and
// HEAD, one request a connection, no bodies, no TLS. It expects hostile
// clients: what one may send, how long it may take and how many there may be
// are bounded, and a newcomer is never kept out by those who hold connections
// open.
//
// Threads: one of its own runs everything, the handler too. Start and the
// destructor may be called from any thread.
#ifndef QUANTD_SERVER_OBSERVE_HTTP_LISTENER_H_
#define QUANTD_SERVER_OBSERVE_HTTP_LISTENER_H_

#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/net/listen_socket.h"

namespace quantd {

struct HttpRequest {
  std::string_view path;    // starts with '/' and has no query
  std::string_view accept;  // what the client says it reads; empty: nothing
};

struct HttpReply {
  int status = 200;
  std::string body;
  std::string type = "text/plain; charset=utf-8";
};

struct HttpLimits {
  // One more closes the oldest of those that are served already, or else of
  // those that have not yet said what they want.
  size_t connections = 16;
  size_t request_bytes = 8 << 10;
  std::chrono::milliseconds receive{5000};
  std::chrono::milliseconds send{10000};
  // A client that is still sending when it has its reply is heard out for this
  // long, or the reply could be lost.
  std::chrono::milliseconds linger{1000};
};

class HttpListener {
 public:
  // Status 404 for a path it lacks.
  using Handler = std::function<HttpReply(const HttpRequest& request)>;

  // Listens when it returns; port 0 takes a free one. INVALID_ARGUMENT for what
  // security::CheckTcpAddress refuses, UNAVAILABLE for an address that cannot
  // be had.
  static absl::StatusOr<std::unique_ptr<HttpListener>> Start(
      std::string_view address, Handler handler, const HttpLimits& limits = {});
  // Closes every connection.
  ~HttpListener();
  HttpListener(const HttpListener&) = delete;

  // With the port that was taken: "127.0.0.1:9151".
  const std::string& address() const { return sockets_.address(); }

 private:
  struct Connection;

  HttpListener(ListenSockets sockets, int stop, Handler handler,
               const HttpLimits& limits);
  void Run();
  void Accept(int listening);
  void MakeRoom();
  // False: the connection is over.
  bool Advance(Connection& c);
  bool Receive(Connection& c);
  bool Send(Connection& c);
  bool OnTimeout(Connection& c);
  void Answer(Connection& c);
  void Reply(Connection& c, const HttpReply& reply, bool head_only);

  const Handler handler_;
  const HttpLimits limits_;
  ListenSockets sockets_;
  const int stop_;  // an eventfd: readable once the thread shall end
  // The rest is the thread's.
  bool accepting_ = true;
  std::list<Connection> connections_;  // oldest first
  std::thread thread_;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_OBSERVE_HTTP_LISTENER_H_
