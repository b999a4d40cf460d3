// Tests of quantctl without a server.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "client/quantctl/flags.h"
#include "tests/client/quantctl/cli_fixture.h"

namespace quantd {
namespace {

using testing::HasSubstr;

TEST_F(Cli, LocalSupportsRoundTripAmaxAndInfo) {
  const Outcome here =
      Run({"roundtrip", At("x.npy"), "--json", "--server", "local:cpu"});
  const Outcome there = RunServed({"roundtrip", At("x.npy"), "--json"});
  ASSERT_EQ(here.code, 0) << here.err;
  EXPECT_EQ(here.Json()["server"], "local:cpu");
  EXPECT_EQ(here.Json()["tensors"][0]["sqnr_db"],
            there.Json()["tensors"][0]["sqnr_db"]);
  EXPECT_EQ(here.Json()["tensors"][0]["device"], "cpu:0");
  EXPECT_EQ(Run({"amax", At("x.npy"), "--server", "local"}).code, 0);
  EXPECT_THAT(
      Run({"info", "--server", "local:cpu"}),
      Prints(0, testing::AllOf(HasSubstr("at local:cpu"), HasSubstr("cpu:0"))));
}

TEST_F(Cli, LocalRefusesUnknownDevices) {
  EXPECT_THAT(Run({"roundtrip", At("x.npy"), "--server", "local:tpu"}),
              Errs(2, HasSubstr("local:cpu or local:cuda:N")));
}

TEST_F(Cli, ComputesLocallyOnlyIfNoServerIsNamed) {
  if (!quantctl::Refuses(quantctl::kDefaultPort)) {
    GTEST_SKIP() << "something listens at " << quantctl::kDefaultServer;
  }
  const Outcome alone = Run({"roundtrip", At("x.npy"), "--json"});
  EXPECT_EQ(alone.code, 0) << alone.err;
  EXPECT_THAT(alone.err,
              HasSubstr("no server at 127.0.0.1:50151, computing in this "
                        "process"));
  EXPECT_EQ(alone.Json()["server"], "local");
  // A flag with the default address names a server, and so does the environment
  // variable.
  EXPECT_THAT(
      Run({"roundtrip", At("x.npy"), "--server", quantctl::kDefaultServer}),
      Errs(4, HasSubstr("--server local")));
  setenv("QUANTD_SERVER", quantctl::kDefaultServer, 1);
  EXPECT_EQ(Run({"roundtrip", At("x.npy")}).code, 4);
  unsetenv("QUANTD_SERVER");
  // `info` fails if there is no server.
  EXPECT_EQ(Run({"info", "--deadline", "2"}).code, 4);
}

TEST(ServerChoice, OpenPortDoesNotRefuse) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at = {};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&at), size), 0);
  ASSERT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&at), &size), 0);
  const uint16_t port = ntohs(at.sin_port);
  // The port is bound, but no process listens.
  EXPECT_TRUE(quantctl::Refuses(port));
  ASSERT_EQ(listen(fd, 1), 0);
  EXPECT_FALSE(quantctl::Refuses(port));
  close(fd);
}

}  // namespace
}  // namespace quantd
