// Tests of the HTTP listener with correct, faulty and hostile clients.
#include "server/observe/http_listener.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "tests/server/rpc_client.h"
#include "tests/server/test_peer.h"
#include "tests/testing/matchers.h"

namespace quantd {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

class HttpListenerTest : public testing::Test {
 protected:
  void Start(const HttpLimits& limits = {}) {
    auto listener = HttpListener::Start(
        "127.0.0.1:0",
        [](std::string_view path) -> HttpReply {
          if (path == "/big") return {"200 OK", std::string(32 << 20, 'b')};
          if (path != "/page") return {"404 Not Found", "no such page\n"};
          return {"200 OK", "served\n"};
        },
        limits);
    ASSERT_THAT(listener, IsOk());
    listener_ = *std::move(listener);
  }
  std::string address() const { return listener_->address(); }
  void ExpectServes() {
    EXPECT_THAT(Get(address(), "/page"), EndsWith("\r\n\r\nserved\n"));
  }

  std::unique_ptr<HttpListener> listener_;
};

TEST_F(HttpListenerTest, AnswersGetAndHead) {
  Start();
  const std::string reply = Get(address(), "/page?with=query");
  EXPECT_THAT(reply, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(reply, HasSubstr("\r\nContent-Length: 7\r\n"));
  EXPECT_THAT(reply, EndsWith("\r\n\r\nserved\n"));
  const std::string head = Exchange(address(), "HEAD /page HTTP/1.0\r\n\r\n");
  EXPECT_THAT(head, HasSubstr("\r\nContent-Length: 7\r\n"));
  EXPECT_THAT(head, EndsWith("\r\n\r\n"));
  EXPECT_THAT(Get(address(), "/nothing"), StartsWith("HTTP/1.1 404 "));
}

TEST_F(HttpListenerTest, AcceptsARequestInPieces) {
  Start();
  TestPeer client(address());
  for (const char c : std::string("GET /page HTTP/1.1\r\n\r\n")) {
    ASSERT_TRUE(client.Send(std::string(1, c)));
  }
  EXPECT_THAT(client.ReadAll(), EndsWith("served\n"));
}

TEST_F(HttpListenerTest, RefusesUnsupportedRequests) {
  Start();
  const std::pair<std::string, std::string> cases[] = {
      {"POST /page HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", "405"},
      {"DELETE /page HTTP/1.1\r\n\r\n", "405"},
      {"GET /page\r\n\r\n", "400"},
      {"GET /page HTTP/2\r\n\r\n", "400"},
      {"GET page HTTP/1.1\r\n\r\n", "400"},
      {"GET http://elsewhere/page HTTP/1.1\r\n\r\n", "400"},
      {"GET  HTTP/1.1\r\n\r\n", "400"},
      {"GET /a\tb HTTP/1.1\r\n\r\n", "400"},
      {std::string("GET /\0 HTTP/1.1\r\n\r\n", 19), "400"},
      {"A\r\n\r\n", "400"},
      {"\r\n\r\n", "400"},
      {"\x16\x03\x01\x02", "400"},  // the start of a TLS handshake
      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "400"},
  };
  for (const auto& [request, status] : cases) {
    EXPECT_THAT(Exchange(address(), request),
                StartsWith("HTTP/1.1 " + status + " "))
        << request;
  }
  ExpectServes();
}

TEST_F(HttpListenerTest, LimitsTheSizeOfARequest) {
  HttpLimits limits;
  limits.request_bytes = 256;
  Start(limits);
  const std::string fits =
      "GET /page HTTP/1.1\r\nX: " + std::string(200, 'x') + "\r\n\r\n";
  EXPECT_THAT(Exchange(address(), fits), EndsWith("served\n"));
  const std::string over =
      "GET /page HTTP/1.1\r\nX: " + std::string(240, 'x') + "\r\n\r\n";
  EXPECT_THAT(Exchange(address(), over), StartsWith("HTTP/1.1 431 "));
  TestPeer flood(address());
  const std::string chunk(1 << 12, 'G');
  const auto start = std::chrono::steady_clock::now();
  while (flood.Send(chunk)) {
    ASSERT_LT(std::chrono::steady_clock::now() - start, seconds(30));
  }
  ExpectServes();
}

TEST_F(HttpListenerTest, LimitsTheTimeOfARequest) {
  HttpLimits limits;
  limits.patience = milliseconds(50);
  Start(limits);
  TestPeer silent(address());
  TestPeer slow(address());
  ASSERT_TRUE(slow.Send("GET /pa"));
  EXPECT_EQ(silent.ReadAll(), "");
  EXPECT_EQ(slow.ReadAll(), "");
}

TEST_F(HttpListenerTest, DropsAPeerThatDoesNotReadTheReply) {
  HttpLimits limits;
  limits.patience = milliseconds(100);
  Start(limits);
  TestPeer client(address());
  ASSERT_TRUE(client.Send("GET /big HTTP/1.1\r\n\r\n"));
  ASSERT_TRUE(client.Readable());
  ASSERT_TRUE(Eventually([&] { return client.Dropped(); }));
  // The peer reads the bytes that the kernel has accepted, and then the end.
  EXPECT_LT(client.ReadAll().size(), size_t{32} << 20);
  ExpectServes();
}

TEST_F(HttpListenerTest, ServesANewClientAtTheConnectionLimit) {
  HttpLimits limits;
  limits.connections = 4;
  limits.patience = seconds(60);
  Start(limits);
  std::vector<TestPeer> holding;
  for (int i = 0; i < 12; ++i) {
    holding.emplace_back(address());
    holding.back().Send("GET /");
    ExpectServes();
  }
  // The oldest connection was closed for the new client.
  EXPECT_EQ(holding.front().ReadAll(), "");
}

TEST_F(HttpListenerTest, EndsAtOnceWithConnectionsOpen) {
  HttpLimits limits;
  limits.patience = seconds(600);
  Start(limits);
  TestPeer silent(address());
  ExpectServes();
  const auto start = std::chrono::steady_clock::now();
  listener_.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(60));
  EXPECT_EQ(silent.ReadAll(), "");
}

TEST_F(HttpListenerTest, ExplainsAnInvalidAddress) {
  for (const char* wrong :
       {"", "9151", ":9151", "127.0.0.1", "127.0.0.1:", "127.0.0.1:http",
        "127.0.0.1:65536", "::1:9151", "unix:/tmp/x", "[]:1", "a/b:1"}) {
    const absl::Status status = HttpListener::Start(wrong, nullptr).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << wrong;
    EXPECT_THAT(std::string(status.message()), HasSubstr("HOST:PORT"));
  }
  Start();
  const auto taken = HttpListener::Start(address(), nullptr);
  EXPECT_TRUE(absl::IsUnavailable(taken.status()));
  EXPECT_THAT(std::string(taken.status().message()), HasSubstr("in use"));
}

}  // namespace
}  // namespace quantd
