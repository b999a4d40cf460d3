// Tests of the quantd program as an operator sees it: its log, signals, files
// and resource limits.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "fmt/format.h"
#include "tests/attack/http2_peer.h"
#include "tests/bench/rpc_process.h"
#include "tests/client/temp_dir.h"
#include "tests/server/memory/door_peer.h"
#include "tests/server/rpc_client.h"
#include "tests/server/test_peer.h"

namespace quantd {
namespace {

using bench::RunQuantd;
using bench::ServerProcess;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// The SHA-256 of "secret" and of "other".
constexpr char kSecretHash[] =
    "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
constexpr char kOtherHash[] =
    "d9298a10d1b0735837dc4bd85dac641b0f3cef27a47e5d53a54f2f3f5b2fcffa";

size_t Count(const std::string& text, const std::string& what) {
  size_t n = 0;
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at) {
    ++n;
  }
  return n;
}

class OperatorTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(bench::FindQuantd(), "") << "the quantd binary is not built";
  }
  std::string At(const std::string& name) const { return dir_ / name; }
  // Returns a command that runs the shell line `line`, in which "$@" is quantd
  // with these arguments.
  std::vector<std::string> Shell(const std::string& line,
                                 const std::vector<std::string>& arguments) {
    std::vector<std::string> command = {"/bin/sh", "-c", line, "sh"};
    const std::vector<std::string> quantd = {bench::FindQuantd(), "--listen",
                                             "127.0.0.1:0", "--memory-budget",
                                             "64MiB"};
    command.insert(command.end(), quantd.begin(), quantd.end());
    command.insert(command.end(), arguments.begin(), arguments.end());
    return command;
  }
  std::vector<std::string> Quantd(const std::vector<std::string>& arguments) {
    return Shell("exec \"$@\"", arguments);
  }
  static grpc::StatusCode CallWith(const ServerProcess& server,
                                   const std::string& authorization) {
    RpcOptions options;
    options.method = "GetServerInfo";
    options.authorization = authorization;
    return Call(Dial(server.address()), "", options).status.error_code();
  }

  const TempDir dir_;
};

// A named pipe that is full from the start, so that writers block.
class FullFifo {
 public:
  explicit FullFifo(const std::string& path) : path_(path) {
    EXPECT_EQ(mkfifo(path.c_str(), 0600), 0);
    fd_ = open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
    const std::string page(4096, '#');
    while (write(fd_, page.data(), page.size()) > 0) {
    }
  }
  ~FullFifo() { close(fd_); }
  FullFifo(const FullFifo&) = delete;

  // Reads all available bytes; returns everything read so far.
  const std::string& Read() {
    char buffer[4096];
    ssize_t n = 0;
    while ((n = read(fd_, buffer, sizeof buffer)) > 0) text_.append(buffer, n);
    return text_;
  }

 private:
  const std::string path_;
  int fd_ = -1;
  std::string text_;
};

TEST_F(OperatorTest, UnreadLogDoesNotBlockCalls) {
  FullFifo unread(At("log"));
  ServerProcess server(
      Shell("exec \"$@\" 2>" + At("log"),
            {"--log-level", "debug", "--metrics-address", "127.0.0.1:0"}));
  ASSERT_TRUE(server.running());
  // These lines of about 400 bytes do not all fit into the log's queue of 1
  // MiB.
  constexpr int kCalls = 8000;
  const auto channel = Dial(server.address());
  RpcOptions options;
  options.method = "DescribeQuantize";
  options.deadline = absl::Seconds(20);
  for (int i = 0; i < kCalls; ++i) {
    ASSERT_EQ(Call(channel, "", options).status.error_code(),
              grpc::INVALID_ARGUMENT)
        << i;
  }
  ASSERT_TRUE(Eventually([&] {
    return unread.Read().find("log_dropped") != std::string::npos;
  })) << unread.Read().size();
  std::istringstream number(
      unread.Read().substr(unread.Read().find("log_dropped lines=") + 18));
  int dropped = 0;
  number >> dropped;
  EXPECT_GT(dropped, 0);
  // The line of the last call may follow its reply.
  Eventually([&] {
    return Count(unread.Read(), " call id=") >= size_t{kCalls} - dropped;
  });
  const std::string log = unread.Read();
  EXPECT_EQ(Count(log, " call id="), size_t{kCalls} - dropped);
  const size_t url = log.find("url=http://");
  ASSERT_NE(url, std::string::npos) << "the first lines must be kept";
  const size_t host = url + 11;
  const std::string page =
      Get(log.substr(host, log.find("/metrics", host) - host), "/metrics");
  EXPECT_THAT(page, HasSubstr(fmt::format(
                        "quantd_log_lines_dropped_total{{reason=\"unread\"}} "
                        "{}\n",
                        dropped)));
}

TEST_F(OperatorTest, SigtermEndsAServerWithAnUnreadLog) {
  FullFifo unread(At("log"));
  ServerProcess server(Shell("exec \"$@\" 2>" + At("log"), {}));
  ASSERT_TRUE(server.running());
  server.Signal(SIGTERM);
  EXPECT_EQ(server.WaitForExit(20), 0);
}

