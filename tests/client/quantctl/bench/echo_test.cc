// The echo of quantctl and its client: sizes, what it refuses, how it ends.
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <future>
#include <thread>

#include "client/quantctl/echo/echo_client.h"
#include "client/quantctl/echo/echo_server.h"
#include "tests/client/quantctl/cli_fixture.h"

namespace quantd {
namespace {

using quantctl::EchoClient;
using quantctl::EchoOptions;
using quantctl::EchoServer;
using quantctl::kEchoMessages;
using quantctl::kEchoMethod;
using quantctl::kEchoReplyBytes;
using testing::HasSubstr;

constexpr size_t kMiB = 1 << 20;

std::vector<std::byte> Bytes(size_t size) {
  std::mt19937_64 random(size);
  std::vector<std::byte> bytes(size);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

std::unique_ptr<EchoServer> Served(EchoOptions options = {}) {
  auto server = EchoServer::Start(options);
  EXPECT_THAT(server, IsOk());
  return server.ok() ? *std::move(server) : nullptr;
}

std::unique_ptr<EchoClient> Dial(const std::string& address,
                                 int connections = 1) {
  auto client =
      EchoClient::Create(address, connections, std::chrono::seconds(20));
  EXPECT_THAT(client, IsOk());
  return client.ok() ? *std::move(client) : nullptr;
}

TEST(Echo, AnswersAsManyBytesAsAreAskedFor) {
  const auto server = Served();
  const auto client = Dial(server->address());
  // Long before short ones: what is left of them must not come back.
  for (const auto& [in, out] : {std::pair(3 * kMiB, kMiB),
                                {kMiB, 3 * kMiB + 1},
                                {4096, 1152},
                                {1, 1},
                                {7, 0},
                                {100, 5000}}) {
    const auto input = Bytes(in);
    std::vector<std::byte> output(out, std::byte{0xee});
    ASSERT_THAT(client->Exchange(input, absl::MakeSpan(output), {}), IsOk());
    std::vector<std::byte> expected = input;
    expected.resize(out);
    EXPECT_TRUE(output == expected) << in << " for " << out;
  }
}

// What part `i` of `count` of the input is answered by.
void ExpectShare(const std::vector<std::byte>& input,
                 const std::vector<std::byte>& output, size_t i, size_t count) {
  const auto at = [&](size_t size, size_t k) {
    return static_cast<std::ptrdiff_t>(quantctl::ShareOf(size, k, count));
  };
  // A short message has zeros behind it.
  std::vector<std::byte> expected(input.begin() + at(input.size(), i),
                                  input.begin() + at(input.size(), i + 1));
  expected.resize(at(output.size(), i + 1) - at(output.size(), i));
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(),
                         output.begin() + at(output.size(), i)))
      << i << " of " << count;
}

TEST(Echo, PiecesCarryTheSameBytesEach) {
  const auto server = Served();
  const auto client = Dial(server->address(), 3);
  const auto input = Bytes(5 * kMiB + 3);
  std::vector<std::byte> output(kMiB + 5);
  ASSERT_THAT(client->Exchange(input, absl::MakeSpan(output),
                               {.piece_bytes = kMiB, .connections = 3}),
              IsOk());
  for (size_t i = 0; i < 6; ++i) ExpectShare(input, output, i, 6);
}

// Each message is answered by its share, shorter or longer than it, while the
// next ones come.
TEST(Echo, StreamsCarryTheSameBytesEach) {
  const auto server = Served();
  const auto client = Dial(server->address(), 2);
  for (const size_t answer : {kMiB + 5, 9 * kMiB + 1, size_t{0}}) {
    const auto input = Bytes(5 * kMiB + 3);
    std::vector<std::byte> output(answer, std::byte{0xee});
    ASSERT_THAT(client->Exchange(input, absl::MakeSpan(output),
                                 {.piece_bytes = kMiB, .streamed = true}),
                IsOk());
    for (size_t i = 0; i < 6; ++i) ExpectShare(input, output, i, 6);
    // More streams than connections; a call of many small messages.
    ASSERT_THAT(client->Exchange(
                    input, absl::MakeSpan(output),
                    {.piece_bytes = 4096, .connections = 3, .streamed = true}),
                IsOk());
  }
}

TEST(Echo, AllIsInBeforeAByteIsOut) {
  const auto server = Served();
  const auto client = Dial(server->address(), 3);
  const auto input = Bytes(5 * kMiB + 3);
  std::vector<std::byte> output(kMiB + 5, std::byte{0xee});
  ASSERT_THAT(client->Exchange(
                  input, absl::MakeSpan(output),
                  {.piece_bytes = kMiB, .connections = 3, .in_then_out = true}),
              IsOk());
  // A byte of a call for each piece, and zeros.
  for (size_t i = 0; i < 6; ++i) {
    const size_t at = quantctl::ShareOf(output.size(), i, 6);
    EXPECT_EQ(output[at], input[i]);
    EXPECT_EQ(output[at + 1], std::byte{0});
  }
}

// A call by hand.
struct Asked {
  std::string method = kEchoMethod;
  std::optional<std::string> reply_bytes = "10";
  std::optional<std::string> messages = std::nullopt;
  size_t message = 10;
  bool deadline = true;
};

grpc::Status Ask(const std::string& address, const Asked& asked) {
  grpc::GenericStub stub(
      grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  if (asked.deadline) {
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::seconds(20));
  }
  if (asked.reply_bytes) {
    context.AddMetadata(kEchoReplyBytes, *asked.reply_bytes);
  }
  if (asked.messages) context.AddMetadata(kEchoMessages, *asked.messages);
  const std::string text(asked.message, 'x');
  const grpc::Slice slice(text);
  const grpc::ByteBuffer request(&slice, 1);
  grpc::ByteBuffer reply;
  grpc::Status status;
  grpc::CompletionQueue queue;
  const auto call =
      stub.PrepareUnaryCall(&context, asked.method, request, &queue);
  call->StartCall();
  call->Finish(&reply, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  return status;
}

TEST(Echo, RefusesWhatItDoesNotKnowAndGoesOn) {
  EchoOptions options;
  options.max_bytes = 1000;
  const auto server = Served(options);
  const auto ask = [&](const Asked& asked) {
    return Ask(server->address(), asked);
  };
  for (const auto& text : {"-1", "", "12x", "1001", "18446744073709551616"}) {
    const auto status = ask({.reply_bytes = text});
    EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT) << text;
    EXPECT_THAT(status.error_message(), HasSubstr("--max-bytes")) << text;
  }
  EXPECT_EQ(ask({.reply_bytes = std::nullopt}).error_code(),
            grpc::INVALID_ARGUMENT);
  for (const auto& text : {"0", "-1", "x", "1048577"}) {
    const auto status = ask({.messages = text});
    EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT) << text;
    EXPECT_THAT(status.error_message(), HasSubstr("echo-messages")) << text;
  }
  EXPECT_EQ(ask({.reply_bytes = "2001", .messages = "2"}).error_code(),
            grpc::INVALID_ARGUMENT);
  // It ends before the second comes.
  const auto early = ask({.messages = "2"});
  EXPECT_EQ(early.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(early.error_message(), HasSubstr("expected 2 messages"));
  const auto other = ask({.method = "/quantd.v1.Quantd/Quantize"});
  EXPECT_EQ(other.error_code(), grpc::UNIMPLEMENTED);
  EXPECT_THAT(other.error_message(), HasSubstr("no quantd"));
  const auto endless = ask({.deadline = false});
  EXPECT_EQ(endless.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(endless.error_message(), HasSubstr("deadline"));
  EXPECT_EQ(ask({.message = 1001}).error_code(), grpc::RESOURCE_EXHAUSTED);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(ask({.message = 1000}).ok());
}

// One that opens and sends nothing more.
struct Silent {
  explicit Silent(const std::string& address)
      : stub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials())) {
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::seconds(60));
    context.AddMetadata(kEchoReplyBytes, "10");
    call = stub.PrepareCall(&context, kEchoMethod, &queue);
    call->StartCall(nullptr);
    Next();
  }
  bool Next() {
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    return ok;
  }
  grpc::Status Finish() {
    grpc::Status status;
    call->Finish(&status, nullptr);
    Next();
    return status;
  }

  grpc::GenericStub stub;
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call;
};

