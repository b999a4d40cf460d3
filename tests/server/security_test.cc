// Tests of TLS, client certificates and tokens, and of replacing their files
// while the server runs.
#include <atomic>
#include <filesystem>
#include <thread>

#include "tests/client/temp_dir.h"
#include "tests/server/server_fixture.h"
#include "tests/testing/certificates.h"

namespace quantd {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// The SHA-256 of "secret" and of "other".
constexpr char kSecretHash[] =
    "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
constexpr char kOtherHash[] =
    "D9298A10D1B0735837DC4BD85DAC641B0F3CEF27A47E5D53A54F2F3F5B2FCFFA";

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
  // Returns the error of a start, which must fail.
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
  // Makes one call over a new connection and returns its status.
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

TEST_F(SecurityTest, TlsNeedsClientsThatTrustTheServer) {
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

TEST_F(SecurityTest, MutualTlsRequiresACertificateOfItsAuthority) {
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

TEST_F(SecurityTest, StartNamesTheBadFileAndTheReason) {
  UseTls();
  options_.tls.key = At("client.key");
  EXPECT_THAT(Refusal(), testing::AllOf(HasSubstr("--tls-key"),
                                        HasSubstr("is not the key of")));
  options_.tls.key = At("absent");
  EXPECT_THAT(Refusal(), HasSubstr("No such file"));
  options_.tls.key = At("");
  EXPECT_THAT(Refusal(), HasSubstr("it is not a regular file"));
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

TEST_F(SecurityTest, RefusesContradictorySettings) {
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

TEST_F(SecurityTest, AllMethodsExceptHealthRequireAToken) {
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
    for (const wire::MethodSpec& row : wire::kMethods) {
      EXPECT_EQ(ask(row.path, "Bearer x"), grpc::UNAUTHENTICATED) << row.path;
    }
    for (const char* guarded :
         {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
          "/no.such/Method", "/grpc.health.v1.Healthy/Check"}) {
      EXPECT_EQ(ask(guarded, "Bearer x"), grpc::UNAUTHENTICATED) << guarded;
    }
    EXPECT_EQ(ask("/quantd.v1.Quantd/GetServerInfo", "Bearer secret"),
              grpc::OK);
  }
}

TEST_F(SecurityTest, ReloadsTokensAndIgnoresABrokenFile) {
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

// The authority that a new connection needs shows which certificate the server
// uses.
TEST_F(SecurityTest, LoadsOnlyAMatchingPair) {
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
  replace("server.key");  // the key alone does not match the certificate
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

TEST_F(SecurityTest, ReloadDoesNotWaitForTheInterval) {
  UseTls();
  options_.reload_interval = absl::Hours(1);
  Start();
  const auto before = Tls();
  EXPECT_EQ(Code(before), grpc::OK);
  MakeCertificates(At("next"));  // another authority
  grpc::SslCredentialsOptions trusting_next;
  trusting_next.pem_root_certs = ReadFile(At("next/ca.pem"));
  const auto after = grpc::SslCredentials(trusting_next);
  for (const char* name : {"server.key", "server.pem"}) {
    fs::copy_file(At(std::string("next/") + name), At(name),
                  fs::copy_options::overwrite_existing);
  }
  absl::SleepFor(absl::Milliseconds(100));
  EXPECT_EQ(Code(before), grpc::OK) << "the server has not reloaded yet";
  server_->credentials().Reload();
  EXPECT_TRUE(Eventually([&] { return Code(after) == grpc::OK; }));
  EXPECT_EQ(Code(before), grpc::UNAVAILABLE);
}

TEST_F(SecurityTest, RotationUnderLoadFailsNoCall) {
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
      // Each connection makes several calls, so that handshakes coincide with
      // rotations.
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
    MakeCertificates(At(""));  // writes the key first, then the certificate
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
