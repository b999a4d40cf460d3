// Directories that are models, and everything that keeps one from being one.
#include "client/checkpoint/model.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <functional>

#include "tests/client/checkpoint/model_writer.h"

namespace quantd::checkpoint {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ModelTest : public testing::Test {
 protected:
  std::string At(std::string_view name) const { return dir_ / name; }
  // The path by which messages name a link's target.
  std::string Real(std::string_view name) const {
    return std::filesystem::weakly_canonical(At(name)).string();
  }
  void SetUp() override { WriteLlama(At("m")); }
  // What Open says, which must be wrong.
  std::string Refusal(
      absl::StatusCode code = absl::StatusCode::kInvalidArgument) const {
    const auto model = Model::Open(At("m"));
    EXPECT_THAT(model, StatusIs(code));
    return std::string(model.status().message());
  }
  ModelJson Index() const {
    return ModelJson::parse(ReadFile(At("m/model.safetensors.index.json")));
  }
  void SetIndex(const ModelJson& index) const {
    WriteFile(At("m/model.safetensors.index.json"), index.dump());
  }
  TempDir dir_;
};

TEST_F(ModelTest, ShardsIndexConfigAndTheRest) {
  WriteFile(At("m/pytorch_model.bin"), "old");
  std::filesystem::create_directory(At("m/1_Pooling"));
  WriteFile(At("m/1_Pooling/config.json"), "{}");
  const auto model = Model::Open(At("m"));
  ASSERT_THAT(model, IsOk());
  EXPECT_EQ(model->shards().size(), 2u);
  EXPECT_EQ(model->tensors().size(), 21u);
  EXPECT_EQ(model->model_type(), "llama");
  EXPECT_THAT(model->others(),
              ElementsAre("1_Pooling/config.json", "tokenizer.json"));
  const ModelTensor* v = model->Find("model.layers.1.self_attn.v_proj.weight");
  ASSERT_NE(v, nullptr);
  EXPECT_EQ(v->shard, 1u);
  std::vector<std::byte> bytes(v->stored.size);
  ASSERT_THAT(model->Read(*v, 0, absl::MakeSpan(bytes)), IsOk());
  EXPECT_EQ(bytes, Bf16(v->name(), {64, 128}, 0.01f).bytes);
}

TEST_F(ModelTest, OneFileIsAModelToo) {
  WriteSafetensors(At("one.safetensors"), {Bf16("a.weight", {16, 16})});
  const auto file = Model::Open(At("one.safetensors"));
  ASSERT_THAT(file, IsOk());
  EXPECT_TRUE(file->single_file());
  EXPECT_EQ(file->tensors().size(), 1u);
  EXPECT_THAT(Model::Open(At("m/tokenizer.json")),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Model::Open(At("nothing")),
              StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(ModelTest, MissingShardsAreNamed) {
  std::filesystem::remove(At("m/model-00002-of-00002.safetensors"));
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("1 of 2 shards"),
                               HasSubstr("model-00002-of-00002.safetensors")));
}

TEST_F(ModelTest, NamesThatArePathsAreRefused) {
  for (const char* name : {"../other.safetensors", "/etc/x.safetensors",
                           "a/b.safetensors", "..", "", "notes.txt"}) {
    ModelJson index = Index();
    index["weight_map"]["lm_head.weight"] = name;
    SetIndex(index);
    EXPECT_THAT(Refusal(), HasSubstr("is not the name of a .safetensors file"))
        << name;
  }
}

TEST_F(ModelTest, AnIndexThatLiesIsFound) {
  ModelJson index = Index();
  index["weight_map"]["lm_head.weight"] = "model-00001-of-00002.safetensors";
  SetIndex(index);
  EXPECT_THAT(Refusal(), HasSubstr("is in model-00002-of-00002.safetensors and "
                                   "not in model-00001-of-00002"));
  index = Index();
  index["weight_map"]["lm_head.weight"] = "model-00002-of-00002.safetensors";
  index["weight_map"]["ghost.weight"] = "model-00002-of-00002.safetensors";
  SetIndex(index);
  EXPECT_THAT(Refusal(), HasSubstr("\"ghost.weight\" is not in"));
  index["weight_map"]["ghost.weight"] = 3;
  SetIndex(index);
  EXPECT_THAT(Refusal(), HasSubstr("got number"));
  WriteFile(At("m/model.safetensors.index.json"), "[]");
  EXPECT_THAT(Refusal(), HasSubstr("a JSON object was expected"));
  WriteFile(At("m/model.safetensors.index.json"), "{}");
  EXPECT_THAT(Refusal(), HasSubstr("no weight_map"));
  WriteFile(At("m/model.safetensors.index.json"), "{\"weight_map\": {");
  EXPECT_THAT(Refusal(), HasSubstr("no JSON: it goes wrong at byte"));
}

TEST_F(ModelTest, OneNameInTwoShardsIsRefused) {
  WriteSafetensors(At("m/model-00002-of-00002.safetensors"),
                   {Bf16("model.embed_tokens.weight", {96, 128})});
  EXPECT_THAT(Refusal(), HasSubstr("\"model.embed_tokens.weight\" is in "
                                   "model-00001-of-00002.safetensors and in "
                                   "model-00002-of-00002.safetensors"));
}

TEST_F(ModelTest, TheSameFileTwiceIsRefused) {
  std::filesystem::remove(At("m/model-00002-of-00002.safetensors"));
  std::filesystem::create_symlink(At("m/model-00001-of-00002.safetensors"),
                                  At("m/model-00002-of-00002.safetensors"));
  EXPECT_THAT(Refusal(), HasSubstr("the same file as"));
}

TEST_F(ModelTest, TruncatedAndGrownShardsAreNamed) {
  const std::string shard = At("m/model-00002-of-00002.safetensors");
  const auto size = std::filesystem::file_size(shard);
  std::filesystem::resize_file(shard, size - 1);
  EXPECT_THAT(Refusal(), AllOf(HasSubstr(shard), HasSubstr("truncated")));
  std::filesystem::resize_file(shard, size + 7);
  EXPECT_THAT(Refusal(), AllOf(HasSubstr(shard), HasSubstr("bytes follow")));
  std::filesystem::resize_file(shard, size);
  const auto model = Model::Open(At("m"));
  ASSERT_THAT(model, IsOk());
  const ModelTensor& last = model->tensors().back();
  std::vector<std::byte> bytes(last.stored.size);
  std::filesystem::resize_file(shard, size / 2);
  EXPECT_THAT(model->Read(last, 0, absl::MakeSpan(bytes)),
              StatusIs(absl::StatusCode::kDataLoss));
}

TEST_F(ModelTest, AConfigThatIsNoJsonIsNamed) {
  WriteFile(At("m/config.json"), "model_type: llama");
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("config.json"), HasSubstr("no JSON")));
  WriteFile(At("m/config.json"), "\"llama\"");
  EXPECT_THAT(Refusal(), HasSubstr("got string"));
  WriteFile(At("m/config.json"), std::string(kMaxConfigBytes + 1, ' '));
  EXPECT_THAT(Refusal(), HasSubstr("more than such a file may have"));
}

