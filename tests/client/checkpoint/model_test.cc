// Tests of opening directories as models, and of the faults that prevent it.
#include "client/checkpoint/model.h"

#include "tests/client/checkpoint/model_fixture.h"
#include "tests/client/checkpoint/model_writer.h"

namespace quantd::checkpoint {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ModelTest : public ModelFixture {
 protected:
  void SetUp() override { WriteLlama(At("m")); }
  // Returns the message of Open, which must fail.
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
};

TEST_F(ModelTest, OpensShardsIndexConfigAndOtherFiles) {
  WriteFile(At("m/pytorch_model.bin"), "old");
  std::filesystem::create_directory(At("m/1_Pooling"));
  WriteFile(At("m/1_Pooling/config.json"), "{}");
  ASSERT_OK_AND_ASSIGN(const auto model, Model::Open(At("m")));
  EXPECT_EQ(model.shards().size(), 2u);
  EXPECT_EQ(model.tensors().size(), 21u);
  EXPECT_EQ(model.model_type(), "llama");
  EXPECT_THAT(model.others(),
              ElementsAre("1_Pooling/config.json", "tokenizer.json"));
  const ModelTensor* v = model.Find("model.layers.1.self_attn.v_proj.weight");
  ASSERT_NE(v, nullptr);
  EXPECT_EQ(v->shard, 1u);
  std::vector<std::byte> bytes(v->stored.size);
  ASSERT_THAT(model.Read(*v, 0, absl::MakeSpan(bytes)), IsOk());
  EXPECT_EQ(bytes, Bf16(v->name(), {64, 128}, 0.01f).bytes);
}

TEST_F(ModelTest, OpensASingleFile) {
  WriteSafetensors(At("one.safetensors"), {Bf16("a.weight", {16, 16})});
  ASSERT_OK_AND_ASSIGN(const auto file, Model::Open(At("one.safetensors")));
  EXPECT_TRUE(file.single_file());
  EXPECT_EQ(file.tensors().size(), 1u);
  EXPECT_THAT(Model::Open(At("m/tokenizer.json")),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Model::Open(At("nothing")),
              StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(ModelTest, NamesMissingShards) {
  std::filesystem::remove(At("m/model-00002-of-00002.safetensors"));
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("1 of the 2 shards"),
                               HasSubstr("model-00002-of-00002.safetensors")));
}

TEST_F(ModelTest, RefusesShardNamesThatArePaths) {
  for (const char* name : {"../other.safetensors", "/etc/x.safetensors",
                           "a/b.safetensors", "..", "", "notes.txt"}) {
    ModelJson index = Index();
    index["weight_map"]["lm_head.weight"] = name;
    SetIndex(index);
    EXPECT_THAT(Refusal(), HasSubstr("is not the name of a .safetensors file"))
        << name;
  }
}

TEST_F(ModelTest, RefusesAWrongIndex) {
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
  EXPECT_THAT(Refusal(), HasSubstr("expected a JSON object"));
  WriteFile(At("m/model.safetensors.index.json"), "{}");
  EXPECT_THAT(Refusal(), HasSubstr("no weight_map"));
  WriteFile(At("m/model.safetensors.index.json"), "{\"weight_map\": {");
  EXPECT_THAT(Refusal(), HasSubstr("invalid JSON at byte"));
}

TEST_F(ModelTest, RefusesATensorInTwoShardsUnlessTheIndexNamesOne) {
  auto shards = LlamaShards();
  const WrittenTensor stale =
      Bf16("model.embed_tokens.weight", {96, 128}, 0.5f);
  shards[1].push_back(stale);
  WriteModel(At("m"), LlamaConfig(), shards);
  const auto is_stale = [&] {
    const auto model = Model::Open(At("m"));
    EXPECT_THAT(model, IsOk());
    const ModelTensor& t = *model->Find(stale.name);
    std::vector<std::byte> bytes(t.stored.size);
    EXPECT_THAT(model->Read(t, 0, absl::MakeSpan(bytes)), IsOk());
    EXPECT_EQ(std::count_if(model->tensors().begin(), model->tensors().end(),
                            [&](const ModelTensor& other) {
                              return other.name() == stale.name;
                            }),
              1);
    EXPECT_THAT(model->notes(),
                ElementsAre(HasSubstr("names another copy or form")));
    EXPECT_EQ(model->unlisted(), 0u);
    return bytes == stale.bytes;
  };
  for (const int counts : {1, 2}) {
    ModelJson index = Index();
    index["weight_map"][stale.name] =
        fmt::format("model-{:05}-of-00002.safetensors", counts);
    SetIndex(index);
    EXPECT_EQ(is_stale(), counts == 2);
  }
  ModelJson index = Index();
  index["weight_map"].erase(stale.name);
  SetIndex(index);
  EXPECT_THAT(Refusal(), HasSubstr("\"model.embed_tokens.weight\" is in both "
                                   "model-00001-of-00002.safetensors and "
                                   "model-00002-of-00002.safetensors"));
}

TEST_F(ModelTest, IndexChoosesBetweenTwoFormsOfAWeight) {
  const std::string up = "model.layers.0.mlp.up_proj";
  const std::vector<WrittenTensor> packed = {
      {up + ".weight_packed", "U8", {4, 8}, std::vector<std::byte>(32)},
      {up + ".weight_scale", "F8_E4M3", {4, 1}, std::vector<std::byte>(4)}};
  auto shards = LlamaShards();
  shards[0].insert(shards[0].end(), packed.begin(), packed.end());
  WriteModel(At("m"), LlamaConfig(), shards);
  const ModelJson whole = Index();
  const auto has = [&](const std::vector<std::string>& unlisted) {
    ModelJson index = whole;
    for (const std::string& suffix : unlisted) {
      index["weight_map"].erase(up + suffix);
    }
    SetIndex(index);
    const auto model = Model::Open(At("m"));
    EXPECT_THAT(model, IsOk());
    std::string found;
    for (const char* suffix : {".weight", ".weight_packed", ".weight_scale"}) {
      if (model->Find(up + suffix) != nullptr) found += suffix;
    }
    return found;
  };
  EXPECT_EQ(has({".weight_packed", ".weight_scale"}), ".weight");
  EXPECT_EQ(has({".weight"}), ".weight_packed.weight_scale");
  // Without an entry in the index, tensors that do not contradict each other
  // are kept.
  EXPECT_EQ(has({".weight", ".weight_packed", ".weight_scale"}),
            ".weight.weight_packed.weight_scale");
  EXPECT_EQ(has({".weight_scale"}), ".weight.weight_packed.weight_scale");
}

TEST_F(ModelTest, RefusesTheSameFileTwice) {
  std::filesystem::remove(At("m/model-00002-of-00002.safetensors"));
  std::filesystem::create_symlink(At("m/model-00001-of-00002.safetensors"),
                                  At("m/model-00002-of-00002.safetensors"));
  EXPECT_THAT(Refusal(), HasSubstr("the same file as"));
}

TEST_F(ModelTest, NamesTruncatedAndOverlongShards) {
  const std::string shard = At("m/model-00002-of-00002.safetensors");
  const auto size = std::filesystem::file_size(shard);
  std::filesystem::resize_file(shard, size - 1);
  EXPECT_THAT(Refusal(), AllOf(HasSubstr(shard), HasSubstr("truncated")));
  std::filesystem::resize_file(shard, size + 7);
  EXPECT_THAT(Refusal(), AllOf(HasSubstr(shard), HasSubstr("bytes follow")));
  std::filesystem::resize_file(shard, size);
  ASSERT_OK_AND_ASSIGN(const auto model, Model::Open(At("m")));
  const ModelTensor& last = model.tensors().back();
  std::vector<std::byte> bytes(last.stored.size);
  std::filesystem::resize_file(shard, size / 2);
  EXPECT_THAT(model.Read(last, 0, absl::MakeSpan(bytes)),
              StatusIs(absl::StatusCode::kDataLoss));
}

TEST_F(ModelTest, RefusesAConfigThatIsNotJson) {
  WriteFile(At("m/config.json"), "model_type: llama");
  EXPECT_THAT(Refusal(),
              AllOf(HasSubstr("config.json"), HasSubstr("invalid JSON")));
  WriteFile(At("m/config.json"), "\"llama\"");
  EXPECT_THAT(Refusal(), HasSubstr("got string"));
  WriteFile(At("m/config.json"), std::string(kMaxConfigBytes + 1, ' '));
  EXPECT_THAT(Refusal(), HasSubstr("more than the limit"));
}

// Copying or writing such a deep tree would overflow the stack.
TEST_F(ModelTest, RefusesADeeplyNestedConfig) {
  const auto nested = [](size_t depth) {
    return "{\"x\": " + std::string(depth, '[') + std::string(depth, ']') + "}";
  };
  WriteFile(At("m/config.json"), nested(2'000'000));
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("config.json"),
                               HasSubstr("more than 200 levels of nesting")));
  // Brackets inside strings do not count.
  WriteFile(At("m/config.json"),
            "{\"x\": \"\\\"" + std::string(300, '[') + "\"}");
  EXPECT_THAT(Model::Open(At("m")), IsOk());
  WriteFile(At("m/config.json"), nested(199));
  EXPECT_THAT(Model::Open(At("m")), IsOk());
}

