// Tests of clients with several servers, some of them faulty: which server gets
// a call, when a call moves to another one, and the error if no server accepts
// it.
#include "client/net/servers.h"

#include <atomic>
#include <cstring>
#include <future>
#include <thread>

#include "client/net/exchange.h"
#include "client/net/transport.h"
#include "tests/client/calls.h"
#include "tests/testing/loopback.h"

namespace quantd {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::HasSubstr;

Scripted Draining() {
  Scripted s = Failure(grpc::StatusCode::UNAVAILABLE, "shutting down");
  s.detail.emplace();
  s.detail->set_reason(v1::ErrorDetail::REASON_DRAINING);
  return s;
}

Scripted DeviceFault() {
  Scripted s = Failure(grpc::StatusCode::INTERNAL, "device cuda:0 failed");
  s.detail.emplace();
  s.detail->set_reason(v1::ErrorDetail::REASON_DEVICE_FAULT);
  return s;
}

Scripted Hang() {
  Scripted s;
  s.hang = true;
  return s;
}

// A client's two servers, which answer unless scripted otherwise.
class TwoServers : public testing::Test {
 protected:
  void ScriptBoth(const std::vector<Scripted>& scripts) {
    a_.Script(scripts);
    b_.Script(scripts);
  }
  // Makes calls until each server has received one.
  void HearOfBoth(Client& client) {
    const int a = a_.calls();
    const int b = b_.calls();
    for (int i = 0; i < 6000 && (a_.calls() == a || b_.calls() == b); ++i) {
      ASSERT_THAT(client.GetServerInfo(), IsOk());
      std::this_thread::sleep_for(milliseconds(5));
    }
  }
  int calls() const { return a_.calls() + b_.calls(); }
  std::string target() const { return a_.target() + "," + b_.target(); }