// Copying such a tree, or writing it, took all of the stack.
TEST_F(ModelTest, AConfigOfBracketsAloneIsRefused) {
  const auto nested = [](size_t depth) {
    return "{\"x\": " + std::string(depth, '[') + std::string(depth, ']') + "}";
  };
  WriteFile(At("m/config.json"), nested(2'000'000));
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("config.json"),
                               HasSubstr("more than 200 objects and lists")));
  // Brackets in texts are none.
  WriteFile(At("m/config.json"),
            "{\"x\": \"\\\"" + std::string(300, '[') + "\"}");
  EXPECT_THAT(Model::Open(At("m")), IsOk());
  WriteFile(At("m/config.json"), nested(199));
  EXPECT_THAT(Model::Open(At("m")), IsOk());
}

TEST_F(ModelTest, ManyFilesNeedAnIndex) {
  std::filesystem::remove(At("m/model.safetensors.index.json"));
  EXPECT_THAT(Refusal(), HasSubstr("2 .safetensors files and no index"));
  std::filesystem::remove(At("m/model-00001-of-00002.safetensors"));
  EXPECT_THAT(Model::Open(At("m")), IsOk());
  std::filesystem::remove(At("m/model-00002-of-00002.safetensors"));
  EXPECT_THAT(Refusal(), HasSubstr("holds no .safetensors file"));
  WriteFile(At("m/pytorch_model.bin"), "old");
  EXPECT_THAT(Refusal(), HasSubstr("save the model as safetensors first"));
}

