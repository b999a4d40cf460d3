// Tests of quantctl and the SDK with TLS and tokens, and of the message for
// each failure.
#include "quantd/client.h"
#include "tests/bench/rpc_process.h"
#include "tests/client/quantctl/cli_fixture.h"
#include "tests/testing/certificates.h"

namespace quantd {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class CliSecurity : public Cli {
 protected:
  void SetUp() override { MakeCertificates(Pem("")); }
  void TearDown() override { unsetenv("QUANTD_CLIENT_TOKEN"); }
  static std::string Pem(std::string_view name) {
    return At("pem/" + std::string(name));
  }
  // Starts a server with TLS and additional flags.
  static std::unique_ptr<bench::ServerProcess> Start(
      std::vector<std::string> more) {
    std::vector<std::string> command = {bench::FindQuantd(),
                                        "--listen",
                                        "127.0.0.1:0",
                                        "--memory-budget",
                                        "64MiB",
                                        "--device",
                                        "cpu",
                                        "--tls-cert",
                                        Pem("server.pem"),
                                        "--tls-key",
                                        Pem("server.key"),
                                        "--drain-delay-ms",
                                        "0"};
    command.insert(command.end(), more.begin(), more.end());
    return std::make_unique<bench::ServerProcess>(std::move(command));
  }
  static Outcome Info(const std::string& server,
                      std::vector<std::string> more) {
    std::vector<std::string> words = {"info", "--deadline", "60", "--server",
                                      server};
    words.insert(words.end(), more.begin(), more.end());
    return Run(words);
  }
};

TEST_F(CliSecurity, UsesTlsAndExplainsMistakes) {
  const auto server = Start({});
  ASSERT_TRUE(server->running()) << server->Log();
  const std::string& there = server->address();
  const Outcome good = Info(there, {"--tls-ca", Pem("ca.pem")});
  EXPECT_EQ(good.code, 0) << good.err;
  const Outcome trip = Run(
      {"roundtrip", At("x.npy"), "--server", there, "--tls-ca", Pem("ca.pem")});
  EXPECT_EQ(trip.code, 0) << trip.err;

  EXPECT_THAT(Info(there, {}), Errs(4, HasSubstr("If the server uses TLS")));
  EXPECT_THAT(Info(address_, {"--tls-ca", Pem("ca.pem")}),
              Errs(4, HasSubstr("does not use TLS")));
  MakeCertificates(Pem("strangers"));
  EXPECT_THAT(Info(there, {"--tls-ca", Pem("strangers/ca.pem")}),
              Errs(4, HasSubstr("not trusted")));
  const Outcome name =
      Info(there, {"--tls-ca", Pem("ca.pem"), "--tls-name", "example.org"});
  EXPECT_EQ(name.code, 4);
  EXPECT_THAT(name.err, HasSubstr("--tls-name"));
  EXPECT_EQ(
      Info(there, {"--tls-ca", Pem("ca.pem"), "--tls-name", "localhost"}).code,
      0);
}

TEST_F(CliSecurity, SendsCertificatesAndTokens) {
  WriteFile(Pem("token"), "secret\n");
  WriteFile(
      Pem("hashes"),
      "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b\n");
  const auto server =
      Start({"--tls-client-ca", Pem("ca.pem"), "--token-file", Pem("hashes")});
  ASSERT_TRUE(server->running()) << server->Log();
  std::vector<std::string> flags = {"--tls-ca", Pem("ca.pem")};
  EXPECT_THAT(Info(server->address(), flags), Errs(4, HasSubstr("--tls-cert")));
  flags.insert(flags.end(), {"--tls-cert", Pem("client.pem"), "--tls-key",
                             Pem("client.key")});
  EXPECT_THAT(
      Info(server->address(), flags),
      Errs(5, AllOf(HasSubstr("bearer token"), HasSubstr("--token-file"))));
  setenv("QUANTD_CLIENT_TOKEN", "wrong", 1);
  const Outcome wrong = Info(server->address(), flags);
  EXPECT_EQ(wrong.code, 5);
  EXPECT_THAT(wrong.err, HasSubstr("does not know"));
  setenv("QUANTD_CLIENT_TOKEN", "secret", 1);
  EXPECT_EQ(Info(server->address(), flags).code, 0);
  setenv("QUANTD_CLIENT_TOKEN", "wrong", 1);
  flags.insert(flags.end(), {"--token-file", Pem("token")});
  EXPECT_EQ(Info(server->address(), flags).code, 0)
      << "the token file overrides the variable";
  // The former name of the variable is an error.
  setenv("QUANTCTL_TOKEN", "secret", 1);
  const Outcome older = Info(server->address(), flags);
  unsetenv("QUANTCTL_TOKEN");
  EXPECT_EQ(older.code, 2);
  EXPECT_THAT(older.err, HasSubstr("was renamed to QUANTD_CLIENT_TOKEN"));
}

TEST_F(CliSecurity, BadFilesAreUsageErrors) {
  const auto refused = [&](std::vector<std::string> flags) {
    const Outcome outcome = Info(address_, std::move(flags));
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    return outcome.err;
  };
  EXPECT_THAT(refused({"--tls-ca", Pem("absent")}), HasSubstr("No such file"));
  EXPECT_THAT(refused({"--tls-ca", Pem("ca.key")}), HasSubstr("no PEM"));
  EXPECT_THAT(refused({"--tls-cert", Pem("client.pem")}),
              HasSubstr("key_file"));
  EXPECT_THAT(refused({"--tls-cert", Pem("client.pem"), "--tls-key",
                       Pem("server.key")}),
              HasSubstr("is not the key of"));
  EXPECT_THAT(refused({"--token-file", Pem("absent")}),
              HasSubstr("No such file"));
  EXPECT_THAT(refused({"--tls-name", "a"}), HasSubstr("server_name"));
  MakeCertificates(Pem(""), 0);
  EXPECT_THAT(refused({"--tls-cert", Pem("client.pem"), "--tls-key",
                       Pem("client.key")}),
              HasSubstr("expired"));
}

TEST_F(CliSecurity, TokensAreNotSentInPlainText) {
  ClientOptions options;
  options.credentials.token = "secret";
  EXPECT_THAT(Client::Create("127.0.0.1:1", options), IsOk());
  EXPECT_THAT(Client::Create("unix:/tmp/a", options), IsOk());
  for (const char* elsewhere :
       {"10.0.0.1:1", "quantd:1", "127.example.org:1", "dns:///quantd:1"}) {
    const auto refused = Client::Create(elsewhere, options);
    ASSERT_THAT(refused, StatusIs(absl::StatusCode::kInvalidArgument));
    EXPECT_EQ(GetFieldViolation(refused.status())->field, "credentials.tls");
    EXPECT_THAT(std::string(refused.status().message()),
                Not(HasSubstr("secret")));
  }
  options.credentials.tls = true;
  EXPECT_THAT(Client::Create("quantd:1", options), IsOk());
  options.credentials.token = "two\nlines";
  EXPECT_EQ(
      GetFieldViolation(Client::Create("quantd:1", options).status())->field,
      "credentials.token");
  options.credentials.token = "secret";
  options.credentials.token_file = "also";
  EXPECT_EQ(
      GetFieldViolation(Client::Create("quantd:1", options).status())->field,
      "credentials.token");
}

}  // namespace
}  // namespace quantd
