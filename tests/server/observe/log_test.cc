// Tests of the log: escaping, a pipe that is not read, and sampling of frequent
// lines.
#include "server/observe/log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string>

#include "absl/time/clock.h"
#include "server/observe/log_sampler.h"
#include "server/observe/log_text.h"

namespace quantd {
namespace {

TEST(LogTextTest, KeepsPlainText) {
  for (const char* clear : {"a", "Quantize", "/quantd.v1.Quantd/Quantize",
                            "gr\xc3\xbc\xc3\x9f", "\xf0\x9f\x98\x80"}) {
    EXPECT_EQ(QuoteForText(clear), clear);
    EXPECT_EQ(EscapeForJson(clear), clear);
  }
  EXPECT_EQ(QuoteForText(""), "\"\"");
  EXPECT_EQ(QuoteForText("two words"), "\"two words\"");
  EXPECT_EQ(QuoteForText("a=b"), "\"a=b\"");
  EXPECT_EQ(QuoteForText("a\"b\\c"), R"("a\"b\\c")");
}

TEST(LogTextTest, EscapesControlAndDirectionCharactersInBothForms) {
  for (const auto& [text, escaped] :
       {std::pair("\x1b[2J", "\\x1b[2J"), std::pair("a\nb", "a\\nb"),
        std::pair("a\tb", "a\\tb"), std::pair("\x7f", "\\x7f"),
        std::pair("\xc2\x9b"
                  "31m",
                  "\\x9b31m"),
        std::pair("\xe2\x80\xae"
                  "x",
                  "\\u202ex"),
        std::pair("\xe2\x80\xa8", "\\u2028"),
        std::pair("\xf3\xa0\x80\x81", "\\U000e0001"),
        std::pair("\xef\xbb\xbf", "\\ufeff")}) {
    EXPECT_EQ(QuoteForText(text), '"' + std::string(escaped) + '"');
    const std::string json = EscapeForJson(text);
    for (const char c : json) EXPECT_GE(static_cast<unsigned char>(c), 0x20);
    // An escape that JSON does not have remains in the parsed text.
    const bool spelled = json.find("\\\\") != std::string::npos;
    EXPECT_EQ(nlohmann::json::parse('"' + json + '"'),
              spelled ? escaped : text);
  }
  EXPECT_EQ(QuoteForText(std::string_view("\0", 1)), "\"\\x00\"");
}

TEST(LogTextTest, EscapesInvalidUtf8) {
  EXPECT_EQ(QuoteForText("a\xff"), R"("a\xff")");
  EXPECT_EQ(EscapeForJson("a\xff"), R"(a\\xff)");
  // A truncated sequence, an overlong one, a surrogate, a code point out of
  // range, a stray continuation byte, and a lead byte before ASCII.
  for (const char* invalid :
       {"\xe2\x80", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80",
        "\xf4\x90\x80\x80", "\x80", "\xc3(", "\xf0\x9f\x98"}) {
    const auto parsed = nlohmann::json::parse(
        '"' + EscapeForJson(invalid) + '"', nullptr, false);
    ASSERT_TRUE(parsed.is_string()) << invalid;
    EXPECT_EQ(parsed.get<std::string>().substr(0, 2), "\\x");
  }
}

TEST(LogSamplerTest, CountsDroppedLines) {
  LogSampler sampler;
  const absl::Time start = absl::UnixEpoch();
  const auto admitted = [&](const char* kind, absl::Time now) {
    uint64_t n = 0;
    for (int i = 0; i < 1000; ++i) {
      n += sampler.Admit(LogLevel::kInfo, "call", kind, now);
    }
    return n;
  };
  EXPECT_EQ(admitted("bad", start), LogSampler::kLines);
  EXPECT_EQ(admitted("busy", start), LogSampler::kLines)
      << "each kind has its own limit";
  EXPECT_EQ(admitted("bad", start + absl::Seconds(9)), 0u);
  EXPECT_TRUE(sampler.Admit(LogLevel::kInfo, "call", "rare", start));
  EXPECT_TRUE(sampler.Close(start + absl::Seconds(9)).empty());
  uint64_t times = 0;
  for (const auto& r : sampler.Close(start + LogSampler::kWindow)) {
    EXPECT_EQ(r.event, "call");
    EXPECT_NE(r.kind, "rare");
    times += r.times;
  }
  EXPECT_EQ(times, 3000 - 2 * LogSampler::kLines);
  EXPECT_EQ(sampler.repeated(), times);
  EXPECT_EQ(admitted("bad", start + LogSampler::kWindow), LogSampler::kLines);
}

// Standard error is a pipe of one page. Only ReadUntil reads it.
class LogTest : public testing::Test {
 protected:
  LogTest() : stderr_(dup(STDERR_FILENO)) {
    EXPECT_EQ(pipe2(ends_, O_CLOEXEC), 0);
    fcntl(ends_[1], F_SETPIPE_SZ, 4096);
    dup2(ends_[1], STDERR_FILENO);
  }
  ~LogTest() override {
    dup2(stderr_, STDERR_FILENO);
    for (const int fd : {stderr_, ends_[0], ends_[1]}) close(fd);
  }