TEST_F(ModelTest, AStrayShardIsNoted) {
  WriteSafetensors(At("m/consolidated.safetensors"), {Bf16("x", {4})});
  const auto model = Model::Open(At("m"));
  ASSERT_THAT(model, IsOk());
  EXPECT_THAT(model->notes(),
              ElementsAre(HasSubstr("consolidated.safetensors is not in")));
}

TEST_F(ModelTest, WhatIsNoFileOfItsOwnIsRefusedByName) {
  namespace fs = std::filesystem;
  const auto link = [&](const std::string& target, std::string_view name) {
    fs::remove(At(name));
    fs::create_symlink(target, At(name));
  };
  WriteLlama(At("m2"));
  WriteFile(At("m2/shadow"), "secret");
  WriteFile(At("m2/hf_quant_config.json"), "{}");
  const std::string shard = "model-00001-of-00002.safetensors";
  const std::string index = "model.safetensors.index.json";
  struct Case {
    const char* name;
    std::function<void()> plant;
    std::string says;
  };
  const std::string file = "is a link to the file " + Real("m2") + "/";
  const std::string remedy =
      ", outside the model; replace it by a copy or remove it";
  const Case cases[] = {
      {"m/etc", [&] { link(At("m2"), "m/etc"); },
       "is a link to the directory " + Real("m2") + remedy},
      {"m/inner",
       [&] {
         fs::create_directory(At("m/real"));
         link("real", "m/inner");
       },
       "is a link to the directory " + Real("m/real") + "; replace it"},
      {"m/self", [&] { link(".", "m/self"); },
       "is a link to the directory " + Real("m") + "; replace it"},
      {"m/notes", [&] { link("../m2/shadow", "m/notes"); },
       file + "shadow" + remedy},
      {"m/sub/notes",
       [&] {
         fs::create_directory(At("m/sub"));
         link("../../m2/shadow", "m/sub/notes");
       },
       file + "shadow" + remedy},
      {"m/sub/etc",
       [&] {
         fs::create_directory(At("m/sub"));
         link(At("m2"), "m/sub/etc");
       },
       "is a link to the directory " + Real("m2") + remedy},
      {"m/config.json", [&] { link("../m2/config.json", "m/config.json"); },
       file + "config.json" + remedy},
      {"m/hf_quant_config.json",
       [&] { link("../m2/hf_quant_config.json", "m/hf_quant_config.json"); },
       file + "hf_quant_config.json" + remedy},
      {"m/model-00001-of-00002.safetensors",
       [&] { link("../m2/" + shard, "m/" + shard); }, file + shard + remedy},
      {"m/model.safetensors.index.json",
       [&] { link("../m2/" + index, "m/" + index); }, file + index + remedy},
      {"m/config.json", [&] { link("gone", "m/config.json"); },
       "is a link to gone, which is not there; fetch that file again"},
      {"m/tokenizer.json", [&] { link("gone", "m/tokenizer.json"); },
       "is a link to gone, which is not there; fetch that file again"},
      {"m/config.json", [&] { link("config.json", "m/config.json"); },
       "is one of a loop of links; remove it"},
      {"m/a",
       [&] {
         link("b", "m/a");
         link("a", "m/b");
       },
       "is one of a loop of links; remove it"},
      {"m/null", [&] { link("/dev/null", "m/null"); },
       "is a link to the device /dev/null" + remedy},
      {"m/pipe", [&] { ASSERT_EQ(mkfifo(At("m/pipe").c_str(), 0600), 0); },
       "is a FIFO and no file; remove it"},
      {"m/socket",
       [&] {
         sockaddr_un address = {AF_UNIX, {}};
         At("m/socket").copy(address.sun_path, sizeof address.sun_path - 1);
         const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
         EXPECT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address),
                        sizeof address),
                   0);
         close(fd);
       },
       "is a socket and no file; remove it"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    fs::remove_all(At("m"));
    WriteLlama(At("m"));
    c.plant();
    EXPECT_THAT(Refusal(), HasSubstr(At(c.name) + " " + c.says));
  }
}