TEST(Echo, ACallWithoutAMessageIsRefused) {
  const auto server = Served();
  Silent silent(server->address());
  silent.call->WritesDone(nullptr);
  ASSERT_TRUE(silent.Next());
  const auto status = silent.Finish();
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("got none"));
}

TEST(Echo, EndsWithCallsUnderWay) {
  auto server = Served();
  std::vector<std::unique_ptr<Silent>> silent;
  for (int i = 0; i < server->calls() + 3; ++i) {
    silent.push_back(std::make_unique<Silent>(server->address()));
  }
  auto ended = std::async(std::launch::async, [&] { server.reset(); });
  EXPECT_EQ(ended.wait_for(std::chrono::seconds(20)),
            std::future_status::ready);
  for (const auto& one : silent) EXPECT_FALSE(one->Finish().ok());
}

TEST(Echo, ListensWhereNobodyElseDoes) {
  const auto server = Served();
  EchoOptions taken;
  taken.listen = server->address();
  const auto second = EchoServer::Start(taken);
  EXPECT_THAT(second.status(), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("--listen"));
  const TempDir dir;
  const std::string path = dir / "socket";
  std::ofstream(path) << "a file";
  EchoOptions options;
  for (const std::string& listen :
       {"unix:" + path, std::string("nowhere"), std::string("127.0.0.1:x")}) {
    options.listen = listen;
    EXPECT_THAT(EchoServer::Start(options).status(),
                StatusIs(absl::StatusCode::kInvalidArgument))
        << listen;
  }
  EXPECT_EQ(ReadFile(path), "a file");
  for (const uint64_t bytes : {uint64_t{0}, (uint64_t{1} << 30) + 1}) {
    options = {};
    options.max_bytes = bytes;
    EXPECT_THAT(EchoServer::Start(options).status(),
                StatusIs(absl::StatusCode::kInvalidArgument));
  }
}

