// Tests of quantctl with sources that change, full disks, servers that die, and
// interrupts.
#include <sys/stat.h>

#include "client/files/quantized_file.h"
#include "fmt/format.h"
#include "tests/bench/rpc_process.h"
#include "tests/client/gate.h"
#include "tests/client/quantctl/cli_fixture.h"

namespace quantd {
namespace {

using testing::HasSubstr;
using testing::Not;
using Words = std::vector<std::string>;

class CliFiles : public Cli {
 protected:
  // Writes tensors of 64 x 160 fp32.
  static void WriteModel(const std::string& path, int tensors) {
    const std::vector<std::byte> bytes(64 * 160 * 4, std::byte{0x3E});
    std::vector<safetensors::Tensor> planned;
    for (int i = 0; i < tensors; ++i) {
      planned.push_back(
          {fmt::format("t{}", i), "F32", {64, 160}, 0, bytes.size()});
    }
    ASSERT_OK_AND_ASSIGN(auto writer,
                         safetensors::Writer::Create(path, planned, {}));
    for (const auto& t : planned) {
      ASSERT_THAT(writer.Append(t.name, bytes), IsOk());
    }
    ASSERT_THAT(writer.Commit(), IsOk());
  }
  static std::vector<std::string> Drafts() {
    std::vector<std::string> drafts;
    for (const auto& entry : std::filesystem::directory_iterator(At(""))) {
      const std::string name = entry.path().filename().string();
      if (name.find(".partial.") != std::string::npos) drafts.push_back(name);
    }
    return drafts;
  }
};

TEST_F(CliFiles, NamesATruncatedSource) {
  const std::string whole = At("whole.safetensors");
  const std::string source = At("source.safetensors");
  const std::string quantized = At("quantized.safetensors");
  WriteModel(whole, 8);
  ASSERT_EQ(RunServed({"quantize", whole, "-o", quantized}).code, 0);
  std::vector<std::pair<std::string, Words>> commands = {
      {whole, {"quantize", source, "-o", At("t.safetensors")}},
      {whole, {"roundtrip", source}},
      {whole, {"amax", source}},
      {quantized, {"dequantize", source, "-o", At("t.safetensors")}}};
  for (auto& [original, words] : commands) {
    SCOPED_TRACE(words[0]);
    std::filesystem::copy_file(
        original, source, std::filesystem::copy_options::overwrite_existing);
    Gate gate(address_);
    words.insert(words.end(), {"--server", gate.target()});
    const pid_t pid = Start(words);
    // quantctl has read the header and asks for the server's limits.
    ASSERT_TRUE(gate.WaitForKnock());
    std::filesystem::resize_file(source,
                                 std::filesystem::file_size(source) / 2);
    gate.Open();
    EXPECT_THAT(
        Wait(pid),
        Errs(3, testing::AllOf(HasSubstr(source),
                               HasSubstr("was truncated while it was read"),
                               Not(HasSubstr("server")))));
    EXPECT_FALSE(std::filesystem::exists(At("t.safetensors")));
    EXPECT_THAT(Drafts(), testing::IsEmpty());
  }
}

TEST_F(CliFiles, ReportsAFullDisk) {
  const std::string model = At("full.safetensors");
  WriteModel(model, 8);
  const std::string quantctl = std::getenv("QUANTCTL");
  const auto shell = [&](const std::string& script) {
    return Wait(Spawn({"sh", "-c", script}, At("out"), At("err")));
  };
  const std::string command = fmt::format("exec {} quantize {} --server {} -o",
                                          quantctl, model, address_);
  // Limits files to 4 KiB, or 2 KiB in some shells.
  EXPECT_THAT(
      shell(fmt::format("ulimit -f 4; {} {}", command,
                        At("limited.safetensors"))),
      Errs(7, testing::AllOf(
                  HasSubstr("File too large"), HasSubstr("limited.safetensors"),
                  Not(HasSubstr("server")), Not(HasSubstr("--deadline")))));
  EXPECT_THAT(Drafts(), testing::IsEmpty());

  // A full disk under stdout is an error, too.
  EXPECT_THAT(shell(fmt::format("exec {} info --server {} > /dev/full",
                                quantctl, address_)),
              Errs(7, HasSubstr("No space left")));
}

TEST_F(CliFiles, NoCommandReplacesItsSource) {
  const std::string model = At("mine.safetensors");
  const std::string quantized = At("mine.q.safetensors");
  WriteModel(model, 2);
  ASSERT_EQ(RunServed({"quantize", model, "-o", quantized}).code, 0);
  for (const auto& [command, source] :
       {std::pair<const char*, std::string>("quantize", model),
        {"dequantize", quantized}}) {
    const std::string before = ReadFile(source);
    EXPECT_THAT(RunServed({command, source, "-o", source}),
                Errs(7, HasSubstr("it is also the input")));
    EXPECT_EQ(ReadFile(source), before);
  }
  EXPECT_THAT(Drafts(), testing::IsEmpty());
}

TEST_F(CliFiles, KeepsTheOldOutputIfTheServerDies) {
  const std::string model = At("dies.safetensors");
  const std::string output = At("dies.q.safetensors");
  WriteModel(model, 12);
  WriteFile(output, "as it was");
  Gate gate(address_);
  const pid_t pid =
      Start({"quantize", model, "-o", output, "--server", gate.target()});
  // Lets a few tensors of 40 KiB through, then closes.
  gate.Open(300'000);
  const Outcome run = Wait(pid);
  EXPECT_TRUE(run.code == 4 || run.code == 6) << run.code << run.err;
  EXPECT_GE(gate.passed(), 300'000u);
  EXPECT_THAT(run.out, HasSubstr("was not written"));
  EXPECT_EQ(ReadFile(output), "as it was");
  EXPECT_THAT(Drafts(), testing::IsEmpty());
}

TEST_F(CliFiles, SignalsLeaveNoTemporaryFiles) {
  const std::string model = At("signal.safetensors");
  WriteModel(model, 2);
  for (const int number : {SIGHUP, SIGINT, SIGTERM}) {
    SCOPED_TRACE(strsignal(number));
    Gate gate(address_);
    const pid_t pid = Start({"quantize", model, "-o", At("sig.safetensors"),
                             "--server", gate.target()});
    ASSERT_TRUE(gate.WaitForKnock());
    EXPECT_EQ(Drafts().size(), 1u);
    ASSERT_EQ(kill(pid, number), 0);
    EXPECT_EQ(Wait(pid).code, 128 + number);
    EXPECT_THAT(Drafts(), testing::IsEmpty());
    EXPECT_FALSE(std::filesystem::exists(At("sig.safetensors")));
  }
  // The next run removes a temporary file that SIGKILL left.
  {
    Gate gate(address_);
    const pid_t pid = Start({"quantize", model, "-o", At("sig.safetensors"),
                             "--server", gate.target()});
    ASSERT_TRUE(gate.WaitForKnock());
    ASSERT_EQ(kill(pid, SIGKILL), 0);
    Wait(pid);
    EXPECT_EQ(Drafts().size(), 1u);
  }
  EXPECT_EQ(RunServed({"quantize", model, "-o", At("sig.safetensors")}).code,
            0);
  EXPECT_THAT(Drafts(), testing::IsEmpty());
}

TEST_F(CliFiles, WritesToPipesAndDevices) {
  const std::string model = At("pipe.safetensors");
  const std::string plain = At("pipe.q.safetensors");
  WriteModel(model, 2);
  ASSERT_EQ(RunServed({"quantize", model, "-o", plain}).code, 0);
  const std::string bytes = ReadFile(plain);

  const Outcome dash = RunServed({"quantize", model, "-o", "-", "--json"});
  EXPECT_EQ(dash.code, 0);
  EXPECT_TRUE(dash.out == bytes);
  EXPECT_EQ(nlohmann::json::parse(dash.err)["output"], "standard output");
  EXPECT_FALSE(std::filesystem::exists("-"));
  // Uses a link like /dev/stdout instead of the machine's own.
  std::filesystem::create_symlink("/proc/self/fd/1", At("stdout"));
  const Outcome named = RunServed({"quantize", model, "-o", At("stdout")});
  EXPECT_EQ(named.code, 0);
  EXPECT_TRUE(named.out == bytes);
  EXPECT_NE(named.err.find("total: 2 tensors"), std::string::npos);

  const std::string null = OwnDevice(At("null"), 3, "/dev/null");
  for (const Words& words :
       {Words{"quantize", model}, Words{"dequantize", plain},
        Words{"sample", "--rows", "16", "--cols", "16"}}) {
    Words with = words;
    with.insert(with.end(), {"-o", null});
    const Outcome run =
        words[0] == "sample" ? Run(with) : RunServed(std::move(with));
    EXPECT_EQ(run.code, 0) << run.err;
    EXPECT_TRUE(std::filesystem::is_character_file(null)) << words[0];
  }
  EXPECT_EQ(
      RunServed({"quantize", model, "-o", At("disk-less/x.safetensors")}).code,
      7);
}

TEST_F(CliFiles, RefusesStandardInput) {
  for (const char* command : {"quantize", "dequantize"}) {
    EXPECT_THAT(RunServed({command, "-", "-o", At("x.safetensors")}),
                Errs(2, HasSubstr("cannot read standard input")));
  }
}

// A server with a small message limit gives the same file as one with a large
// limit.
TEST_F(CliFiles, CutsTensorsOverTheMessageLimit) {
  const std::string model = At("large.safetensors");
  ASSERT_EQ(
      Run({"sample", "-o", model, "--rows", "1000", "--cols", "1024"}).code, 0);
  const bench::ServerProcess small({bench::FindQuantd(), "--listen",
                                    "127.0.0.1:0", "--max-request-bytes",
                                    "600000"});
  ASSERT_TRUE(small.running()) << small.Log();
  const auto at = [](Words words, const std::string& address) {
    words.insert(words.end(), {"--server", address});
    return Run(std::move(words));
  };
  int made = 0;
  for (const Words& flags :
       {Words{}, Words{"--usage", "both", "--rht", "columnwise"},
        Words{"--format", "mxfp8_e4m3", "--usage", "both", "--scale-layout",
              "swizzled"},
        Words{"--rounding", "stochastic", "--seed", "7"}}) {
    std::string outputs[2];
    std::string decoded[2];
    for (const bool cut : {false, true}) {
      const std::string& address = cut ? small.address() : address_;
      const std::string q = At(fmt::format("large{}.q.safetensors", ++made));
      Words words = {"quantize", model, "-o", q};
      words.insert(words.end(), flags.begin(), flags.end());
      const Outcome run = at(words, address);
      ASSERT_EQ(run.code, 0) << run.err;
      outputs[cut] = ReadFile(q);
      const std::string back = q + ".back.safetensors";
      ASSERT_EQ(at({"dequantize", q, "-o", back}, address).code, 0);
      decoded[cut] = ReadFile(back);
    }
    EXPECT_TRUE(outputs[0] == outputs[1]) << fmt::format("{}", flags.size());
    EXPECT_TRUE(decoded[0] == decoded[1]);
    EXPECT_FALSE(outputs[0].empty());
  }
  // The measured errors agree but for the last digits of sums.
  const auto report = [&](const char* command, const std::string& address) {
    return at({command, model, "--json"}, address).Json()["tensors"][0];
  };
  EXPECT_NEAR(report("roundtrip", address_)["sqnr_db"].get<double>(),
              report("roundtrip", small.address())["sqnr_db"].get<double>(),
              1e-9);
  EXPECT_EQ(report("amax", address_)["copies"],
            report("amax", small.address())["copies"]);
}

}  // namespace
}  // namespace quantd
