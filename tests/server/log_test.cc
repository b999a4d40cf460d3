// The log's parts: text that no peer can break, lines that nobody reads, and
// lines that come too often.
#include "server/observe/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string>

#include "absl/time/clock.h"
#include "server/observe/log_sampler.h"
#include "server/observe/log_text.h"
#include "server/observe/log_writer.h"

namespace quantd {
namespace {

TEST(LogTextTest, ClearTextStaysAsItIs) {
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

TEST(LogTextTest, ControlAndDirectionAreEscapedInBothForms) {
  for (const auto& [text, escaped] :
       {std::pair("\x1b[2J", "\\u001b[2J"), std::pair("a\nb", "a\\u000ab"),
        std::pair("a\tb", "a\\u0009b"), std::pair("\x7f", "\\u007f"),
        std::pair("\xc2\x9b"
                  "31m",
                  "\\u009b31m"),
        std::pair("\xe2\x80\xae"
                  "x",
                  "\\u202ex"),
        std::pair("\xe2\x80\xa8", "\\u2028"),
        std::pair("\xef\xbb\xbf", "\\ufeff")}) {
    EXPECT_EQ(QuoteForText(text), '"' + std::string(escaped) + '"');
    EXPECT_EQ(EscapeForJson(text), escaped);
    EXPECT_EQ(nlohmann::json::parse('"' + EscapeForJson(text) + '"'), text);
  }
  EXPECT_EQ(QuoteForText(std::string_view("\0", 1)), "\"\\u0000\"");
}

TEST(LogTextTest, WhatIsNotUtf8IsSpelledOut) {
  EXPECT_EQ(QuoteForText("a\xff"), R"("a\xff")");
  EXPECT_EQ(EscapeForJson("a\xff"), R"(a\\xff)");
  // Cut short, overlong, a surrogate, beyond the last code point, a stray
  // continuation, and a lead byte before ASCII.
  for (const char* invalid :
       {"\xe2\x80", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80",
        "\xf4\x90\x80\x80", "\x80", "\xc3(", "\xf0\x9f\x98"}) {
    const auto parsed = nlohmann::json::parse(
        '"' + EscapeForJson(invalid) + '"', nullptr, false);
    ASSERT_TRUE(parsed.is_string()) << invalid;
    EXPECT_EQ(parsed.get<std::string>().substr(0, 2), "\\x");
  }
}

TEST(LogSamplerTest, TellsOfWhatItDidNotAdmit) {
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
  EXPECT_EQ(admitted("busy", start), LogSampler::kLines) << "a kind of its own";
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

// A pipe of one page that nobody reads until Read.
class FullPipe {
 public:
  FullPipe() {
    EXPECT_EQ(pipe2(ends_, O_CLOEXEC), 0);
    fcntl(ends_[1], F_SETPIPE_SZ, 4096);
  }
  int in() const { return ends_[1]; }
  std::string Read(size_t bytes) const {
    std::string text(bytes, '\0');
    size_t got = 0;
    while (got < bytes) {
      const ssize_t n = read(ends_[0], &text[got], bytes - got);
      if (n <= 0) break;
      got += static_cast<size_t>(n);
    }
    return text.substr(0, got);
  }
  void CloseReader() const { close(ends_[0]); }

 private:
  int ends_[2] = {-1, -1};
};

// Writers live as long as the process.
LogWriter* NewWriter(int fd, size_t capacity) {
  return new LogWriter(
      fd, capacity,
      {[](uint64_t n) { return "dropped " + std::to_string(n) + "\n"; },
       [] {}});
}

TEST(LogWriterTest, AnUnreadPipeHoldsUpNobodyAndDropsAreTold) {
  static FullPipe pipe;
  LogWriter* const writer = NewWriter(pipe.in(), 1000);
  const std::string line = std::string(99, 'x') + '\n';
  constexpr uint64_t kLines = 200;
  // As many as the pipe takes, then one in which the writer stays.
  constexpr uint64_t kTaken = 40;
  for (uint64_t i = 0; i < kTaken; ++i) {
    writer->Push(line);
    ASSERT_TRUE(writer->Flush(absl::Minutes(1)));
  }
  writer->Push(line);
  EXPECT_FALSE(writer->Flush(absl::Milliseconds(50)));
  const absl::Time start = absl::Now();
  for (uint64_t i = kTaken + 1; i < kLines; ++i) writer->Push(line);
  EXPECT_FALSE(writer->Flush(absl::Milliseconds(50)));
  EXPECT_LT(absl::Now() - start, absl::Seconds(20)) << "never for ever";
  const uint64_t dropped = writer->dropped();
  EXPECT_GT(dropped, 0u);
  EXPECT_LT(dropped, kLines - kTaken - 1) << "some found room";
  const std::string note = "dropped " + std::to_string(dropped) + "\n";
  const std::string text =
      pipe.Read((kLines - dropped) * line.size() + note.size());
  EXPECT_TRUE(text.ends_with(note)) << text.substr(text.size() - 200);
  EXPECT_TRUE(writer->Flush(absl::Minutes(1)));
  writer->Push("again\n");
  EXPECT_EQ(pipe.Read(6), "again\n");
  EXPECT_EQ(writer->dropped(), dropped);
}

TEST(LogWriterTest, APipeWithoutAReaderCostsTheLinesAlone) {
  signal(SIGPIPE, SIG_IGN);
  static FullPipe pipe;
  pipe.CloseReader();
  LogWriter* const writer = NewWriter(pipe.in(), 1000);
  writer->Push("one\ntwo\n");
  EXPECT_TRUE(writer->Flush(absl::Minutes(1)));
  EXPECT_EQ(writer->dropped(), 2u);
}

TEST(LogWriterTest, WritesWholeWhereOthersMadeTheFileNonBlocking) {
  static FullPipe pipe;
  fcntl(pipe.in(), F_SETFL, O_NONBLOCK);
  LogWriter* const writer = NewWriter(pipe.in(), 1 << 20);
  const std::string text = std::string(99'999, 'x') + '\n';
  writer->Push(text);
  EXPECT_EQ(pipe.Read(text.size()), text);
  EXPECT_TRUE(writer->Flush(absl::Minutes(1)));
  EXPECT_EQ(writer->dropped(), 0u);
}

}  // namespace
}  // namespace quantd
