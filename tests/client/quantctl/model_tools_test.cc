// What quantctl tells of whole models and makes of them without a server.
#include "tests/client/quantctl/convert_fixture.h"

namespace quantd {
namespace {

using testing::HasSubstr;

class ModelTools : public Convert {};

TEST_F(ModelTools, ConvertAndCompareReportTheSame) {
  WriteLlama(Fresh("m"));
  const Outcome made = RunServed(
      {"convert", At("m"), Fresh("made"), "--report", Fresh("report")});
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("wrote " + At("report") + "/report.html"));
  const Outcome compared =
      Run({"compare", At("m"), At("made"), "--report", Fresh("again")});
  ASSERT_EQ(compared.code, 0) << compared.err;
  EXPECT_THAT(compared.out, HasSubstr("/report.html"));
  const Files files = FilesOf(At("report"));
  EXPECT_EQ(NamesOf(files),
            (std::vector<std::string>{"report.html", "report.json"}));
  EXPECT_TRUE(files == FilesOf(At("again")));
  const auto json = ModelJson::parse(files.at("report.json"));
  EXPECT_EQ(json["tensors"].size(), 14u);
  EXPECT_EQ(json["equal"], 7);
  EXPECT_EQ(json["groups"].size(), 4u);
  EXPECT_EQ(json["profile"], "compressed-tensors@0.20");
  // Nothing of it lies in the model.
  EXPECT_FALSE(std::filesystem::exists(At("made/report.html")));
}

TEST_F(ModelTools, AReportThatCannotBeWrittenIsFoundBeforeTheWork) {
  WriteLlama(Fresh("m"));
  WriteFile(At("file"), "x");
  const Outcome run = RunServed(
      {"convert", At("m"), Fresh("made"), "--report", At("file/report")});
  EXPECT_EQ(run.code, 7);
  EXPECT_THAT(run.err, HasSubstr("cannot create " + At("file/report")));
  EXPECT_FALSE(std::filesystem::exists(At("made")));
}

// Scales of its own for one of three that are fused.
TEST_F(ModelTools, RepairTellsTheLossAndLintIsClean) {
  WriteLlama(Fresh("m"));
  ASSERT_EQ(RunServed({"convert", At("m"), Fresh("made"), "--dialect",
                       "modelopt", "--fuse", "none,nobody"})
                .code,
            0);
  EXPECT_EQ(Run({"repair", At("made"), Fresh("mended")}).code, 0);
  EXPECT_FALSE(std::filesystem::exists(At("mended")));
  const std::string shard = At("made/model-00001-of-00002.safetensors");
  {
    const auto model = checkpoint::Model::Open(At("made"));
    ASSERT_THAT(model, IsOk());
    const auto* t =
        model->Find("model.layers.0.self_attn.k_proj.weight_scale_2");
    const float third = FloatOf(*model, t) / 3;
    std::string bytes = ReadFile(shard);
    const auto* stored = model->shards()[0].file.Find(
        "model.layers.0.self_attn.k_proj."
        "weight_scale_2");
    ASSERT_NE(stored, nullptr);
    std::memcpy(bytes.data() + 8 + *reinterpret_cast<uint64_t*>(bytes.data()) +
                    stored->offset,
                &third, sizeof(third));
    WriteFile(shard, bytes);
  }
  EXPECT_EQ(Run({"lint", At("made")}).code, 8);
  const Outcome mended = Run({"repair", At("made"), Fresh("mended")});
  EXPECT_EQ(mended.code, 0) << mended.err;
  EXPECT_THAT(mended.out, HasSubstr("fused-scales: model.layers.0.self_attn"));
  EXPECT_THAT(mended.out, HasSubstr("block scales were rounded; SQNR"));
  EXPECT_EQ(Run({"lint", At("mended")}).code, 0);
  // Neither over the model nor into it.
  EXPECT_EQ(Run({"repair", At("made"), At("made")}).code, 7);
}

}  // namespace
}  // namespace quantd
