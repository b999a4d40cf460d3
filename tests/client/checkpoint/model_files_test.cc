// Tests of files that accompany a model or are left out, and of the messages
// about them and about directories that are not models.

#include <functional>

#include "client/checkpoint/convert/output_directory.h"
#include "client/checkpoint/model.h"
#include "fmt/ranges.h"
#include "tests/client/checkpoint/model_fixture.h"
#include "tests/client/checkpoint/model_writer.h"

namespace quantd::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class ModelFilesTest : public ModelFixture {
 protected:
  void SetUp() override { WriteLlama(At("m")); }
  void Put(const std::string& name, const std::string& text = "x") const {
    const std::string path = At("m/" + name);
    fs::create_directories(fs::path(path).parent_path());
    WriteFile(path, text);
  }
  std::string Refusal() const {
    const auto model = Model::Open(At("m"));
    EXPECT_THAT(model, StatusIs(absl::StatusCode::kInvalidArgument));
    return std::string(model.status().message());
  }
};

TEST_F(ModelFilesTest, CopiesOrNamesEveryFile) {
  const char* carried[] = {"1_Pooling/config.json",
                           "2_Dense/model.safetensors",
                           "2_Dense/model.safetensors.index.json",
                           "3_Dense/pytorch_model.bin",
                           "a/b/c/d/figure.png",
                           "a/hf_quant_config.json",
                           "adapter_model.bin",
                           "original/params.json",
                           "spk_dict.pt",
                           "tokenizer.json",
                           "voices/af.pt"};
  for (const std::string name : carried) Put(name);
  struct Kind {
    std::string note;
    std::vector<std::string> names;
  };
  const Kind kinds[] = {
      {"left out, the same weights in another form: ",
       {"2_Dense/pytorch_model.bin", "model.safetensors.index.fp16.json",
        "onnx/model.onnx", "onnx/model.onnx_data", "original/a.00.pth",
        "original/b.safetensors", "pytorch_model.bin",
        "pytorch_model.bin.index.json", "tf_model.h5", "x.gguf"}},
      {"left out, state of training: ",
       {"global_step9/zero_pp_rank_0_optim_states.pt", "optimizer.pt",
        "training_args.bin"}},
      {"left out, drafts of an unfinished conversion: ", {"y.partial"}},
      {"left out, not in model.safetensors.index.json: ",
       {"consolidated.safetensors", "other.safetensors"}},
      {"left out, because model.safetensors.index.json is used: ",
       {"consolidated.safetensors.index.json"}}};
  std::vector<std::string> notes = {
      "left out, hidden: .git/, .gitattributes, a/.DS_Store (2 files, 2 "
      "bytes)",
      "copied as they are, unquantized: 2_Dense/model.safetensors, "
      "3_Dense/pytorch_model.bin, adapter_model.bin, spk_dict.pt, "
      "voices/af.pt (5 files, 5 bytes)"};
  for (const std::string name : {".git/x", ".gitattributes", "a/.DS_Store"}) {
    Put(name);
  }
  for (const Kind& kind : kinds) {
    for (const std::string& name : kind.names) Put(name);
    const size_t n = kind.names.size();
    notes.push_back(fmt::format("{}{} ({} file{}, {} byte{})", kind.note,
                                fmt::join(kind.names, ", "), n,
                                n == 1 ? "" : "s", n, n == 1 ? "" : "s"));
  }
  ASSERT_OK_AND_ASSIGN(const auto model, Model::Open(At("m")));
  EXPECT_THAT(model.others(), testing::ElementsAreArray(carried));
  EXPECT_THAT(model.notes(), testing::UnorderedElementsAreArray(notes));
}

TEST_F(ModelFilesTest, CopiesFilesWithOddNamesAndEscapesTheNames) {
  Put("a\nb\x1B[2J.pt");
  Put("bad\xFF/c.pt");
  const auto model = Model::Open(At("m"));
  ASSERT_THAT(model, IsOk());
  EXPECT_THAT(model->others(),
              ElementsAre("a\nb\x1B[2J.pt", "bad\xFF/c.pt", "tokenizer.json"));
  EXPECT_THAT(model->notes(),
              ElementsAre("copied as they are, unquantized: "
                          "a\\nb\\u001b[2J.pt, bad\\ufffd/c.pt (2 files, 2 "
                          "bytes)"));
  fs::create_symlink("gone\n", At("m/x\ny"));
  EXPECT_THAT(Refusal(), HasSubstr("m/x\\ny is a link to gone\\n, which"));
  fs::remove(At("m/x\ny"));
  Put("model\n.safetensors");
  EXPECT_THAT(Refusal(), HasSubstr("m/model\\n.safetensors: the name has "
                                   "control characters or is not UTF-8"));
}