  // Reads until the text contains `end`.
  std::string ReadUntil(std::string_view end) const {
    std::string text;
    char buffer[4096];
    while (text.find(end) == std::string::npos) {
      const ssize_t n = read(ends_[0], buffer, sizeof(buffer));
      if (n <= 0) break;
      text.append(buffer, static_cast<size_t>(n));
    }
    return text;
  }

  const int stderr_;
  int ends_[2] = {-1, -1};
};

size_t Count(const std::string& text, std::string_view word) {
  size_t n = 0;
  for (size_t at = 0; (at = text.find(word, at)) != std::string::npos; ++at) {
    ++n;
  }
  return n;
}

TEST_F(LogTest, WritesFieldsInBothForms) {
  const auto log = [] {
    Log(LogLevel::kInfo, "event",
        {{"text", "a b"}, {"number", -3}, {"part", 0.5}});
    Log(LogLevel::kDebug, "quiet", {});
  };
  log();
  EXPECT_THAT(ReadUntil("\n"),
              testing::ContainsRegex("^[0-9]{4}-[0-9-]+T[0-9:.]+Z info event "
                                     "text=\"a b\" number=-3 part=0.5\n$"));
  ConfigureLog(LogLevel::kInfo, LogFormat::kJson);
  log();
  const auto json = nlohmann::json::parse(ReadUntil("\n"));
  ConfigureLog(LogLevel::kInfo, LogFormat::kText);
  EXPECT_EQ(json["level"], "info");
  EXPECT_EQ(json["event"], "event");
  EXPECT_EQ(json["text"], "a b");
  EXPECT_EQ(json["number"], -3);
  EXPECT_EQ(json["part"], 0.5);
}

TEST_F(LogTest, UnreadPipeBlocksNoThreadAndDropsAreReported) {
  constexpr uint64_t kLines = 10'000;
  const uint64_t before = ReadLogLosses().unread;
  const absl::Time start = absl::Now();
  for (uint64_t i = 0; i < kLines; ++i) {
    Log(LogLevel::kInfo, "line", {{"number", i}});
  }
  EXPECT_FALSE(FlushLog(absl::Milliseconds(50)));
  EXPECT_LT(absl::Now() - start, absl::Seconds(20)) << "writers do not block";
  const uint64_t dropped = ReadLogLosses().unread - before;
  EXPECT_GT(dropped, 0u);
  EXPECT_LT(dropped, kLines) << "the first lines fit into the pipe";
  const std::string note = "log_dropped lines=" + std::to_string(dropped);
  std::string text = ReadUntil(note);
  // Lines that were kept may come before the note and after it.
  Log(LogLevel::kInfo, "last", {});
  text += ReadUntil("last\n");
  EXPECT_EQ(Count(text, " line number="), kLines - dropped);
  EXPECT_EQ(Count(text, "log_dropped"), 1u);
  EXPECT_THAT(text, testing::HasSubstr(" line number=0\n"));
  EXPECT_EQ(ReadLogLosses().unread - before, dropped);
  EXPECT_TRUE(FlushLog(absl::Minutes(1)));
}

TEST_F(LogTest, PipeWithoutAReaderLosesOnlyLines) {
  signal(SIGPIPE, SIG_IGN);
  close(ends_[0]);
  const uint64_t before = ReadLogLosses().unread;
  Log(LogLevel::kInfo, "one", {});
  Log(LogLevel::kInfo, "two", {});
  EXPECT_TRUE(FlushLog(absl::Minutes(1)));
  EXPECT_EQ(ReadLogLosses().unread - before, 2u);
  // The next reader gets the count of the earlier losses.
  ASSERT_EQ(pipe2(ends_, O_CLOEXEC), 0);
  dup2(ends_[1], STDERR_FILENO);
  Log(LogLevel::kInfo, "three", {});
  EXPECT_THAT(ReadUntil("log_dropped lines="), testing::HasSubstr(" three\n"));
  EXPECT_TRUE(FlushLog(absl::Minutes(1)));
}

TEST_F(LogTest, WritesWholeLinesToANonBlockingFile) {
  fcntl(ends_[1], F_SETFL, O_NONBLOCK);
  const uint64_t before = ReadLogLosses().unread;
  const std::string text(99'999, 'x');
  Log(LogLevel::kInfo, "long", {{"text", text}});
  EXPECT_THAT(ReadUntil("\n"), testing::EndsWith("text=" + text + "\n"));
  EXPECT_TRUE(FlushLog(absl::Minutes(1)));
  EXPECT_EQ(ReadLogLosses().unread, before);
}

}  // namespace
}  // namespace quantd
