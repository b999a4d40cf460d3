// Tests that quantctl refuses invalid models with an exit code and a line that
// names the fault, and leaves no output that looks like a model.
#include <sys/wait.h>

#include <functional>

#include "tests/bench/rpc_process.h"
#include "tests/client/gate.h"
#include "tests/client/quantctl/convert_fixture.h"

namespace quantd {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const char kFirst[] = "m/model-00001-of-00002.safetensors";
const char kSecond[] = "m/model-00002-of-00002.safetensors";

class ConvertInput : public Convert {
 protected:
  static void Resize(const char* shard, ptrdiff_t by) {
    const std::string path = At(shard);
    std::filesystem::resize_file(
        path, std::filesystem::file_size(path) + static_cast<size_t>(by));
  }
};

// A sample of the faults that are found when a model is opened, planned and
// read. The tests of Model, of plans and of safetensors files cover all of
// them.
TEST_F(ConvertInput, NamesAnInvalidInputAndWritesNothing) {
  struct Case {
    const char* what;
    std::function<void()> plant;
    const char* says;
  };
  const Case cases[] = {
      {"a shard is missing", [] { std::filesystem::remove(At(kSecond)); },
       "1 of the 2 shards"},
      {"an unknown quantization",
       [] {
         ModelJson config = LlamaConfig();
         config["quantization_config"] = {{"quant_method", "awq"}};
         WriteModel(Fresh("m"), config, LlamaShards());
       },
       "has quantization_config"},
      {"a link out of the model",
       [] { std::filesystem::create_symlink("/etc", At("m/etc")); },
       "m/etc is a link to the directory /etc, outside the model; replace it "
       "by a copy or remove it"},
      {"a truncated shard", [] { Resize(kSecond, -100); }, kSecond + 2},
      {"GPT-2, which stores weights as K x N",
       [] {
         WriteModel(Fresh("m"), {{"model_type", "gpt2"}},
                    {{Bf16("h.0.attn.c_attn.weight", {128, 384}),
                      Bf16("h.0.mlp.c_fc.weight", {128, 512})}});
       },
       "stored as K rows of N"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.what);
    WriteLlama(Fresh("m"));
    c.plant();
    EXPECT_THAT(RunServed({"convert", At("m"), Fresh("made")}),
                Errs(3, AllOf(HasSubstr("quantctl: "), HasSubstr(c.says))));
    EXPECT_FALSE(std::filesystem::exists(At("made")));
  }
}

TEST_F(ConvertInput, CopiesOrNamesOtherFiles) {
  WriteLlama(Fresh("m"));
  const std::string odd = "a/b/bad\xFF\n";
  std::filesystem::create_directories(At("m/a/b"));
  WriteLlama(At("m/2_Dense"));
  WriteFile(At("m/" + odd), "odd");
  WriteFile(At("m/pytorch_model.bin"), "old");
  const char* note =
      "left out, the same weights in another form: pytorch_model.bin (1 file, "
      "3 bytes)";
  for (const char* form : {"--dry-run", "--json"}) {
    ASSERT_THAT(RunServed({"convert", At("m"), Fresh("made"), form}),
                Prints(0, HasSubstr(note)));
  }
  Files made = FilesOf(At("made"));
  for (const auto& [name, bytes] : FilesOf(At("m"))) {
    if (!name.starts_with("2_Dense/") && name != odd) continue;
    EXPECT_EQ(made[name], bytes) << name;
  }
  EXPECT_EQ(made.count("pytorch_model.bin"), 0u);
  // Decoding removes the files that describe the old quantization.
  std::filesystem::remove_all(At("m"));
  std::filesystem::rename(At("made"), At("m"));
  WriteFile(At("m/hf_quant_config.json"), "{}");
  ASSERT_THAT(
      RunServed({"convert", At("m"), Fresh("made"), "--dialect", "none",
                 "--format", "bf16"}),
      Prints(0, HasSubstr("note: left out, because it describes the "
                          "previous quantization: hf_quant_config.json\n")));
  EXPECT_FALSE(std::filesystem::exists(At("made/hf_quant_config.json")));
}

TEST_F(ConvertInput, NamedShardsEqualThoseOfTheWholeModel) {
  WriteLlama(Fresh("m"));
  // In this format no weights share an amax across shards.
  const std::string format = "--format=mxfp8";
  MustConvert("m", "whole", {format});
  const Files whole = FilesOf(At("whole"));
  Files parts;
  for (const char* shard : {kSecond + 2, kFirst + 2}) {
    ASSERT_THAT(RunServed({"convert", At("m"), Fresh("made"), format,
                           "--shards", shard}),
                Prints(0, AllOf(HasSubstr("note: 1 of 2 shards are left out"),
                                HasSubstr("convert the other shards into other "
                                          "directories"),
                                Not(HasSubstr("check: ")))));
    for (auto& [name, bytes] : FilesOf(At("made"))) {
      // The lists in these files cover only the converted shards.
      const bool lists = name == "config.json" || name.ends_with(".index.json");
      EXPECT_TRUE(lists || bytes == whole.at(name)) << name;
      parts[name] = bytes;
    }
  }
  EXPECT_EQ(NamesOf(parts), NamesOf(whole));
  EXPECT_THAT(RunServed({"convert", At("m"), Fresh("made"), "--shards", "x"}),
              Errs(3, HasSubstr("x is not a shard of this model")));
  EXPECT_FALSE(std::filesystem::exists(At("made")));
}

TEST_F(ConvertInput, DoesNotUseTensorNamesAsPaths) {
  auto shards = LlamaShards();
  const std::string evil = "../../../../escaped/../x/proj.weight";
  shards[1].push_back(Bf16(evil, {64, 128}));
  WriteModel(Fresh("m"), LlamaConfig(), shards);
  MustConvert("m", "made", {"--include", "*escaped*"});
  ASSERT_OK_AND_ASSIGN(const auto model, checkpoint::Model::Open(At("made")));
  EXPECT_NE(model.Find("../../../../escaped/../x/proj.weight_packed"), nullptr);
  EXPECT_EQ(FilesOf(At("made")).size(), 5u);
}

TEST_F(ConvertInput, ReportsASourceThatChanges) {
  for (const ptrdiff_t by : {-4096, 4096}) {
    SCOPED_TRACE(by);
    WriteLlama(Fresh("m"));
    Gate gate(address_);
    const pid_t pid =
        Start({"convert", At("m"), Fresh("made"), "--server", gate.target()});
    // quantctl has opened all shards and is about to send the first weights.
    ASSERT_TRUE(gate.WaitForKnock());
    Resize(kSecond, by);
    gate.Open();
    EXPECT_THAT(Wait(pid), Errs(3, HasSubstr(kSecond + 2)));
    for (const std::string& name : NamesOf(FilesOf(At("made")))) {
      EXPECT_TRUE(name.ends_with(".partial") || name == ".quantd-journal")
          << name;
    }
  }
}

TEST_F(ConvertInput, UsesSeveralServersAtOnce) {
  std::vector<WrittenTensor> tensors;
  for (int i = 0; i < 24; ++i) {
    tensors.push_back(Bf16(
        fmt::format("model.layers.{}.mlp.down_proj.weight", i), {2048, 1024}));
  }
  ModelJson config = LlamaConfig();
  config["num_hidden_layers"] = 24;
  WriteModel(Fresh("m"), config, {tensors});
  const bench::ServerProcess second(
      {bench::FindQuantd(), "--listen", "127.0.0.1:0"});
  ASSERT_TRUE(second.running());
  Gate one(address_);
  Gate two(second.address());
  one.Open();
  two.Open();
  const Outcome run = Run({"convert", At("m"), Fresh("made"), "--server",
                           one.target() + "," + two.target()});
  ASSERT_EQ(run.code, 0) << run.err;
  // Both servers share 96 MB, which take longer than making a connection.
  EXPECT_GT(one.passed(), size_t{1} << 20);
  EXPECT_GT(two.passed(), size_t{1} << 20);
  MustConvert("m", "whole");
  EXPECT_TRUE(FilesOf(At("made")) == FilesOf(At("whole")));
}

// Converts a sparse file of half a gigabyte with local devices.
TEST_F(ConvertInput, MemoryStaysBelowTheEstimate) {
  std::filesystem::create_directories(Fresh("m"));
  ModelJson header = ModelJson::object();
  const size_t each = size_t{4096} * 8192 * 2;
  for (size_t i = 0; i < 8; ++i) {
    header[fmt::format("model.layers.{}.mlp.down_proj.weight", i)] = {
        {"dtype", "BF16"},
        {"shape", {4096, 8192}},
        {"data_offsets", {i * each, (i + 1) * each}}};
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string head(8, '\0');
  for (size_t i = 0; i < 8; ++i) {
    head[i] = static_cast<char>(text.size() >> 8 * i);
  }
  const std::string path = At("m/model.safetensors");
  WriteFile(path, head + text);
  std::filesystem::resize_file(path, 8 + text.size() + 8 * each);
  ModelJson config = LlamaConfig();
  config["num_hidden_layers"] = 8;
  WriteFile(At("m/config.json"), config.dump());
  const pid_t pid = Start({"convert", At("m"), Fresh("made"), "--server",
                           "local:cpu", "--memory", "256"});
  // Reads the peak while quantctl runs. wait4 would include the memory of this
  // process, which posix_spawn shares until it executes quantctl.
  int status = 0;
  uint64_t most = 0;
  while (waitpid(pid, &status, WNOHANG) == 0) {
    most = std::max(most, bench::StatusOf(pid, "VmHWM") >> 20);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  EXPECT_EQ(status, 0) << ReadFile(At("err"));
  EXPECT_GT(most, 0);
  EXPECT_THAT(ReadFile(At("out")), HasSubstr("256.00 MiB of memory in this"));
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(most, 256);
#endif
  std::printf("[  INFO    ] %zu MiB at most\n", size_t{most});
  std::filesystem::remove_all(At("made"));
}

TEST_F(ConvertInput, ComputesLocallyWithoutAServer) {
  WriteLlama(Fresh("m"));
  const Outcome run = Run({"convert", At("m"), Fresh("made")});
  if (run.err.find("no server at") == std::string::npos) {
    GTEST_SKIP() << "something listens at the default address";
  }
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("computing in this process"));
  MustConvert("m", "whole");
  EXPECT_TRUE(FilesOf(At("made")) == FilesOf(At("whole")));
  // If the user names a server, it must exist.
  EXPECT_THAT(
      Run({"convert", At("m"), Fresh("made"), "--server", "127.0.0.1:1"}),
      Errs(4, Not(HasSubstr("computing in this process"))));
}

}  // namespace
}  // namespace quantd
