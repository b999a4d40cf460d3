// Tests of quantd's flags, environment and configuration file, and of
// --check-config and --probe.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "fmt/format.h"
#include "server/config/options.h"
#include "tests/bench/rpc_process.h"
#include "tests/client/temp_dir.h"
#include "tests/server/rpc_client.h"
#include "tests/testing/certificates.h"

namespace quantd {
namespace {

using bench::RunQuantd;
using bench::ServerProcess;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class ConfigurationTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(bench::FindQuantd(), "") << "the quantd binary is not built";
  }
  std::string At(const std::string& name) const { return dir_ / name; }
  // Runs --check-config with a file of this content.
  std::pair<int, std::string> Check(const std::string& file,
                                    const std::string& arguments = "",
                                    const std::string& environment = "") {
    WriteFile(At("quantd.toml"), file);
    return RunQuantd(
        "--check-config --config " + At("quantd.toml") + " " + arguments,
        environment);
  }
  void ExpectRefused(const std::pair<int, std::string>& outcome,
                     const std::vector<std::string>& words) {
    EXPECT_EQ(outcome.first, 2) << outcome.second;
    for (const std::string& word : words) {
      EXPECT_THAT(outcome.second, HasSubstr(word));
    }
  }

  const TempDir dir_;
};

TEST_F(ConfigurationTest, FlagsOverrideEnvironmentOverridesFile) {
  const std::string file =
      "# ours\n"
      "max-waiting = 1\n"
      "max-wait-ms = 11\n"
      "memory-budget = \"64MiB\"\n"
      "log-level = \"warn\"\n"
      "device = cpu:0,cpu:1\n"
      "insecure = true\n";
  const auto [code, text] = Check(file, "--max-waiting 3",
                                  "QUANTD_MAX_WAITING=2 QUANTD_MAX_WAIT_MS=22 "
                                  "QUANTD_SLOTS= QUANTD_INSECURE=0 "
                                  "QUANTD_ESTIMATE=2 "
                                  "QUANTD_CLIENT_TLS=1");
  EXPECT_EQ(code, 0) << text;
  for (const char* line :
       {"max-waiting = 3  # flag\n", "max-wait-ms = 22  # environment\n",
        "memory-budget = 67108864  # file\n", "log-level = \"warn\"  # file\n",
        "device = \"cpu:0,cpu:1\"  # file\n",
        "insecure = false  # environment\n", "slots = 0  # default\n",
        "amax-estimation-scale = 2  # environment\n",
        "listen = \"127.0.0.1:50151\"  # default\n",
        "# tls-key is not set\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  // The printed text is a valid file.
  const auto [again, same] = Check(text);
  EXPECT_EQ(again, 0) << same;
  EXPECT_THAT(same, HasSubstr("max-waiting = 3  # file\n"));
}

TEST_F(ConfigurationTest, EnvironmentNamesTheFile) {
  WriteFile(At("a.toml"), "max-waiting = 7\n");
  const auto [code, text] =
      RunQuantd("--check-config", "QUANTD_CONFIG=" + At("a.toml"));
  EXPECT_EQ(code, 0) << text;
  EXPECT_THAT(text, HasSubstr("max-waiting = 7  # file\n"));
}

TEST_F(ConfigurationTest, RefusesBadFilesAndNamesTheKey) {
  ExpectRefused(Check("max-waitin = 1\n"),
                {"quantd.toml: max-waitin", "--help"});
  ExpectRefused(Check("nonsense\n"), {"nonsense"});
  ExpectRefused(Check("max-wait-ms = \"soon\"\n"), {"max-wait-ms", "soon"});
  ExpectRefused(Check("max-wait-ms = -1\n"), {"max-wait-ms"});
  ExpectRefused(Check("[server]\nlisten = \"127.0.0.1:0\"\n"), {"sections"});
  // A quote in a comment has no meaning, and a # in quotes starts no comment.
  EXPECT_THAT(Check("# it's #1\nlisten = \"127.0.0.1:0\"  # \"#\"\n"
                    "port-file = '/a #b'\n"),
              testing::Pair(0, HasSubstr("port-file = \"/a #b\"  # file\n")));
  ExpectRefused(Check("port-file = /a b\n"), {"line 1", "needs quotes"});
  ExpectRefused(Check("port-file = \"/a\n#b\"\n"),
                {"line 1", "a quote without its end"});
  ExpectRefused(Check("device = \"cpu:0\", \"cpu:1\"\n"), {"line 1"});
  ExpectRefused(Check("port-file = \"/a\tb\"\n"),
                {"port-file", "control character"});
  ExpectRefused(Check("max-waiting = 1\nmax-waiting = 2\n"),
                {"more than once"});
  ExpectRefused(Check("max-waiting = 1\nslots = 1\nmax-waiting = 2\n"),
                {"more than once"});
  ExpectRefused(Check("insecure = maybe\n"), {"true or false"});
  ExpectRefused(Check("probe = true\n"), {"no such setting"});
  ExpectRefused(Check("config = \"other\"\n"), {"no such setting"});
  // Values are checked even if a flag overrides them.
  ExpectRefused(Check("max-wait-ms = \"soon\"\n", "--max-wait-ms 1"), {"soon"});
  ExpectRefused(RunQuantd("--check-config --config " + At("absent")),
                {"No such file"});
  ExpectRefused(RunQuantd("--check-config --config " + At("")),
                {"not a regular file"});
}

TEST_F(ConfigurationTest, RefusesBadVariablesByName) {
  ExpectRefused(RunQuantd("--check-config", "QUANTD_MAX_WAIT_MS=soon"),
                {"QUANTD_MAX_WAIT_MS", "soon"});
  ExpectRefused(RunQuantd("--check-config", "QUANTD_ESTIMATE=-1"),
                {"QUANTD_ESTIMATE"});
  ExpectRefused(RunQuantd("--check-config", "QUANTD_ESTIMATE=nan"),
                {"--amax-estimation-scale"});
  ExpectRefused(RunQuantd("--check-config", "QUANTD_AMAX_ESTIMATION_SCALE=x"),
                {"QUANTD_AMAX_ESTIMATION_SCALE"});
  ExpectRefused(RunQuantd("--check-config", "QUANTD_LOG_LEVEL=loud"),
                {"QUANTD_LOG_LEVEL"});
  ExpectRefused(RunQuantd("--check-config", "QUANTD_TOKEN_FIEL=secret"),
                {"QUANTD_TOKEN_FIEL"});
  const auto [code, text] = RunQuantd(
      "--check-config",
      "QUANTD_SERVER=a:1 QUANTD_PORT=tcp://10.0.0.1:1 QUANTD_SERVICE_HOST=x "
      "QUANTD_PORT_50151_TCP_ADDR=x QUANTD_METRICS_SERVICE_PORT_HTTP=1");
  EXPECT_EQ(code, 0) << text;
}

TEST_F(ConfigurationTest, ReadsNumbersOfSettings) {
  for (const char* name :
       {"memory-budget", "max-request-bytes", "max-waiting", "max-connections",
        "shared-memory-limit", "slots", "max-wait-ms", "max-no-device-s"}) {
    std::string variable = "QUANTD_" + std::string(name);
    for (char& c : variable) c = c == '-' ? '_' : static_cast<char>(toupper(c));
    for (const char* number :
         {"-1", "+33554432", "99999999999999999999", "18446744073709551615",
          "0x2000000", "0200000000", "9223372036854775807"}) {
      const std::string file = std::string(name) + " = \"" + number + "\"\n";
      ExpectRefused(
          RunQuantd(fmt::format("--check-config --{}={}", name, number)),
          {name});
      ExpectRefused(Check(file), {name});
      ExpectRefused(
          RunQuantd("--check-config", fmt::format("{}={}", variable, number)),
          {name});
    }
  }
  EXPECT_EQ(Check("memory-budget = \"64MiB\"\nmax-waiting = 0\n").first, 0);
  EXPECT_EQ(RunQuantd("--check-config --memory-budget=0 --estimate=0.5").first,
            0);
}

TEST_F(ConfigurationTest, CheckReadsTheSameFilesAsAStart) {
  MakeCertificates(At(""));
  const std::string tls = "tls-cert = \"" + At("server.pem") +
                          "\"\ntls-key = \"" + At("server.key") + "\"\n";
  WriteFile(At("tokens"), std::string(64, 'a') + "\n");
  const std::string network =
      "--listen 0.0.0.0:50151 --token-file " + At("tokens");
  const auto [code, text] = Check(tls, network);
  EXPECT_EQ(code, 0) << text;
  EXPECT_THAT(text, AllOf(HasSubstr("tls-key = \"" + At("server.key")),
                          Not(HasSubstr("PRIVATE")), Not(HasSubstr("aaaa"))));
  ExpectRefused(Check("# none\n", network), {"in clear"});
  WriteFile(At("tokens"), "letmein\n");
  ExpectRefused(Check(tls, network), {"line 1", "sha256sum"});
  ExpectRefused(Check("tls-key = \"" + At("server.key") + "\"\n"),
                {"--tls-cert is missing"});
  ExpectRefused(Check(tls, "--tls-client-ca " + At("absent")),
                {"--tls-client-ca", "No such file"});
  ExpectRefused(Check(tls, "--insecure"), {"leave one out"});
  MakeCertificates(At(""), 0);
  ExpectRefused(Check(tls), {"--tls-cert", "expired"});
}

TEST(SettingsTest, MasksSecrets) {
  EXPECT_TRUE(LooksLikeSecret("-----BEGIN PRIVATE KEY-----"));
  EXPECT_TRUE(LooksLikeSecret(std::string(64, 'a')));
  EXPECT_FALSE(LooksLikeSecret("/run/secrets/of/quite/some/length/tokens"));
  EXPECT_FALSE(LooksLikeSecret("tokens"));
  EXPECT_FALSE(LooksLikeSecret(""));
}

TEST_F(ConfigurationTest, LogsSettingsInEffectAndUnknownVariables) {
  // Only the server's environment has the variable.
  ServerProcess server({"/usr/bin/env", "QUANTD_NO_SUCH_THING=secret",
                        bench::FindQuantd(), "--listen", "127.0.0.1:0",
                        "--memory-budget", "64MiB", "--drain-delay-ms", "0"});
  ASSERT_TRUE(server.running()) << server.Log();
  EXPECT_THAT(server.Log(),
              AllOf(HasSubstr("unknown_environment name=QUANTD_NO_SUCH_THING"),
                    HasSubstr("memory-budget=67108864 (flag)"),
                    HasSubstr("max-waiting=128 (default)"),
                    HasSubstr("transport=plain"), Not(HasSubstr("secret"))));
}

TEST_F(ConfigurationTest, ProbeTellsWhetherAServerServes) {
  MakeCertificates(At(""));
  WriteFile(At("tokens"), std::string(64, 'a') + "\n");
  const std::string tls =
      "--tls-cert " + At("server.pem") + " --tls-key " + At("server.key");
  const std::string mtls = tls + " --tls-client-ca " + At("ca.pem");
  const auto start = [&](const std::vector<std::string>& more) {
    std::vector<std::string> command = {bench::FindQuantd(),
                                        "--listen",
                                        "0.0.0.0:0",
                                        "--memory-budget",
                                        "64MiB",
                                        "--device",
                                        "cpu",
                                        "--drain-delay-ms",
                                        "0"};
    command[2] = more.empty() ? "127.0.0.1:0" : command[2];
    command.insert(command.end(), more.begin(), more.end());
    return std::make_unique<ServerProcess>(command);
  };
  const auto probe = [](const std::string& address, const std::string& more) {
    return RunQuantd("--probe --probe-timeout-ms 60000 --listen " + address +
                     " " + more);
  };
  auto plain = start({});
  ASSERT_TRUE(plain->running()) << plain->Log();
  const std::string address = plain->address();
  EXPECT_THAT(probe(address, ""),
              testing::Pair(0, HasSubstr(address + " is serving")));
  WriteFile(At("port"), address + "\n");
  EXPECT_EQ(probe("127.0.0.1:0", "--port-file " + At("port")).first, 0);
  EXPECT_EQ(probe("127.0.0.1:0", "--port-file " + At("absent")).first, 1);
  EXPECT_EQ(probe("127.0.0.1:0", "").first, 2);
  EXPECT_EQ(probe(address, "--tls-cert x").first, 2);
  EXPECT_THAT(probe(address, tls), testing::Pair(1, HasSubstr("no answer")));
  plain.reset();
  EXPECT_THAT(probe(address, ""),
              testing::Pair(1, HasSubstr("no answer from " + address)));

  auto mutual =
      start({"--tls-cert", At("server.pem"), "--tls-key", At("server.key"),
             "--tls-client-ca", At("ca.pem"), "--token-file", At("tokens")});
  ASSERT_TRUE(mutual->running()) << mutual->Log();
  const std::string wide = mutual->address();
  EXPECT_THAT(mutual->Log(),
              AllOf(HasSubstr("transport=mtls"), HasSubstr("tokens=1")));
  EXPECT_EQ(probe(wide, mtls).first, 0);
  EXPECT_EQ(probe(wide, mtls + " --probe-cert " + At("client.pem") +
                            " --probe-key " + At("client.key"))
                .first,
            0);
  EXPECT_EQ(probe(wide, "--insecure").first, 1);
  // A certificate that the server does not accept.
  MakeCertificates(At("strangers"));
  EXPECT_EQ(probe(wide, mtls + " --probe-cert " + At("strangers/client.pem") +
                            " --probe-key " + At("strangers/client.key"))
                .first,
            1);
}

// Clients without a certificate that reach HTTP/2 may use up memory. One line
// at the start warns of it.
TEST_F(ConfigurationTest, ExposedServerWarnsOnce) {
  MakeCertificates(At(""));
  const auto log = [&](const std::string& listen,
                       const std::vector<std::string>& more) {
    std::vector<std::string> command = {bench::FindQuantd(),
                                        "--listen",
                                        listen,
                                        "--memory-budget",
                                        "64MiB",
                                        "--device",
                                        "cpu",
                                        "--drain-delay-ms",
                                        "0",
                                        "--tls-cert",
                                        At("server.pem"),
                                        "--tls-key",
                                        At("server.key")};
    command.insert(command.end(), more.begin(), more.end());
    ServerProcess server(command);
    EXPECT_TRUE(server.running()) << server.Log();
    return server.Log();
  };
  const std::string wide = log("0.0.0.0:0", {});
  EXPECT_THAT(wide, HasSubstr("deploy/edge"));
  EXPECT_EQ(wide.find(" exposed "), wide.rfind(" exposed ")) << wide;
  for (const std::string& quiet :
       {log("127.0.0.1:0", {}), log("unix:" + At("socket"), {}),
        log("0.0.0.0:0", {"--tls-client-ca", At("ca.pem")}),
        log("0.0.0.0:0", {"--trusted-proxies", "127.0.0.1"})}) {
    EXPECT_THAT(quiet, Not(HasSubstr("exposed")));
  }
}

TEST_F(ConfigurationTest, LogsABrokenCertificateAndKeepsTheOldOne) {
  MakeCertificates(At(""));
  ServerProcess server({bench::FindQuantd(), "--listen", "127.0.0.1:0",
                        "--memory-budget", "64MiB", "--tls-cert",
                        At("server.pem"), "--tls-key", At("server.key"),
                        "--reload-interval-ms", "20", "--drain-delay-ms", "0"});
  ASSERT_TRUE(server.running()) << server.Log();
  WriteFile(At("server.pem"), "broken\n");
  EXPECT_TRUE(Eventually([&] {
    return server.Log().find("certificate_kept") != std::string::npos;
  })) << server.Log();
  EXPECT_THAT(server.Log(), HasSubstr("holds no PEM certificate"));
  MakeCertificates(At(""));
  EXPECT_TRUE(Eventually([&] {
    return server.Log().find("certificate_reloaded") != std::string::npos;
  })) << server.Log();
}

}  // namespace
}  // namespace quantd