  FakeServer a_;
  FakeServer b_;
  Input in_{{64, 1024}};
};

TEST_F(TwoServers, TakeTurns) {
  const auto client = Connect(target());
  HearOfBoth(*client);
  const int a = a_.calls();
  const int b = b_.calls();
  for (int i = 0; i < 10; ++i) {
    ASSERT_THAT(client->Quantize(in_.desc, in_.data, Nvfp4()), IsOk());
  }
  EXPECT_EQ(a_.calls(), a + 5);
  EXPECT_EQ(b_.calls(), b + 5);
}

TEST_F(TwoServers, RetryOnAnotherServerSendsTheWholeRequest) {
  Input large({512, 4096});
  for (size_t i = 0; i < large.data.size(); ++i) {
    large.data[i] = static_cast<std::byte>(i % 127);
  }
  const auto client = Connect(target());
  a_.KeepRequests();
  b_.KeepRequests();
  a_.Script({Draining()});
  for (int i = 0; i < 4; ++i) {
    ASSERT_THAT(client->Quantize(large.desc, large.data, Nvfp4()), IsOk());
  }
  EXPECT_EQ(calls(), 5);
  for (const FakeServer* server : {&a_, &b_}) {
    for (const auto& request : server->requests()) {
      ASSERT_EQ(request.payload().size(), large.data.size());
      EXPECT_EQ(std::memcmp(request.payload().data(), large.data.data(),
                            large.data.size()),
                0);
    }
  }
}

TEST_F(TwoServers, AvoidAServerThatFails) {
  for (const Scripted& failure : {Failure(grpc::StatusCode::UNAVAILABLE),
                                  Draining(), Busy(20'000), DeviceFault()}) {
    const auto client = Connect(target());
    HearOfBoth(*client);
    a_.Script({failure});
    int most = 0;
    const auto start = steady_clock::now();
    for (int i = 0; i < 6; ++i) {
      const auto result = client->Quantize(in_.desc, in_.data, Nvfp4());
      ASSERT_THAT(result, IsOk());
      most = std::max(most, result->attempts());
    }
    EXPECT_EQ(most, 2);
    EXPECT_LT(Seconds(start), kAtOnce);
    a_.Script({});
  }
}

TEST_F(TwoServers, StopAfterTwoDeviceFaults) {
  const auto client = Connect(target());
  HearOfBoth(*client);
  const int before = calls();
  ScriptBoth({DeviceFault(), DeviceFault()});
  EXPECT_THAT(client->Quantize(in_.desc, in_.data, Nvfp4()),
              StatusIs(absl::StatusCode::kInternal));
  EXPECT_EQ(calls(), before + 2);
}

TEST_F(TwoServers, RetriesEnd) {
  const auto client = Connect(target());
  ScriptBoth(
      std::vector<Scripted>(9, Failure(grpc::StatusCode::UNAVAILABLE, "no!")));
  const auto result = client->Quantize(in_.desc, in_.data, Nvfp4());
  EXPECT_THAT(result, StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_EQ(calls(), 4);
  EXPECT_EQ(GetAttempts(result.status()), 4);
  EXPECT_TRUE(GetRetryHint(result.status()).has_value());
  const std::string text(result.status().message());
  EXPECT_THAT(text, HasSubstr(a_.target() + ": no!"));
  EXPECT_THAT(text, HasSubstr(b_.target() + ": no!"));
}

TEST_F(TwoServers, SendOnceWithoutRetries) {
  const auto client = Connect(target(), {.retry = {.max_attempts = 1}});
  ScriptBoth(std::vector<Scripted>(2, DeviceFault()));
  EXPECT_FALSE(client->Quantize(in_.desc, in_.data, Nvfp4()).ok());
  ScriptBoth(std::vector<Scripted>(2, Draining()));
  EXPECT_FALSE(client->Quantize(in_.desc, in_.data, Nvfp4()).ok());
  EXPECT_EQ(calls(), 2);
}

TEST_F(TwoServers, AvoidASlowServer) {
  const auto client = Connect(target());
  HearOfBoth(*client);
  a_.Script(std::vector<Scripted>(20, Hang()));
  const int before = a_.calls();
  const CancellationToken token;
  std::vector<std::future<absl::StatusOr<Result>>> futures;
  // Makes two simultaneous calls; the one to server a hangs.
  for (int i = 0; i < 2; ++i) {
    futures.push_back(
        client->QuantizeAsync(in_.desc, in_.data, Nvfp4(), {.cancel = token}));
  }
  a_.WaitForHanging(1);
  const auto done = [](const auto& future) {
    return future.wait_for(milliseconds(5)) == std::future_status::ready;
  };
  while (!done(futures[0]) && !done(futures[1])) {
  }
  for (int i = 0; i < 20; ++i) {
    ASSERT_THAT(client->Quantize(in_.desc, in_.data, Nvfp4()), IsOk());
  }
  EXPECT_EQ(a_.calls(), before + 1);
  token.Cancel();
}

TEST_F(TwoServers, AvoidAServerAfterADeadline) {
  const auto client = Connect(target());
  HearOfBoth(*client);
  const int before = a_.calls();
  a_.Script(std::vector<Scripted>(20, Hang()));
  int late = 0;
  auto since = steady_clock::now();
  // The server is avoided for five seconds.
  for (int i = 0; i < 10 && (late == 0 || Seconds(since) < 4); ++i) {
    const auto result = client->Quantize(in_.desc, in_.data, Nvfp4(),
                                         {.deadline = milliseconds(3000)});
    if (result.ok()) continue;
    ++late;
    since = steady_clock::now();
    EXPECT_THAT(result, StatusIs(absl::StatusCode::kDeadlineExceeded));
    EXPECT_THAT(std::string(result.status().message()),
                HasSubstr(a_.target() + ": it did not answer in time"));
  }
  EXPECT_EQ(late, 1);
  EXPECT_EQ(a_.calls(), before + 1);
}

TEST(Servers, ErrorListsEveryServersError) {
  const auto client = Connect("127.0.0.1:1,127.0.0.1:2,unix:/no/such/socket");
  Input in({1, 16});
  const auto start = steady_clock::now();
  const auto result = client->Quantize(in.desc, in.data, Nvfp4());
  EXPECT_THAT(result, StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_LT(Seconds(start), kAtOnce);
  const std::string text(result.status().message());
  EXPECT_THAT(text, HasSubstr("none of 3 quantd servers"));
  EXPECT_THAT(text, HasSubstr("127.0.0.1:1: "));
  EXPECT_THAT(text, HasSubstr("127.0.0.1:2: "));
  EXPECT_THAT(text, HasSubstr("unix:/no/such/socket: "));
  EXPECT_THAT(text, HasSubstr("refused"));
  EXPECT_EQ(GetAttempts(result.status()), 0);
  EXPECT_TRUE(GetRetryHint(result.status()).has_value());
}

TEST(Servers, OneReachableServerIsEnough) {
  LoopbackListener mute(16);  // accepts connections but never answers
  FakeServer server;
  const auto client =
      Connect("127.0.0.1:1," + mute.target() + "," + server.target());
  Input in({64, 1024});
  const auto start = steady_clock::now();
  for (int i = 0; i < 10; ++i) {
    const auto result = client->Quantize(in.desc, in.data, Nvfp4());
    ASSERT_THAT(result, IsOk());
    EXPECT_EQ(result->attempts(), 1);
  }
  EXPECT_LT(Seconds(start), kAtOnce);
}

TEST(Servers, HangingServersDelayACallOnlyToItsDeadline) {
  LoopbackListener mute(16);  // accepts connections but never answers
  const auto client = Connect(mute.target() + ",127.0.0.1:1");
  Input in({64, 1024});
  const auto start = steady_clock::now();
  const auto result = client->Quantize(in.desc, in.data, Nvfp4(),
                                       {.deadline = milliseconds(600)});
  EXPECT_THAT(result, StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_LT(Seconds(start), kAtOnce);
  const std::string text(result.status().message());
  EXPECT_THAT(text, HasSubstr(mute.target() + ": no connection yet"));
  EXPECT_THAT(text, HasSubstr("127.0.0.1:1: "));
  const CancellationToken token;
  auto future =
      client->QuantizeAsync(in.desc, in.data, Nvfp4(), {.cancel = token});
  std::this_thread::sleep_for(milliseconds(50));
  token.Cancel();
  EXPECT_THAT(future.get(), StatusIs(absl::StatusCode::kCancelled));
}

// The components of a Client, with a resolver that the test supplies.
class Named {
 public:
  explicit Named(client::Resolver resolver)
      : servers_({client::HostName{"quantd.test", "1"}},
                 client::ChannelFactory({}, Plain()), 1, std::move(resolver)),
        exchange_("quantd.test:1", {}, Plain(), &servers_) {}

  absl::Status Call(milliseconds limit = milliseconds(10'000)) {
    client::CallControl control;
    ReceivedMessage reply;
    client::Trip trip;
    return exchange_.Run(client::Message{"/quantd.v1.Quantd/GetServerInfo"},
                         {limit, std::chrono::system_clock::now() + limit},
                         control, &reply, &trip);
  }

 private:
  static client::ChannelCredentials Plain() {
    return {grpc::InsecureChannelCredentials(), "", ""};
  }
  client::Servers servers_;
  client::Exchange exchange_;
};

std::vector<client::Address> Found(std::vector<std::string> targets) {
  std::vector<client::Address> list;
  for (std::string& t : targets)
    list.push_back({std::move(t), "quantd.test:1"});
  return list;
}

TEST(Names, ReportsANameThatDoesNotResolve) {
  Named named([](const auto&) {
    return absl::NotFoundError("the name does not resolve: no such name");
  });
  const auto start = steady_clock::now();
  const absl::Status status = named.Call();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("quantd.test:1: the name does not resolve: no such"));
  EXPECT_LT(Seconds(start), kAtOnce);
}

TEST(Names, HangingNameServerDelaysACallOnlyToItsDeadline) {
  const auto release = std::make_shared<std::promise<void>>();
  const std::shared_future<void> released(release->get_future());
  const auto start = steady_clock::now();
  {
    Named named([released](const auto&) {
      released.wait();
      return absl::StatusOr<std::vector<client::Address>>(Found({}));
    });
    const absl::Status status = named.Call(milliseconds(200));
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kDeadlineExceeded));
    EXPECT_THAT(std::string(status.message()), HasSubstr("being looked up"));
  }
  EXPECT_LT(Seconds(start), kAtOnce);
  release->set_value();
}

TEST(Names, ResolveToManyAddressesWithDuplicates) {
  FakeServer a;
  FakeServer b;
  Named named([&](const auto&) {
    return Found({a.target(), b.target(), a.target()});
  });
  for (int i = 0; i < 10; ++i) ASSERT_THAT(named.Call(), IsOk());
}

TEST(Names, AreResolvedAgainAfterALostConnection) {
  auto a = std::make_unique<FakeServer>();
  FakeServer b;
  std::atomic<bool> moved = false;
  const std::string first = a->target();
  Named named([&](const auto&) { return Found({moved ? b.target() : first}); });
  ASSERT_THAT(named.Call(), IsOk());
  std::this_thread::sleep_for(milliseconds(1100));
  moved = true;
  a.reset();
  EXPECT_THAT(named.Call(), IsOk());
  EXPECT_THAT(named.Call(), IsOk());
}

}  // namespace
}  // namespace quantd