TEST_F(ModelTest, LinksWithinItAndNamesThatAreNotReadDoNoHarm) {
  namespace fs = std::filesystem;
  fs::create_directories(At("m/.git/annex"));
  WriteFile(At("m/.git/annex/1"), "text");
  fs::create_symlink(".git/annex/1", At("m/notes"));
  fs::create_symlink("/etc", At("m/.hidden"));
  fs::create_symlink("gone", At("m/pytorch_model.bin"));
  fs::create_symlink("m", At("named"));
  const auto model = Model::Open(At("named"));
  ASSERT_THAT(model, IsOk());
  EXPECT_THAT(model->others(), ElementsAre("notes", "tokenizer.json"));
  fs::create_symlink("m/model-00001-of-00002.safetensors",
                     At("one.safetensors"));
  EXPECT_THAT(Model::Open(At("one.safetensors")), IsOk());
}

// What huggingface_hub makes of a download.
class HubCache : public ModelTest {
 protected:
  void SetUp() override {
    namespace fs = std::filesystem;
    fs::create_directories(At("disk/blobs"));
    fs::create_directories(At("disk/snapshots"));
    ModelTest::SetUp();
    fs::create_directory(At("m/1_Pooling"));
    WriteFile(At("m/1_Pooling/config.json"), "{}");
    WriteLlama(At("m/part"));
    fs::rename(At("m"), At(kSnapshot));
    std::vector<fs::path> files;
    for (const auto& entry : fs::recursive_directory_iterator(At(kSnapshot))) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
    for (const fs::path& file : files) {
      const std::string blob = fmt::format("disk/blobs/{}", ++blobs_);
      fs::rename(file, At(blob));
      fs::create_symlink(fs::relative(At(blob), file.parent_path()), file);
    }
  }
  void Refuses(const std::string& what) const {
    const auto model = Model::Open(At(kSnapshot));
    EXPECT_THAT(model, StatusIs(absl::StatusCode::kInvalidArgument));
    EXPECT_THAT(std::string(model.status().message()),
                AllOf(HasSubstr(what), HasSubstr(", outside the model;")));
  }
  static constexpr char kSnapshot[] = "disk/snapshots/0123";
  int blobs_ = 0;
};

TEST_F(HubCache, ItsLinksAreFollowedByWhateverNameItHas) {
  namespace fs = std::filesystem;
  fs::create_directory_symlink("disk", At("home"));
  fs::create_directory_symlink(At(kSnapshot), At("short"));
  for (const std::string& name :
       {At(kSnapshot), At("home/snapshots/0123"), At("short"),
        At("home/blobs/../snapshots/0123/"),
        fs::relative(At("home/snapshots/0123")).string(), At("short/part")}) {
    SCOPED_TRACE(name);
    const auto model = Model::Open(name);
    ASSERT_THAT(model, IsOk());
    EXPECT_EQ(model->tensors().size(), 21u);
    EXPECT_EQ(model->model_type(), "llama");
    if (name.ends_with("part")) continue;
    EXPECT_THAT(model->others(),
                ElementsAre("1_Pooling/config.json", "part/config.json",
                            "part/tokenizer.json", "tokenizer.json"));
    const auto text =
        ReadText(model->folder().OpenFile("1_Pooling/config.json"), 9);
    ASSERT_THAT(text, IsOk());
    EXPECT_EQ(*text, "{}");
  }
}

TEST_F(HubCache, WhatLeavesItIsRefused) {
  namespace fs = std::filesystem;
  WriteFile(At("secret"), "1");
  WriteFile(At("disk/blobs2"), "1");
  const std::string link = At(std::string(kSnapshot) + "/x");
  fs::create_symlink("../../blobs2", link);
  Refuses("/x is a link to the file " + Real("disk/blobs2"));
  fs::remove(link);
  // A blob that is a link itself.
  fs::create_symlink("../../secret", At("disk/blobs/x"));
  fs::create_symlink("../../blobs/x", link);
  Refuses("/x is a link to the file " + Real("secret"));
  // All blobs elsewhere.
  fs::remove(At("disk/blobs/x"));
  fs::rename(At("disk/blobs"), At("secret2"));
  WriteFile(At("secret2/x"), "1");
  fs::create_directory_symlink("../secret2", At("disk/blobs"));
  Refuses("is a link to the file " + Real("secret2"));
}

}  // namespace
}  // namespace quantd::checkpoint
