// Tests of quantctl's messages: totals, progress, skipped tensors, and
// suggestions for misspelt words.
#include "client/quantctl/report.h"

#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>

#include <sstream>

#include "client/quantctl/progress.h"
#include "client/quantctl/terminal/terminal.h"
#include "fmt/format.h"
#include "tests/client/quantctl/cli_fixture.h"

namespace quantd {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class CliReport : public Cli {};

TEST_F(CliReport, AttributesClippingToTheEstimate) {
  ASSERT_EQ(Run({"sample", "-o", At("e.safetensors")}).code, 0);
  const auto trip = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"roundtrip", At("e.safetensors"), "--tensor",
                                 "gaussian", "--rht", "columnwise", "--json"});
    const Outcome run = RunServed(std::move(words));
    EXPECT_EQ(run.code, 0) << run.err;
    return run.Json();
  };
  // Rotating Gaussian values adds no note; a quarter of their amax does.
  EXPECT_TRUE(trip({})["notes"].empty());
  for (const auto& flags :
       {std::vector<std::string>{"--amax-estimation-scale", "0.25"},
        {"--given-amax-columnwise", "1"}}) {
    const json report = trip(flags);
    ASSERT_EQ(report["notes"].size(), 1u) << report["notes"];
    const std::string note = report["notes"][0];
    EXPECT_THAT(note, HasSubstr("the estimated or given amax"));
    EXPECT_THAT(note, Not(HasSubstr("RHT lowers")));
    if (flags[0] == "--amax-estimation-scale") {
      EXPECT_THAT(note, HasSubstr("clipped"));
    }
    const json& copy = report["tensors"][0]["copies"]["columnwise"];
    EXPECT_LT(copy["sqnr_db"], 15);
    EXPECT_GT(copy["sqnr_db_computed_amax"], 20);
    EXPECT_GT(copy["sqnr_db_without_rht"], 20);
  }
  // If the rotation lowers the SQNR, its note appears beside that of the
  // estimate.
  const Outcome both = RunServed({"roundtrip", At("e.safetensors"), "--tensor",
                                  "outliers", "--rht", "columnwise",
                                  "--amax-estimation-scale", "1", "--json"});
  ASSERT_EQ(both.code, 0);
  EXPECT_THAT(both.Json()["notes"].dump(), HasSubstr("RHT lowers"));
}

