// Tests of the checks before any connection: addresses, tokens, their files and
// rights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/time/clock.h"
#include "proto/net/address.h"
#include "server/net/tokens.h"
#include "tests/client/temp_dir.h"
#include "tests/testing/matchers.h"

namespace quantd {
namespace {

using testing::HasSubstr;

TEST(AddressTest, RecognizesLoopbackAddresses) {
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

TEST(AddressTest, SplitsHostAndPort) {
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
    EXPECT_THAT(split(bad), HasSubstr("illegal character")) << bad;
  }
}

TEST(AddressTest, ChecksListenAddresses) {
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

TEST(TokenTest, AcceptsOnlyBearer) {
  EXPECT_EQ(BearerToken("Bearer abc"), "abc");
  EXPECT_EQ(BearerToken("bEARER  abc "), "abc");
  for (const char* none : {"", "Bearer", "Bearer ", "Basic abc", "abc"}) {
    EXPECT_EQ(BearerToken(none), "") << none;
  }
}

// The SHA-256 of "secret" and of "other".
constexpr char kSecretHash[] =
    "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
constexpr char kOtherHash[] =
    "D9298A10D1B0735837DC4BD85DAC641B0F3CEF27A47E5D53A54F2F3F5B2FCFFA";

TEST(TokenTest, ReadsFiles) {
  const TempDir dir;
  const auto load = [&](const std::string& text) {
    WriteFile(dir / "tokens", text);
    return TokenHashes::Load(dir / "tokens");
  };
  const auto tokens =
      load(std::string("# ours\n\n") + kSecretHash + "  -\r\n " + kOtherHash);
  ASSERT_THAT(tokens, IsOk());
  EXPECT_EQ(tokens->size(), 2u);
  EXPECT_NE(tokens->Find("secret"), nullptr);
  EXPECT_NE(tokens->Find("other"), nullptr);
  EXPECT_EQ(tokens->Find("Secret"), nullptr);
  EXPECT_EQ(tokens->Find(""), nullptr);
  EXPECT_EQ(tokens->Find(kSecretHash), nullptr);
  for (const std::string& bad :
       {std::string("my-token-in-clear"), std::string(63, 'a'),
        std::string(65, 'a'), std::string(64, 'g'), std::string("# none\n"),
        std::string(32, '+') + std::string(32, 'a')}) {
    const auto refused = load(bad);
    EXPECT_FALSE(refused.ok()) << bad;
    EXPECT_THAT(std::string(refused.status().message()),
                HasSubstr("sha256sum"));
    // The message must not repeat the line, which may be a secret.
    EXPECT_EQ(refused.status().message().find("clear"), std::string::npos);
  }
  EXPECT_FALSE(TokenHashes::Load(dir / "absent").ok());
  // The output of "printf %s $TOKEN | sha256sum" if the variable is not set.
  const auto empty = load(
      "# ours\n"
      "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(empty.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(empty.status().message()),
              testing::HasSubstr("line 2 is the SHA-256 of nothing"));
}

TEST(TokenTest, LinesGiveIdentityAndRights) {
  const TempDir dir;
  const auto load = [&](const std::string& rest) {
    WriteFile(dir / "tokens", kSecretHash + rest);
    return TokenHashes::Load(dir / "tokens");
  };
  const auto caller = [&](const std::string& rest) {
    const auto tokens = load(rest);
    EXPECT_THAT(tokens, IsOk()) << rest;
    return tokens.ok() ? *tokens->Find("secret") : Caller();
  };
  // After the hash, older files have nothing, sha256sum's file name, a name or
  // other words.
  const std::string unnamed = "token:" + std::string(kSecretHash, 12);
  for (const char* rest : {"", "  ", "  -", " *-"}) {
    EXPECT_EQ(caller(rest), Caller{.identity = unnamed}) << rest;
  }
  EXPECT_EQ(caller("  alice"), Caller{.identity = "token:alice"});
  EXPECT_EQ(caller("\talice of the other team"),
            Caller{.identity = "token:alice"});
  EXPECT_EQ(caller("  - priority=high").identity, unnamed);
  EXPECT_EQ(caller(" priority=high").identity, unnamed);

  const Caller batch =
      caller("  batch  methods=Quantize,GetServerInfo priority=normal");
  EXPECT_EQ(batch.identity, "token:batch");
  EXPECT_TRUE(batch.May(wire::Method::kQuantize));
  EXPECT_TRUE(batch.May(wire::Method::kGetServerInfo));
  EXPECT_FALSE(batch.May(wire::Method::kDequantize));
  EXPECT_FALSE(batch.May(wire::Method::kStream));
  EXPECT_FALSE(batch.may_be_high);
  EXPECT_TRUE(caller(" a priority=high").may_be_high);

  // A mistake in a token's rights must not grant everything.
  for (const char* wrong :
       {" a method=Quantize", " a methods=", " a methods=Quantise",
        " a methods=Quantize,", " a priority=highest",
        " a priority=", " a calls-in-flight=8", " a =", " a x=1"}) {
    const auto refused = load(wrong);
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition)
        << wrong;
    EXPECT_THAT(std::string(refused.status().message()), HasSubstr("line 1"))
        << wrong;
  }
}

}  // namespace
}  // namespace quantd
