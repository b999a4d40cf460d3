// Tests of `quantctl convert` with outputs inside the model, weights with NaN,
// full disks and killed processes.
#include <chrono>
#include <fstream>
#include <random>
#include <thread>

#include "tests/client/gate.h"
#include "tests/client/quantctl/convert_fixture.h"

namespace quantd {
namespace {

using checkpoint::Model;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// up_proj shares a scale with gate_proj, whose values are far larger.
TEST_F(Convert, NamesWeightsThatBecameZeros) {
  auto shards = LlamaShards();
  for (auto& shard : shards) {
    for (WrittenTensor& t : shard) {
      if (t.name == "model.layers.0.mlp.up_proj.weight")
        t.bytes = Bf16(t.name, t.shape, 1e-20f).bytes;
    }
  }
  WriteModel(Fresh("m"), LlamaConfig(), shards);
  ASSERT_THAT(
      RunServed({"convert", At("m"), Fresh("made")}),
      Prints(0, testing::HasSubstr("note: 1 weights became zeros, for example "
                                   "model.layers.0.mlp.up_proj")));
}

TEST_F(Convert, NeverWritesIntoTheModel) {
  WriteLlama(Fresh("m"));
  const Files before = FilesOf(At("m"));
  std::filesystem::remove(At("link"));
  std::filesystem::create_directory_symlink(At("m"), At("link"));
  for (const std::string& out :
       {At("m"), At("m/"), At("m/sub"), At("m/sub/deep"), At("link"),
        At("link/sub"), At("x/../m"), std::string("-")}) {
    const Outcome run = RunServed({"convert", At("m"), out});
    EXPECT_EQ(run.code, 7) << out << run.err;
  }
  EXPECT_THAT(RunServed({"convert", "-", Fresh("made")}),
              Errs(3, HasSubstr("-: a model is a directory")));
  // Runs in the directory of the model, names the model by a link, and writes
  // to "..".
  const Outcome inside = Wait(
      Spawn({"sh", "-c",
             fmt::format("cd {} && exec {} convert {} .. --server {}", At("m"),
                         std::getenv("QUANTCTL"), At("link"), address_)},
            At("out.txt"), At("err.txt")));
  EXPECT_EQ(inside.code, 7);
  EXPECT_TRUE(FilesOf(At("m")) == before);
  std::filesystem::create_directories(Fresh("full"));
  WriteFile(At("full/precious"), "1");
  EXPECT_THAT(RunServed({"convert", At("m"), At("full")}),
              Errs(7, HasSubstr("it has files that are not")));
  WriteFile(At("file"), "1");
  EXPECT_EQ(RunServed({"convert", At("m"), At("file")}).code, 7);
  EXPECT_EQ(ReadFile(At("file")), "1");
}

TEST_F(Convert, RefusesLinksInItsOutput) {
  WriteLlama(Fresh("m"));
  WriteFile(At("precious"), "1");
  std::filesystem::create_directories(Fresh("made"));
  WriteFile(At("made/.quantd-journal"), "");
  std::filesystem::create_symlink("../precious", At("made/tokenizer.json"));
  EXPECT_THAT(RunServed({"convert", At("m"), At("made")}),
              Errs(7, HasSubstr("made/tokenizer.json is a link, whose target "
                                "would be overwritten; remove it")));
  EXPECT_EQ(ReadFile(At("precious")), "1");
  std::filesystem::remove(At("made/tokenizer.json"));
  EXPECT_EQ(RunServed({"convert", At("m"), At("made")}).code, 0);
  EXPECT_THAT(RunServed({"convert", At("m"), At(std::string(300, 'x'))}),
              Errs(7, HasSubstr("cannot write")));
}

TEST_F(Convert, OneFileBecomesAFileOrADirectory) {
  const std::string one = At("one.safetensors");
  WriteSafetensors(
      one, {Bf16("double_blocks.0.img_attn.qkv.weight", {32, 64}),
            Bf16("double_blocks.0.img_attn.norm.key_norm.scale", {64})});
  std::filesystem::remove(At("two.safetensors"));
  const Outcome run =
      RunServed({"convert", one, At("two.safetensors"), "--dialect", "comfy"});
  ASSERT_EQ(run.code, 0) << run.err;
  ASSERT_OK_AND_ASSIGN(const auto model, Model::Open(At("two.safetensors")));
  EXPECT_NE(model.Find("double_blocks.0.img_attn.qkv.weight_scale_2"), nullptr);
  EXPECT_FALSE(std::filesystem::exists(At("two.safetensors.quantd-journal")));
  // Engines need a config.json, which a single file does not have.
  std::filesystem::create_directories(At("in"));
  std::filesystem::copy_file(one, At("in/one.safetensors"));
  ASSERT_THAT(RunServed({"convert", At("in/one.safetensors"), Fresh("alone")}),
              Prints(0, HasSubstr("next: engines load directories with a "
                                  "config.json, which " +
                                  At("alone") + " lacks")));
  EXPECT_EQ(RunServed({"convert", one, one}).code, 7);
  EXPECT_EQ(RunServed({"convert", one, At("two.safetensors")}).code, 7);
}

TEST_F(Convert, NamesWeightsWithNaN) {
  auto shards = LlamaShards();
  for (WrittenTensor& t : shards[0]) {
    if (t.name != "model.layers.0.mlp.up_proj.weight") continue;
    t.bytes[2 * (7 * 128 + 5)] = std::byte{0xC0};
    t.bytes[2 * (7 * 128 + 5) + 1] = std::byte{0x7F};
  }
  WriteModel(Fresh("m"), LlamaConfig(), shards);
  EXPECT_THAT(
      RunServed({"convert", At("m"), Fresh("made")}),
      Errs(3, testing::AllOf(
                  HasSubstr("model.layers.0.mlp.up_proj: has NaN at row "
                            "7, column 5"),
                  HasSubstr("made holds unfinished work"))));
  EXPECT_FALSE(std::filesystem::exists(At("made/config.json")));
  std::filesystem::remove_all(At("made"));
  EXPECT_EQ(
      RunServed({"convert", At("m"), At("made"), "--ignore", "*.0.mlp.*_proj"})
          .code,
      0);
  // A weight of zeros is converted like any other.
  for (WrittenTensor& t : shards[0]) {
    if (t.name.find("layers.0.mlp") == std::string::npos) continue;
    std::fill(t.bytes.begin(), t.bytes.end(), std::byte{0});
  }
  WriteModel(Fresh("m"), LlamaConfig(), shards);
  MustConvert("m", "made");
  ASSERT_OK_AND_ASSIGN(const auto model, Model::Open(At("made")));
  const float divisor = FloatOf(
      model, model.Find("model.layers.0.mlp.up_proj.weight_global_scale"));
  EXPECT_TRUE(std::isfinite(divisor) && divisor > 0) << divisor;
}

TEST_F(Convert, RefusesToResumeWithOtherOptions) {
  WriteLlama(Fresh("m"));
  Gate gate(address_);
  gate.Open(200'000);
  ASSERT_THAT(Run({"convert", At("m"), Fresh("made"), "--server", gate.target(),
                   "--deadline", "2"}),
              Errs(4, HasSubstr("repeat the command to continue")));
  const Files half = FilesOf(At("made"));
  EXPECT_EQ(half.count("config.json"), 0u);
  for (const auto& [name, bytes] : half) {
    EXPECT_TRUE(name.ends_with(".partial") || name == ".quantd-journal")
        << name;
  }
  EXPECT_THAT(RunServed({"convert", At("m"), At("made"), "--format", "fp8"}),
              Errs(7, HasSubstr("with other options")));
  EXPECT_TRUE(FilesOf(At("made")) == half);
  const Outcome rest = RunServed({"convert", At("m"), At("made")});
  EXPECT_EQ(rest.code, 0) << rest.err;
  MustConvert("m", "whole");
  EXPECT_TRUE(FilesOf(At("made")) == FilesOf(At("whole")));
}

TEST_F(Convert, ResumingRedoesDamagedUnits) {
  WriteLlama(Fresh("m"));
  MustConvert("m", "q",
              {"--dialect", "deepseek", "--format", "fp8_block", "--include",
               "lm_head"});
  // The second model has FP8 weights, which are sent as fp32.
  for (const auto& [from, sent] :
       {std::pair("m", 300'000), std::pair("q", 900'000)}) {
    SCOPED_TRACE(from);
    ASSERT_EQ(RunServed({"convert", At(from), Fresh("whole")}).code, 0);
    Fresh("made");
    Gate gate(address_);
    gate.Open(sent);
    const Outcome cut = Run({"convert", At(from), At("made"), "--server",
                             gate.target(), "--deadline", "2"});
    ASSERT_EQ(cut.code, 4) << cut.err;
    // Damages the second half of the shard, and appends half a line to the
    // journal.
    const std::string shard =
        At("made/model-00001-of-00002.safetensors.partial");
    std::string bytes = ReadFile(shard);
    for (size_t i = bytes.size() / 2; i < bytes.size(); ++i) bytes[i] ^= 1;
    WriteFile(shard, bytes);
    std::ofstream(At("made/.quantd-journal"), std::ios::app) << "3 0123";
    ASSERT_THAT(RunServed({"convert", At(from), At("made")}),
                Prints(0, HasSubstr("by an earlier run")));
    EXPECT_TRUE(FilesOf(At("made")) == FilesOf(At("whole")));
  }
}

TEST_F(Convert, ReportsFullDisksAndReadOnlyDirectories) {
  WriteLlama(Fresh("m"));
  const std::string disk = At("disk");
  std::filesystem::create_directory(disk);
  const std::string command =
      fmt::format("exec {} convert {} {}/out --server {}",
                  std::getenv("QUANTCTL"), At("m"), disk, address_);
  const Outcome full = Wait(
      Spawn({"unshare", "-m", "sh", "-c",
             fmt::format("mount -t tmpfs -o size=64k none {} || exit 99; {}; "
                         "code=$?; ls -A {} >&2; exit $code",
                         disk, command.substr(5), disk)},
            At("out.txt"), At("err.txt")));
  const std::string said = ReadFile(At("err.txt"));
  if (full.code == 99 || said.find("unshare") != std::string::npos) {
    GTEST_SKIP() << "no right to mount a small disk: " << said;
  }
  EXPECT_EQ(full.code, 7) << said;
  EXPECT_THAT(said, AllOf(HasSubstr("No space left"), HasSubstr("it needs "),
                          Not(HasSubstr("out\n"))));
  const Outcome read_only =
      Wait(Spawn({"unshare", "-m", "sh", "-c",
                  fmt::format("mount -t tmpfs -o ro none {} || exit 99; {}",
                              disk, command)},
                 At("out.txt"), At("err.txt")));
  EXPECT_EQ(read_only.code, 7);
  EXPECT_THAT(ReadFile(At("err.txt")), HasSubstr("Read-only file system"));
}

TEST_F(Convert, ResumesWhenKilledAtAnyPoint) {
  // The model has about 20 MB, so that the conversion takes long enough to be
  // killed.
  std::vector<WrittenTensor> tensors;
  for (int i = 0; i < 20; ++i) {
    tensors.push_back(Bf16(
        fmt::format("model.layers.{}.mlp.gate_proj.weight", i), {512, 512}));
    tensors.push_back(
        Bf16(fmt::format("model.layers.{}.mlp.up_proj.weight", i), {512, 512}));
  }
  ModelJson config = LlamaConfig();
  config["num_hidden_layers"] = 20;
  const auto half = tensors.begin() + 21;
  WriteModel(Fresh("m"), config,
             {{tensors.begin(), half}, {half, tensors.end()}});
  const auto start = std::chrono::steady_clock::now();
  MustConvert("m", "whole");
  const auto took = std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::steady_clock::now() - start);
  const Files whole = FilesOf(At("whole"));
  const char* text = std::getenv("QUANTD_KILLS");
  const int kills = text == nullptr ? 6 : std::atoi(text);
  std::mt19937 random(1);
  Fresh("made");
  int killed = 0;  // by SIGKILL, before it was done
  int runs = 0;
  for (; killed < kills && runs < 10 * kills; ++runs) {
    const pid_t pid =
        Start({"convert", At("m"), At("made"), "--server", address_});
    std::this_thread::sleep_for(std::chrono::microseconds(
        std::uniform_int_distribution<int64_t>(0, took.count())(random)));
    // Every fourth run is interrupted by SIGINT, as a user would.
    const int number = runs % 4 == 3 ? SIGINT : SIGKILL;
    kill(pid, number);
    const Outcome run = Wait(pid);
    // The conversion is complete, even if the program was killed before it
    // reported that.
    if (run.code == 0 ||
        (std::filesystem::exists(At("made/config.json")) &&
         !std::filesystem::exists(At("made/.quantd-journal")))) {
      EXPECT_TRUE(FilesOf(At("made")) == whole) << "after run " << runs;
      Fresh("made");
      continue;
    }
    killed += number == SIGKILL;
    EXPECT_EQ(run.code, 128 + number) << run.err;
  }
  const Outcome rest = RunServed({"convert", At("m"), At("made")});
  EXPECT_EQ(rest.code, 0) << rest.err;
  EXPECT_TRUE(FilesOf(At("made")) == whole);
  EXPECT_EQ(killed, kills);
  std::printf(
      "[  INFO    ] killed by SIGKILL before it was done: %d of %d runs\n",
      killed, runs);
}

}  // namespace
}  // namespace quantd
