// Tests of valid and invalid traceparent texts.
#include "proto/net/trace_context.h"

#include <gtest/gtest.h>

#include <string>

namespace quantd::wire {
namespace {

const std::string kTrace = "4bf92f3577b34da6a3ce929d0e0e4736";
const std::string kSpan = "00f067aa0ba902b7";

std::string Of(const std::string& version, const std::string& flags) {
  return version + "-" + kTrace + "-" + kSpan + "-" + flags;
}

TEST(TraceContextTest, ParsesATraceparent) {
  const auto context = ParseTraceparent(Of("00", "01"));
  ASSERT_TRUE(context);
  EXPECT_EQ(context->trace(), kTrace);
  EXPECT_EQ(context->span(), kSpan);
  // Any flags are accepted, since tracing systems interpret them.
  EXPECT_TRUE(ParseTraceparent(Of("00", "ff")));
}

TEST(TraceContextTest, ReadsTheKnownPartOfLaterVersions) {
  EXPECT_TRUE(ParseTraceparent(Of("01", "01")));
  EXPECT_TRUE(ParseTraceparent(Of("cc", "01") + "-what-comes-next"));
  EXPECT_FALSE(ParseTraceparent(Of("cc", "01") + "x"));
  EXPECT_FALSE(ParseTraceparent(Of("00", "01") + "-more"));
  EXPECT_FALSE(ParseTraceparent(Of("ff", "01")));
  EXPECT_FALSE(ParseTraceparent(Of("cc", "01") + "-" + std::string(4000, 'x')));
}

TEST(TraceContextTest, IgnoresMalformedText) {
  const std::string good = Of("00", "01");
  for (size_t at = 0; at < good.size(); ++at) {
    EXPECT_FALSE(ParseTraceparent(good.substr(0, at))) << at;
    // Characters other than digits, small letters up to f, and dashes.
    for (const char wrong : {'g', 'A', '/', ':', '`', ' ', '\0', '\x80'}) {
      std::string text = good;
      text[at] = wrong;
      EXPECT_FALSE(ParseTraceparent(text)) << at;
    }
    std::string text = good;
    text[at] = text[at] == '-' ? '0' : '-';
    EXPECT_FALSE(ParseTraceparent(text)) << at;
  }
  EXPECT_FALSE(
      ParseTraceparent("00-" + std::string(32, '0') + "-" + kSpan + "-01"));
  EXPECT_FALSE(
      ParseTraceparent("00-" + kTrace + "-" + std::string(16, '0') + "-01"));
}

}  // namespace
}  // namespace quantd::wire