TEST(Echo, BySocketsOfThisMachine) {
  const TempDir dir;
  for (const std::string& listen :
       {"unix:" + (dir / "socket"),
        "unix-abstract:quantd-echo-test-" + std::to_string(getpid())}) {
    EchoOptions options;
    options.listen = listen;
    const auto server = Served(options);
    ASSERT_NE(server, nullptr);
    std::vector<std::byte> output(20);
    EXPECT_THAT(Dial(server->address())
                    ->Exchange(Bytes(30), absl::MakeSpan(output), {}),
                IsOk())
        << listen;
  }
}

// Answers a byte more than it was asked for.
class Generous : public grpc::CallbackGenericService {
 public:
  Generous() {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port);
    builder.RegisterCallbackGenericService(this);
    server_ = builder.BuildAndStart();
    address_ = "127.0.0.1:" + std::to_string(port);
  }
  ~Generous() override { server_->Shutdown(); }
  const std::string& address() const { return address_; }

 private:
  class Reactor : public grpc::ServerGenericBidiReactor {
   public:
    explicit Reactor(size_t bytes) : text_(bytes, 'x') { StartRead(&message_); }
    void OnReadDone(bool ok) override {
      const grpc::Slice slice(text_);
      reply_ = grpc::ByteBuffer(&slice, 1);
      if (ok) StartWriteAndFinish(&reply_, {}, grpc::Status::OK);
    }
    void OnDone() override { delete this; }

   private:
    const std::string text_;
    grpc::ByteBuffer message_;
    grpc::ByteBuffer reply_;
  };
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    const auto found = context->client_metadata().find(kEchoReplyBytes);
    const std::string bytes(found->second.data(), found->second.size());
    return new Reactor(std::stoul(bytes) + 1);
  }

  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

TEST(Echo, AnAnswerOfAnotherSizeIsNoEcho) {
  const Generous server;
  std::vector<std::byte> output(20);
  const auto s =
      Dial(server.address())->Exchange(Bytes(30), absl::MakeSpan(output), {});
  EXPECT_THAT(s, StatusIs(absl::StatusCode::kInternal));
  EXPECT_THAT(std::string(s.message()),
              HasSubstr("answered 21 bytes where 20 were asked for"));
}

}  // namespace
}  // namespace quantd