TEST_F(ModelFilesTest, SuggestsARemedyForDirectoriesThatAreNotModels) {
  const auto none = [&] {
    fs::remove_all(At("m"));
    fs::create_directory(At("m"));
  };
  const auto folder = [&](const std::string& name) {
    fs::remove(At("m/" + name));
    fs::create_directory(At("m/" + name));
  };
  struct Case {
    std::function<void()> plant;
    std::string says;
  };
  const std::string pointer =
      "version https://git-lfs.github.com/spec/v1\noid sha256:a\n";
  const std::string call =
      "AutoModelForCausalLM.from_pretrained(\"" + At("m") + "\"";
  std::string deep;
  for (int i = 0; i < 17; ++i) deep += "d/";
  const Case cases[] = {
      {none, "m: holds no file"},
      {[&] { none(), Put("x.txt"); }, "m: holds no .safetensors file"},
      {[&] { none(), Put("x.bin"); },
       "holds x.bin but no .safetensors file; save the model as safetensors "
       "first, in Python with transformers: " +
           call + ").save_pretrained(\"NEW\")"},
      {[&] { none(), Put("x.gguf"); }, call + ", gguf_file=\"x.gguf\")"},
      {[&] {
         none(), Put("vae/a.safetensors"), Put("unet/a.safetensors");
         Put("model_index.json");
       },
       "a pipeline of several models (model_index.json); name one of its "
       "folders: " +
           At("m/unet") + ", " + At("m/vae")},
      {[&] { Put("model_index.json"), Put("transformer/a.safetensors"); },
       "a pipeline of several models (model_index.json); name one of its "
       "folders: " +
           At("m/transformer")},
      {[&] { none(), Put("x/a.safetensors"); },
       "its folders do; name one: " + At("m/x")},
      {[&] { folder("config.json"); },
       "m/config.json is a directory instead of a file; remove it"},
      {[&] { folder("model.safetensors.index.json"); },
       "m/model.safetensors.index.json is a directory instead of a file; "
       "remove it"},
      {[&] { folder("model-00002-of-00002.safetensors"); },
       "is a directory instead of a file"},
      {[&] { Put("tokenizer.json", pointer); },
       "m/tokenizer.json: a Git LFS pointer instead of the file"},
      {[&] { Put("2_Dense/model.safetensors", pointer); },
       "m/2_Dense/model.safetensors: a Git LFS pointer"},
      {[&] { Put("config.json", pointer); },
       "m/config.json: a Git LFS pointer"},
      {[&] {
         fs::rename(At("m/model.safetensors.index.json"),
                    At("m/a.safetensors.index.json"));
         Put("b.safetensors.index.json");
       },
       "2 indexes (a.safetensors.index.json, b.safetensors.index.json): keep "
       "only the one that lists the shards"},
      {[&] { Put(deep + "x"); },
       "m/" + deep + " is a folder nested in more than 16 others"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.says);
    fs::remove_all(At("m"));
    WriteLlama(At("m"));
    c.plant();
    EXPECT_THAT(Refusal(), HasSubstr(c.says));
  }
  Put("x.gguf", "GGUF\3");
  EXPECT_THAT(Model::Open(At("m/x.gguf")),
              Refused(AllOf(HasSubstr("named *.safetensors, but a GGUF file"),
                            HasSubstr("gguf_file=NAME"))));
}

TEST_F(ModelFilesTest, RefusesTooManyFiles) {
  fs::create_directory(At("m/a"));
  Put("a/0");
  for (int i = 1; i <= 1 << 16; ++i) {
    fs::create_hard_link(At("m/a/0"), At(fmt::format("m/a/{}", i)));
    // File systems limit the number of hard links to a file.
    if (i % 30000 == 0) fs::remove(At("m/a/0")), Put("a/0");
  }
  EXPECT_THAT(Refusal(), HasSubstr("m is a folder of more than 65536 files"));
}

TEST_F(ModelFilesTest, RefusesAnOutputThatContainsTheModel) {
  fs::create_directories(At("out/sub"));
  fs::rename(At("m"), At("out/sub/m"));
  fs::create_directory_symlink(At("out/sub/m"), At("m"));
  ASSERT_OK_AND_ASSIGN(const auto model, Model::Open(At("m")));
  EXPECT_THAT(
      CheckOutput(model, At("out")),
      Refused(HasSubstr("the input directory " + At("m") + " is inside it")));
  EXPECT_THAT(CheckOutput(model, At("out/sub/m/new")),
              Refused(HasSubstr("it is the input directory")));
  EXPECT_THAT(CheckOutput(model, At("out/new")), IsOk());
}

}  // namespace
}  // namespace quantd::checkpoint
