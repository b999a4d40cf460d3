// TLS, client certificates and tokens at the listening port, and their files
// replaced while the server runs.
#include <atomic>
#include <filesystem>
#include <thread>

#include "security/address.h"
#include "security/pem.h"
#include "server/tokens.h"
#include "tests/client/temp_dir.h"
#include "tests/server/server_fixture.h"
#include "tests/testing/certificates.h"

namespace quantd {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

TEST(AddressTest, LoopbackIsWhatStaysHere) {
  for (const char* here :
       {"127.0.0.1:1", "localhost:1", "[::1]:1", "unix:/a", "127.9.9.9:1",
        "unix-abstract:a", "dns:///localhost:1", "ipv4:127.0.0.1:1,127.0.0.2:1",
        "127.0.0.1"}) {
    EXPECT_TRUE(security::IsLoopback(here)) << here;
  }
  for (const char* elsewhere :
       {"0.0.0.0:1", "[::]:1", "10.0.0.1:1", "127.example.org:1", "127.1:1",
        "127.0.0.1.example.org:1", "localhost.example.org:1",
        "ipv4:127.0.0.1:1,10.0.0.1:1", "unix:/a,10.0.0.1:1",
        "dns://10.0.0.1/localhost:1", "", "[", "127.0.0.1:1,"}) {
    EXPECT_FALSE(security::IsLoopback(elsewhere)) << elsewhere;
  }
}

TEST(AddressTest, HasAHostAndAPort) {
  const auto split = [](const char* address) -> std::string {
    const auto parts = security::SplitHostPort(address);
    if (!parts.ok()) return std::string(parts.status().message());
    return parts->host + " " + parts->port;
  };
  EXPECT_EQ(split("127.0.0.1:0"), "127.0.0.1 0");
  EXPECT_EQ(split("[::1]:50151"), "::1 50151");
  EXPECT_EQ(split("quantd:http"), "quantd http");
  for (const char* bad : {"", "h", "h:", "[::1]", "[::1]:"}) {
    EXPECT_EQ(split(bad), "no port") << bad;
  }
  for (const char* bad : {":1", "[]:1"}) {
    EXPECT_THAT(split(bad), HasSubstr("no host")) << bad;
  }
  for (const char* bad : {"::1:50151", "a:1:2", "[h]:1", "[::1:1"}) {
    EXPECT_THAT(split(bad), HasSubstr("brackets")) << bad;
  }
  for (const char* bad : {"a/b:1", "a@b:1", "a b:1", "[[::1]]:1", "[h:1"}) {
    EXPECT_THAT(split(bad), HasSubstr("no host has")) << bad;
  }
}

TEST(AddressTest, ListenAddressesAreChecked) {
  for (const char* good :
       {"127.0.0.1:0", "[::]:50151", "localhost:1", "h:65535"}) {
    EXPECT_THAT(security::CheckTcpAddress("--x", good), IsOk()) << good;
    EXPECT_THAT(security::CheckListenAddress("--x", good), IsOk()) << good;
  }
  for (const char* bad :
       {"", ":1", "h", "h:", "h:65536", "h:-1", "h:+1", "h:1x", "::1:50151",
        "unix:", "h:http", "[]:1", "a/b:1", "[h]:1"}) {
    for (const absl::Status& s : {security::CheckTcpAddress("--x", bad),
                                  security::CheckListenAddress("--x", bad)}) {
      EXPECT_THAT(s, StatusIs(absl::StatusCode::kInvalidArgument)) << bad;
      EXPECT_THAT(std::string(s.message()),
                  testing::AllOf(HasSubstr("--x"), HasSubstr("HOST:PORT")))
          << bad;
    }
  }
  for (const char* path : {"unix:/tmp/a", "unix-abstract:a"}) {
    EXPECT_THAT(security::CheckListenAddress("--x", path), IsOk()) << path;
    EXPECT_FALSE(security::CheckTcpAddress("--x", path).ok()) << path;
  }
}

TEST(TokenTest, BearerAndNothingElse) {
  EXPECT_EQ(BearerToken("Bearer abc"), "abc");
  EXPECT_EQ(BearerToken("bEARER  abc "), "abc");
  for (const char* none : {"", "Bearer", "Bearer ", "Basic abc", "abc"}) {
    EXPECT_EQ(BearerToken(none), "") << none;
  }
}

// SHA-256 of "secret" and of "other".
constexpr char kSecretHash[] =
    "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
constexpr char kOtherHash[] =
    "D9298A10D1B0735837DC4BD85DAC641B0F3CEF27A47E5D53A54F2F3F5B2FCFFA";

TEST(TokenTest, FilesAreRead) {
  const TempDir dir;
  const auto load = [&](const std::string& text) {
    WriteFile(dir / "tokens", text);
    return TokenHashes::Load(dir / "tokens");
  };
  const auto tokens =
      load(std::string("# ours\n\n") + kSecretHash + "  -\r\n " + kOtherHash);
  ASSERT_THAT(tokens, IsOk());
  EXPECT_EQ(tokens->size(), 2u);
  EXPECT_TRUE(tokens->Knows("secret"));
  EXPECT_TRUE(tokens->Knows("other"));
  EXPECT_FALSE(tokens->Knows("Secret"));
  EXPECT_FALSE(tokens->Knows(""));
  EXPECT_FALSE(tokens->Knows(kSecretHash));
  for (const std::string& bad :
       {std::string("my-token-in-clear"), std::string(63, 'a'),
        std::string(65, 'a'), std::string(64, 'g'), std::string("# none\n"),
        std::string(32, '+') + std::string(32, 'a')}) {
    const auto refused = load(bad);
    EXPECT_FALSE(refused.ok()) << bad;
    EXPECT_THAT(std::string(refused.status().message()),
                HasSubstr("sha256sum"));
    // What may be a secret is not repeated.
    EXPECT_EQ(refused.status().message().find("clear"), std::string::npos);
  }
  EXPECT_FALSE(TokenHashes::Load(dir / "absent").ok());
}

class SecurityTest : public ServerTest {
 protected:
  void SetUp() override {
    MakeCertificates(At(""));
    options_.reload_interval = absl::Milliseconds(10);
    options_.devices = {"cpu"};
  }
  std::string At(const std::string& name) const { return dir_ / name; }
  void UseTls() { options_.tls = {At("server.pem"), At("server.key"), ""}; }
  void Start() {
    auto server = Server::Start(options_);
    ASSERT_THAT(server, IsOk());
    server_ = *std::move(server);
  }
  // What a start says is wrong.
  std::string Refusal() const {
    const auto server = Server::Start(options_);
    EXPECT_THAT(server, StatusIs(absl::StatusCode::kInvalidArgument));
    return std::string(server.status().message());
  }
  std::shared_ptr<grpc::ChannelCredentials> Tls(bool certificate = false) {
    grpc::SslCredentialsOptions ssl;
    ssl.pem_root_certs = ReadFile(At("ca.pem"));
    if (certificate) {
      ssl.pem_cert_chain = ReadFile(At("client.pem"));
      ssl.pem_private_key = ReadFile(At("client.key"));
    }
    return grpc::SslCredentials(ssl);
  }
  // The outcome of one call over a connection of its own.
  grpc::Status Outcome(
      const std::shared_ptr<grpc::ChannelCredentials>& credentials,
      const std::string& authorization = "") {
    RpcOptions options;
    options.authorization = authorization;
    return Call(Dial(server_->address(), credentials), request_, options)
        .status;
  }
  grpc::StatusCode Code(
      const std::shared_ptr<grpc::ChannelCredentials>& credentials,
      const std::string& authorization = "") {
    return Outcome(credentials, authorization).error_code();
  }