TEST_F(CliReport, SuggestsWordsForMisspeltOnes) {
  EXPECT_THAT(RunServed({"quantise", At("x.npy")}),
              Errs(2, HasSubstr("there is no command 'quantise'; did you mean "
                                "'quantize'?\n  See 'quantctl help'")));
  EXPECT_THAT(RunServed({"roundtrip", At("x.npy"), "--formt", "nvfp4"}).err,
              HasSubstr("there is no option '--formt'; did you mean "
                        "'--format'?\n  See 'quantctl help roundtrip'"));
  EXPECT_THAT(Run({"frobnicate"}).err,
              AllOf(HasSubstr("there is no command 'frobnicate'\n"),
                    Not(HasSubstr("did you mean"))));
  // Without a misspelt word there is no suggestion.
  EXPECT_THAT(Run({"quantize"}).err, AllOf(HasSubstr("FILE is required"),
                                           Not(HasSubstr("did you mean"))));
  using quantctl::Closest;
  EXPECT_EQ(Closest("dequantise", {"quantize", "dequantize"}), "dequantize");
  EXPECT_EQ(Closest("am", {"amax", "plan"}), "");
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST_F(CliReport, HelpIsAsWideAsTheTerminal) {
  size_t pages = 0;
  for (const char* command :
       {"", "info", "quantize", "dequantize", "amax", "roundtrip", "plan",
        "convert", "inspect", "lint", "repair", "verify", "compare", "bench",
        "sample"}) {
    for (const int width : {60, 80, 100, 200}) {
      setenv("COLUMNS", std::to_string(width).c_str(), 1);
      const Outcome help =
          *command == '\0' ? Run({"help"}) : Run({"help", command});
      unsetenv("COLUMNS");
      EXPECT_EQ(help.code, 0);
      size_t longest = 0;
      for (const std::string& line : Lines(help.out)) {
        longest = std::max(longest, line.size());
        EXPECT_LE(line.size(), width) << command << ": " << line;
      }
      // A wide terminal is used.
      if (*command == '\0' && width == 100) {
        EXPECT_GT(longest, 80);
      }
      // Each command has examples, and only the first page has exit codes.
      EXPECT_EQ(help.out.find("Examples:") == std::string::npos,
                *command == '\0');
      EXPECT_EQ(help.out.find("Exit codes:") == std::string::npos,
                *command != '\0');
      ++pages;
    }
  }
  EXPECT_EQ(pages, 60u);
}

TEST_F(CliReport, PrintsTotals) {
  const Outcome run = RunServed(
      {"roundtrip", At("model.safetensors"), "--usage", "both", "--json"});
  ASSERT_EQ(run.code, 0) << run.err;
  const json report = run.Json();
  const json& totals = report["totals"];
  size_t in = 0;
  size_t out = 0;
  double least = 1e9;
  double sum = 0;
  int copies = 0;
  for (const json& t : report["tensors"]) {
    in += t["bytes_in"].get<size_t>();
    out += t["bytes_out"].get<size_t>();
    for (const json& c : t["copies"]) {
      least = std::min(least, c["sqnr_db"].get<double>());
      sum += c["sqnr_db"].get<double>();
      ++copies;
    }
  }
  EXPECT_EQ(totals["tensors"], report["tensors"].size());
  EXPECT_EQ(totals["failed"], 0);
  EXPECT_EQ(totals["bytes_in"], in);
  EXPECT_EQ(totals["bytes_out"], out);
  EXPECT_DOUBLE_EQ(totals["ratio"].get<double>(),
                   static_cast<double>(out) / static_cast<double>(in));
  EXPECT_EQ(totals["least_sqnr_db"], least);
  EXPECT_NEAR(totals["mean_sqnr_db"].get<double>(), sum / copies, 1e-9);
  const double seconds = totals["seconds"];
  EXPECT_GT(seconds, 0);
  EXPECT_NEAR(totals["bytes_in_per_second"].get<double>() * seconds,
              static_cast<double>(in), 1);
  // With statistics the totals include the SQNR.
  const auto quantize = [&](std::vector<std::string> words) {
    words.insert(words.begin(),
                 {"quantize", At("x.npy"), "-o", At("totals.safetensors")});
    return RunServed(std::move(words));
  };
  EXPECT_TRUE(quantize({"--json"}).Json()["totals"]["mean_sqnr_db"].is_null());
  EXPECT_GT(quantize({"--statistics", "--json"})
                .Json()["totals"]["mean_sqnr_db"]
                .get<double>(),
            15);
  const Outcome table = quantize({"--statistics"});
  EXPECT_THAT(table.out, HasSubstr("total: 1 tensor, 40.00 KiB in, "));
  EXPECT_THAT(table.out, HasSubstr("/s, SQNR "));
  EXPECT_THAT(table.out, HasSubstr("(x, rowwise)"));
}

TEST_F(CliReport, SummarizesSkippedTensorsInOneLine) {
  std::vector<safetensors::Tensor> planned = {{"w", "F32", {16, 16}, 0, 1024},
                                              {"ids", "I64", {8}, 0, 64}};
  for (int i = 0; i < 62; ++i) {
    planned.push_back({fmt::format("norm{}", i), "F32", {16}, 0, 64});
  }
  ASSERT_OK_AND_ASSIGN(auto writer, safetensors::Writer::Create(
                                        At("many.safetensors"), planned, {}));
  const std::vector<std::byte> zeros(1024);
  for (const auto& t : planned) {
    ASSERT_THAT(writer.Append(t.name, {zeros.data(), t.size}), IsOk());
  }
  ASSERT_THAT(writer.Commit(), IsOk());
  ASSERT_THAT(
      RunServed({"amax", At("many.safetensors")}),
      Prints(0, testing::AllOf(
                    HasSubstr(
                        "skipped 63 of 64 tensors: 1 of dtype I64, 62 vectors "
                        "(--verbose names them)\n"),
                    Not(HasSubstr("norm7")))));
  const Outcome verbose = RunServed({"amax", At("many.safetensors"), "-v"});
  EXPECT_THAT(verbose.out, HasSubstr("skipped: norm7: a vector"));
  const json as_json =
      RunServed({"amax", At("many.safetensors"), "--json"}).Json();
  EXPECT_EQ(as_json["skipped"].size(), 63u);
  EXPECT_EQ(as_json["skipped"][0]["kind"], "of dtype I64");
  // Tensors that the options exclude are counted with their reason.
  EXPECT_THAT(RunServed({"quantize", At("model.safetensors"), "-o",
                         At("some.safetensors")})
                  .out,
              HasSubstr("1 that the options do not allow (tensor.shape: "));
  // A file without any suitable tensor also gets a short message.
  const Outcome none = RunServed({"quantize", At("many.safetensors"), "-o",
                                  At("none.safetensors"), "--format", "nvfp4",
                                  "--flatten-axis", "5"});
  EXPECT_EQ(none.code, 3);
  EXPECT_LE(std::count(none.err.begin(), none.err.end(), '\n'), 2) << none.err;
}

// Returns a command's output if stderr is a terminal of 100 columns.
std::string OnTerminal(std::vector<std::string> words) {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  EXPECT_EQ(grantpt(terminal), 0);
  EXPECT_EQ(unlockpt(terminal), 0);
  winsize size = {};
  size.ws_row = 24;
  size.ws_col = 100;
  EXPECT_EQ(ioctl(terminal, TIOCSWINSZ, &size), 0);
  words.insert(words.begin(), std::getenv("QUANTCTL"));
  const pid_t pid = Spawn(words, "/dev/null", ptsname(terminal));
  EXPECT_EQ(waitpid(pid, nullptr, 0), pid);
  char drawn[1 << 14] = {};
  EXPECT_GT(read(terminal, drawn, sizeof drawn - 1), 0);
  close(terminal);
  return drawn;
}

TEST_F(CliReport, UsesColoursOnATerminalUnlessNoColor) {
  EXPECT_THAT(OnTerminal({"inspect", "absent"}),
              testing::StartsWith("\x1b[31mquantctl:\x1b[0m "));
  setenv("NO_COLOR", "1", 1);
  const std::string plain = OnTerminal({"inspect", "absent"});
  unsetenv("NO_COLOR");
  EXPECT_THAT(plain, testing::StartsWith("quantctl: "));
  EXPECT_THAT(Run({"inspect", "absent"}).err, testing::StartsWith("quantctl:"));
}

TEST_F(CliReport, ProgressCountsBytes) {
  using quantctl::ProgressText;
  constexpr uint64_t kMiB = 1 << 20;
  EXPECT_EQ(ProgressText(0, 4096 * kMiB, 3), "0 B of 4.00 GiB");
  EXPECT_EQ(ProgressText(1024 * kMiB, 4096 * kMiB, 4),
            "1.00 GiB of 4.00 GiB, 256.00 MiB/s, 0:12 left");
  EXPECT_EQ(ProgressText(kMiB, 8192 * kMiB, 1),
            "1.00 MiB of 8.00 GiB, 1.00 MiB/s, 2:16:31 left");

  // A long line is shortened and does not reach the last column.
  using quantctl::ProgressLine;
  for (size_t width = 20; width <= 200; ++width) {
    const std::string line = ProgressLine(1024 * kMiB, 4096 * kMiB, 4,
                                          "model.layers.17.q_proj", width);
    EXPECT_LE(line.size(), width);
    if (width >= 100) {
      EXPECT_EQ(line,
                "[######..................] 1.00 GiB of 4.00 GiB, 256.00 "
                "MiB/s, 0:12 left model.layers.17.q_proj");
    }
  }

  // On a terminal there is a progress bar, which is erased at the end.
  const std::string bar =
      OnTerminal({"roundtrip", At("model.safetensors"), "--server", address_});
  EXPECT_THAT(bar, HasSubstr("[........................] 0 B of 80.00 KiB"));
  EXPECT_THAT(bar, HasSubstr("[############............] 40.00 KiB of 80.00"));
  EXPECT_THAT(bar, HasSubstr("/s, 0:0"));
  EXPECT_EQ(bar.substr(bar.size() - 4), "\r\x1b[K");
  // In a log, a short command prints no progress and no escape sequence.
  const Outcome logged = RunServed({"roundtrip", At("model.safetensors")});
  EXPECT_EQ(logged.err, "");
}

}  // namespace
}  // namespace quantd