TEST_F(ModelTest, RequiresAnIndexForSeveralFiles) {
  std::filesystem::remove(At("m/model.safetensors.index.json"));
  EXPECT_THAT(Refusal(), HasSubstr("2 .safetensors files, but no index"));
  std::filesystem::remove(At("m/model-00001-of-00002.safetensors"));
  EXPECT_THAT(Refusal(), HasSubstr("model-00002-of-00002.safetensors is 1 of 2 "
                                   "shards, but the other shards and the index "
                                   "are missing"));
  EXPECT_THAT(Model::Open(At("m/model-00002-of-00002.safetensors")), IsOk());
  std::filesystem::remove(At("m/model-00002-of-00002.safetensors"));
  EXPECT_THAT(Refusal(), HasSubstr("holds no .safetensors file"));
  WriteFile(At("m/pytorch_model.bin"), "old");
  EXPECT_THAT(Refusal(), HasSubstr("save the model as safetensors first"));
}

TEST_F(ModelTest, OpensSomeOfTheShards) {
  const std::string shards[] = {"model-00001-of-00002.safetensors",
                                "model-00002-of-00002.safetensors"};
  const size_t all = Model::Open(At("m"))->tensors().size();
  size_t some = 0;
  for (const std::string& shard : shards) {
    ASSERT_OK_AND_ASSIGN(const auto model,
                         Model::Open(At("m"), {shard, shard}));
    ASSERT_EQ(model.shards().size(), 1u);
    EXPECT_EQ(model.shards()[0].name, shard);
    EXPECT_THAT(model.notes(),
                ElementsAre(HasSubstr("1 of 2 shards are left out")));
    EXPECT_EQ(model.others().size(), shard == shards[0] ? 1u : 0u);
    EXPECT_EQ(model.unlisted(), 0u);
    some += model.tensors().size();
  }
  EXPECT_EQ(some, all);
  EXPECT_EQ(Model::Open(At("m"), {shards[0], shards[1]})->left(), 0u);
  EXPECT_THAT(
      Model::Open(At("m"), {"tokenizer.json"}),
      Refused(HasSubstr(
          ": tokenizer.json is not a shard of this model; its shards are " +
          shards[0] + ", " + shards[1])));
  std::filesystem::remove(At("m/" + shards[0]));
  EXPECT_THAT(Model::Open(At("m"), {shards[1]}), IsOk());
  EXPECT_THAT(Model::Open(At("m"), {shards[0]}),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Model::Open(At("m/" + shards[1]), {shards[0]}),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace quantd::checkpoint