TEST_F(OperatorTest, CountsRepeatedLinesAfterTheFirstFew) {
  constexpr int kCalls = 500;
  ServerProcess server(Quantd({"--log-format", "json"}));
  ASSERT_TRUE(server.running()) << server.Log();
  const auto channel = Dial(server.address());
  RpcOptions options;
  options.method = "DescribeQuantize";
  for (int i = 0; i < kCalls; ++i) Call(channel, "", options);
  server.Signal(SIGTERM);
  EXPECT_EQ(server.WaitForExit(20), 0);
  int calls = 0;
  int repeated = 0;
  std::istringstream lines(server.Log());
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line);
    if (json["event"] == "call") ++calls;
    if (json["event"] != "repeated") continue;
    EXPECT_EQ(json["of"], "call");
    EXPECT_EQ(json["kind"],
              "DescribeQuantize INVALID_ARGUMENT REASON_INVALID_FIELD");
    repeated += json["times"].get<int>();
  }
  EXPECT_GT(calls, 0);
  EXPECT_GT(repeated, 0);
  EXPECT_EQ(calls + repeated, kCalls);
}

TEST_F(OperatorTest, CountsRefusedTokensAndEscapesPaths) {
  WriteFile(At("tokens"), kSecretHash);
  for (const char* format : {"text", "json"}) {
    ServerProcess server(
        Quantd({"--log-format", format, "--token-file", At("tokens"),
                "--metrics-address", "127.0.0.1:0"}));
    ASSERT_TRUE(server.running()) << server.Log();
    const auto channel = Dial(server.address());
    for (const char* token : {"", "", "Bearer wrong"}) {
      RpcOptions options;
      options.authorization = token;
      RpcCall call(channel, "/\x1b[2J\x7f\xc2\x9b\xff", options);
      EXPECT_EQ(call.Finish().status.error_code(), grpc::UNAUTHENTICATED);
    }
    EXPECT_EQ(CallWith(server, "Bearer secret"), grpc::OK);
    ASSERT_TRUE(Eventually([&] {
      return Count(server.Log(), "unauthenticated") == 3;
    })) << server.Log();
    const std::string log = server.Log();
    EXPECT_THAT(log,
                testing::ContainsRegex(R"(/\\+x1b\[2J\\+x7f\\+x9b\\+xff")"));
    for (const char* raw : {"\x1b", "\x7f", "\xc2\x9b", "\xff"}) {
      EXPECT_THAT(log, Not(HasSubstr(raw)));
    }
    const size_t host = log.find("http://") + 7;
    const std::string page =
        Get(log.substr(host, log.find("/metrics", host) - host), "/metrics");
    EXPECT_THAT(
        page,
        AllOf(HasSubstr("quantd_unauthenticated_total{reason=\"missing\"} 2\n"),
              HasSubstr("quantd_unauthenticated_total{reason=\"unknown\"} "
                        "1\n")));
  }
}

TEST_F(OperatorTest, SighupReloadsFilesAndOtherSignalsDoNotKill) {
  WriteFile(At("tokens"), kSecretHash);
  // The reload interval is longer than this test.
  ServerProcess server(
      Quantd({"--token-file", At("tokens"), "--reload-interval-ms", "600000"}));
  ASSERT_TRUE(server.running()) << server.Log();
  EXPECT_EQ(CallWith(server, "Bearer secret"), grpc::OK);
  server.Signal(SIGUSR1);
  server.Signal(SIGUSR2);
  server.Signal(SIGXFSZ);
  WriteFile(At("tokens"), kOtherHash);
  absl::SleepFor(absl::Milliseconds(100));
  EXPECT_EQ(CallWith(server, "Bearer secret"), grpc::OK);
  server.Signal(SIGHUP);
  EXPECT_TRUE(
      Eventually([&] { return CallWith(server, "Bearer other") == grpc::OK; }));
  EXPECT_EQ(CallWith(server, "Bearer secret"), grpc::UNAUTHENTICATED);
  WriteFile(At("tokens"), "broken");
  server.Signal(SIGHUP);
  EXPECT_TRUE(Eventually(
      [&] { return server.Log().find("tokens_kept") != std::string::npos; }));
  EXPECT_EQ(CallWith(server, "Bearer other"), grpc::OK);
  server.Signal(SIGTERM);
  EXPECT_EQ(server.WaitForExit(20), 0);
}

TEST_F(OperatorTest, ExplainsAPortFileThatCannotBeWritten) {
  for (const auto& [path, reason] :
       {std::pair(At("absent/port"), "No such file or directory"),
        std::pair(At(""), "directory")}) {
    const auto [code, text] = RunQuantd(
        "--listen 127.0.0.1:0 --metrics-address 127.0.0.1:0 "
        "--memory-budget 64MiB --port-file " +
        path);
    EXPECT_EQ(code, 1) << text;
    EXPECT_THAT(text, AllOf(HasSubstr("cannot write --port-file " + path),
                            HasSubstr(reason), HasSubstr("user")));
    EXPECT_EQ(dir_.files(), 0u) << path;
  }
}

TEST_F(OperatorTest, RaisesTheDescriptorLimitAndLogsIt) {
  ServerProcess server(
      Shell("ulimit -Sn 64 && ulimit -Hn 1000 && exec \"$@\"", {}));
  ASSERT_TRUE(server.running()) << server.Log();
  EXPECT_TRUE(Eventually([&] {
    return server.Log().find(" max_descriptors=1000 ") != std::string::npos;
  })) << server.Log();
  EXPECT_THAT(ReadFile(fmt::format("/proc/{}/limits", server.pid())),
              testing::ContainsRegex("Max open files +1000 +1000"));
}

TEST_F(OperatorTest, SlowClosesDoNotDelayTheExit) {
  ServerProcess server(Quantd({"--memory-socket", At("door"), "--device", "cpu",
                               "--drain-delay-ms", "0"}));
  ASSERT_TRUE(server.running()) << server.Log();
  Lingering offered;
  Peer(At("door")).OfferAndLeave(offered.Leave());
  // The descriptor stays unread behind a message that ends the connection.
  Lingering unread;
  Peer peer(At("door"));
  server.Signal(SIGSTOP);
  ASSERT_TRUE(peer.Send(OfferBytes{}, {}));
  {
    const Descriptor sent = unread.Leave();
    ASSERT_TRUE(peer.Send(OfferBytes{}, {sent.get()}));
  }
  server.Signal(SIGCONT);
  EXPECT_TRUE(peer.Receive().has_value());
  const Descriptor memfd = Memfd(kPage, kPage);
  EXPECT_EQ(Peer(At("door")).Offered(memfd, kPage), OfferAnswer::kTaken);
  server.Signal(SIGTERM);
  EXPECT_EQ(server.WaitForExit(20), 0) << server.Log();
}

TEST_F(OperatorTest, KeepsFilesOfOtherProcesses) {
  const std::vector<std::string> command = {bench::FindQuantd(),
                                            "--listen",
                                            "unix:" + At("socket"),
                                            "--memory-socket",
                                            At("door"),
                                            "--memory-budget",
                                            "64MiB",
                                            "--device",
                                            "cpu",
                                            "--drain-delay-ms",
                                            "0"};
  ServerProcess before(command);
  ASSERT_TRUE(before.running()) << before.Log();
  std::filesystem::remove(At("socket"));
  std::filesystem::remove(At("door"));
  std::istringstream arguments(
      ReadFile(fmt::format("/proc/{}/cmdline", before.pid())));
  std::string port_file;
  for (std::string word; std::getline(arguments, word, '\0');) {
    port_file = word;
  }
  WriteFile(At("other"), "another's\n");
  std::filesystem::rename(At("other"), port_file);
  ServerProcess after(command);
  ASSERT_TRUE(after.running()) << after.Log();
  before.Signal(SIGTERM);
  EXPECT_EQ(before.WaitForExit(20), 0) << before.Log();
  EXPECT_TRUE(std::filesystem::exists(port_file));
  const Descriptor memfd = Memfd(kPage, kPage);
  EXPECT_EQ(Peer(At("door")).Offered(memfd, kPage), OfferAnswer::kTaken);
  EXPECT_TRUE(Call(Dial(after.address()), QuantizeOnes(1).SerializeAsString())
                  .status.ok());
  after.Signal(SIGTERM);
  EXPECT_EQ(after.WaitForExit(20), 0) << after.Log();
  EXPECT_FALSE(std::filesystem::exists(At("socket")));
  EXPECT_FALSE(std::filesystem::exists(At("door")));
}

TEST_F(OperatorTest, ReportsTooLittleAddressSpace) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer takes address space of its own";
#endif
  const auto [code, text] =
      RunQuantd("--listen 127.0.0.1:0 --device cpu", "ulimit -v 200000;");
  EXPECT_EQ(code, 1) << text;
  EXPECT_THAT(text, HasSubstr("quantd: "));
  EXPECT_THAT(text, HasSubstr("ulimit -v"));
  EXPECT_THAT(text, Not(HasSubstr("terminate")));
}

TEST_F(OperatorTest, ServesACallWithATimeoutOfAThousandYears) {
  ServerProcess server(Quantd({"--device", "cpu"}));
  ASSERT_TRUE(server.running()) << server.Log();
  const auto peer = attack::Http2Peer::Connect(
      {.address = server.address()}, {},
      std::chrono::steady_clock::now() + std::chrono::minutes(2));
  ASSERT_NE(peer, nullptr);
  const uint32_t call =
      peer->Open("/quantd.v1.Quantd/Quantize", {{"grpc-timeout", "9999999H"}});
  ASSERT_TRUE(peer->SendMessage(call, QuantizeOnes(1).SerializeAsString()));
  EXPECT_TRUE(peer->AwaitEnd(call, std::chrono::seconds(30)));
  EXPECT_NE(peer->received_data(), 0u);
}

}  // namespace
}  // namespace quantd