  const TempDir dir_;
  const std::string request_ = QuantizeOnes(2).SerializeAsString();
  const std::shared_ptr<grpc::ChannelCredentials> plain_ =
      grpc::InsecureChannelCredentials();
};

TEST_F(SecurityTest, TlsServesWhoTrustsItAndNobodyElse) {
  UseTls();
  Start();
  EXPECT_EQ(server_->credentials().transport(), "tls");
  EXPECT_EQ(Code(Tls()), grpc::OK);
  EXPECT_EQ(Code(plain_), grpc::UNAVAILABLE);
  MakeCertificates(At("strangers"));
  grpc::SslCredentialsOptions wrong;
  wrong.pem_root_certs = ReadFile(At("strangers/ca.pem"));
  EXPECT_EQ(Code(grpc::SslCredentials(wrong)), grpc::UNAVAILABLE);
}

TEST_F(SecurityTest, TlsToAPlainPortFails) {
  Start();
  EXPECT_EQ(server_->credentials().transport(), "plain");
  EXPECT_EQ(Code(Tls()), grpc::UNAVAILABLE);
  EXPECT_EQ(Code(plain_), grpc::OK);
}

TEST_F(SecurityTest, MutualTlsWantsACertificateOfItsAuthority) {
  UseTls();
  options_.tls.client_ca = At("ca.pem");
  Start();
  EXPECT_EQ(server_->credentials().transport(), "mtls");
  EXPECT_EQ(Code(Tls(true)), grpc::OK);
  EXPECT_EQ(Code(Tls(false)), grpc::UNAVAILABLE);
  MakeCertificates(At("strangers"));
  grpc::SslCredentialsOptions stranger;
  stranger.pem_root_certs = ReadFile(At("ca.pem"));
  stranger.pem_cert_chain = ReadFile(At("strangers/client.pem"));
  stranger.pem_private_key = ReadFile(At("strangers/client.key"));
  EXPECT_EQ(Code(grpc::SslCredentials(stranger)), grpc::UNAVAILABLE);
  MakeCertificates(At(""), 0);
  EXPECT_EQ(Code(Tls(true)), grpc::UNAVAILABLE) << "expired";
}

TEST_F(SecurityTest, AStartSaysWhichFileIsNoGoodAndWhy) {
  UseTls();
  options_.tls.key = At("client.key");
  EXPECT_THAT(Refusal(), testing::AllOf(HasSubstr("--tls-key"),
                                        HasSubstr("is not the key of")));
  options_.tls.key = At("absent");
  EXPECT_THAT(Refusal(), HasSubstr("No such file"));
  options_.tls.key = At("");
  EXPECT_THAT(Refusal(), HasSubstr("it is not a file"));
  options_.tls.key = At("server.pem");
  EXPECT_THAT(Refusal(), HasSubstr("holds no PEM private key"));
  ASSERT_EQ(std::system(("openssl pkey -in " + At("server.key") +
                         " -aes128 -passout pass:x -out " + At("locked.key"))
                            .c_str()),
            0);
  options_.tls.key = At("locked.key");
  EXPECT_THAT(Refusal(), HasSubstr("openssl pkey"));
  UseTls();
  options_.tls.certificate = At("server.key");
  EXPECT_THAT(Refusal(), HasSubstr("holds no PEM certificate"));
  WriteFile(At("empty"), "");
  options_.tls.certificate = At("empty");
  EXPECT_THAT(Refusal(), HasSubstr("empty"));
  UseTls();
  options_.tls.client_ca = At("client.key");
  EXPECT_THAT(Refusal(), HasSubstr("--tls-client-ca"));
  MakeCertificates(At(""), 0);
  UseTls();
  EXPECT_THAT(Refusal(), HasSubstr("expired"));
}

TEST_F(SecurityTest, ContradictionsAreRefused) {
  options_.tls.certificate = At("server.pem");
  EXPECT_THAT(Refusal(), HasSubstr("--tls-key is missing"));
  UseTls();
  options_.insecure = true;
  EXPECT_THAT(Refusal(), HasSubstr("leave one out"));
  options_.insecure = false;
  options_.tls = {"", "", At("ca.pem")};
  EXPECT_THAT(Refusal(), HasSubstr("--tls-client-ca needs"));
  options_.tls = {};
  options_.listen = "0.0.0.0:0";
  EXPECT_THAT(Refusal(), HasSubstr("--insecure"));
  options_.insecure = true;
  options_.token_file = At("tokens");
  EXPECT_THAT(Refusal(), HasSubstr("in clear"));
  options_.listen = "127.0.0.1:0";
  options_.token_file = std::string(64, 'a');
  EXPECT_THAT(Refusal(), testing::AllOf(HasSubstr("looks like the secret"),
                                        testing::Not(HasSubstr("aaaa"))));
  options_.token_file = "";
  options_.tls.key = "-----BEGIN PRIVATE KEY-----";
  EXPECT_THAT(Refusal(), HasSubstr("looks like the secret"));
}

TEST_F(SecurityTest, EveryMethodButHealthWantsAToken) {
  WriteFile(At("tokens"), kSecretHash);
  options_.token_file = At("tokens");
  for (const bool tls : {false, true}) {
    SCOPED_TRACE(tls);
    if (tls) UseTls();
    Start();
    const auto credentials = tls ? Tls() : plain_;
    EXPECT_EQ(Code(credentials, "Bearer secret"), grpc::OK);
    EXPECT_EQ(Code(credentials, "bearer secret"), grpc::OK);
    for (const char* wrong : {"", "Bearer", "Bearer other", "Basic secret",
                              "secret", "Bearer secret2"}) {
      const grpc::Status status = Outcome(credentials, wrong);
      EXPECT_EQ(status.error_code(), grpc::UNAUTHENTICATED) << wrong;
      EXPECT_THAT(status.error_message(), HasSubstr("bearer token"));
    }
    const auto channel = Dial(server_->address(), credentials);
    const auto ask = [&](const std::string& path, const char* authorization) {
      RpcOptions options;
      options.authorization = authorization;
      RpcCall call(channel, path, options);
      if (call.Send("")) call.HalfClose();
      call.Receive();
      return call.Finish().status.error_code();
    };
    EXPECT_EQ(ask("/grpc.health.v1.Health/Check", ""), grpc::OK);
    for (const char* guarded :
         {"/quantd.v1.Quantd/GetServerInfo",
          "/quantd.v1.Quantd/DescribeQuantize",
          "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
          "/no.such/Method", "/grpc.health.v1.Healthy/Check"}) {
      EXPECT_EQ(ask(guarded, "Bearer x"), grpc::UNAUTHENTICATED) << guarded;
    }
    EXPECT_EQ(ask("/quantd.v1.Quantd/GetServerInfo", "Bearer secret"),
              grpc::OK);
  }
}

TEST_F(SecurityTest, TokensAreReadAgainAndABrokenFileChangesNothing) {
  WriteFile(At("tokens"), kSecretHash);
  options_.token_file = At("tokens");
  Start();
  EXPECT_EQ(Code(plain_, "Bearer secret"), grpc::OK);
  WriteFile(At("tokens"), kOtherHash);
  EXPECT_TRUE(
      Eventually([&] { return Code(plain_, "Bearer other") == grpc::OK; }));
  EXPECT_EQ(Code(plain_, "Bearer secret"), grpc::UNAUTHENTICATED);
  for (const char* broken : {"half a li", ""}) {
    WriteFile(At("tokens"), broken);
    absl::SleepFor(absl::Milliseconds(60));
    EXPECT_EQ(Code(plain_, "Bearer other"), grpc::OK) << broken;
  }
  fs::remove(At("tokens"));
  absl::SleepFor(absl::Milliseconds(60));
  EXPECT_EQ(Code(plain_, "Bearer other"), grpc::OK);
}

// The subject's serial tells which certificate a new connection is shown; here
// it is enough to see whom clients have to trust.
TEST_F(SecurityTest, ABrokenPairIsNotTakenAndAWholeOneIs) {
  UseTls();
  Start();
  const auto before = Tls();
  MakeCertificates(At("next"));  // another authority
  grpc::SslCredentialsOptions trusting_next;
  trusting_next.pem_root_certs = ReadFile(At("next/ca.pem"));
  const auto after = grpc::SslCredentials(trusting_next);

  const auto replace = [&](const char* name) {
    fs::copy_file(At(std::string("next/") + name), At(name),
                  fs::copy_options::overwrite_existing);
  };
  replace("server.key");  // alone: no pair
  absl::SleepFor(absl::Milliseconds(100));
  EXPECT_EQ(Code(before), grpc::OK);
  fs::remove(At("server.pem"));
  absl::SleepFor(absl::Milliseconds(100));
  EXPECT_EQ(Code(before), grpc::OK);
  replace("server.pem");
  EXPECT_TRUE(Eventually([&] { return Code(after) == grpc::OK; }));
  EXPECT_EQ(Code(before), grpc::UNAVAILABLE);
  MakeCertificates(At("next"), 0);  // expired
  replace("server.key");
  replace("server.pem");
  absl::SleepFor(absl::Milliseconds(100));
  EXPECT_EQ(Code(after), grpc::OK);
}

TEST_F(SecurityTest, RotationUnderLoadLosesNoCall) {
  constexpr int kRotations = 6;
  constexpr int kThreads = 3;
  constexpr int kLeastCalls = 3000;
  UseTls();
  options_.tls.client_ca = At("ca.pem");
  Start();
  const auto mine = Tls(true);
  std::atomic<bool> stop = false;
  std::atomic<int> served = 0;
  std::atomic<int> failed = 0;
  std::atomic<int> connections = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      // Each connection for some calls, so that handshakes fall on rotations.
      while (!stop || served < kLeastCalls) {
        const auto channel = Dial(server_->address(), mine);
        ++connections;
        for (int i = 0; i < 25; ++i) {
          const grpc::Status status = Call(channel, request_).status;
          ++(status.ok() ? served : failed);
          EXPECT_TRUE(status.ok()) << status.error_message();
          if (!status.ok() && failed > 10) return;
        }
      }
    });
  }
  for (int i = 0; i < kRotations; ++i) {
    MakeCertificates(At(""));  // key first, certificate after it
    absl::SleepFor(absl::Milliseconds(150));
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  std::printf("%d calls over %d connections and %d rotations, %d failed\n",
              served.load(), connections.load(), kRotations, failed.load());
  EXPECT_EQ(failed, 0);
  EXPECT_GE(served, kLeastCalls);
}

}  // namespace
}  // namespace quantd
