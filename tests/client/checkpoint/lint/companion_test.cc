// Tests of lint on files beside the weights: some are no fault, others are a
// fault only by comparison with the original.
#include "client/checkpoint/lint/lint.h"
#include "tests/client/checkpoint/fault.h"
#include "tests/client/checkpoint/model_fixture.h"

namespace quantd::checkpoint {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using LintCompanionsTest = ModelFixture;

TEST_F(LintCompanionsTest, AcceptsSpecialTokensAndTextsOfAnyKind) {
  WritePlanted(At("q"), CleanOf(Base::kCompressedTensors));
  WriteFile(At("q/tokenizer.json"),
            R"({"added_tokens": [{"id": 16, "special": true}],
                "model": {"vocab": {"a": 0, "b": 15, "{": 3}, "ids": 99},
                "id": 77})");
  WriteFile(At("q/generation_config.json"), R"({"eos_token_id": null})");
  WriteFile(At("q/data_config.json"), "[]");
  ASSERT_OK_AND_ASSIGN(const auto linted, Lint(*Model::Open(At("q"))));
  EXPECT_THAT(linted.findings, IsEmpty());
  EXPECT_THAT(linted.notes, IsEmpty());
}

TEST_F(LintCompanionsTest, NotesAnAdapter) {
  WritePlanted(At("q"), CleanOf(Base::kModelOpt));
  WriteFile(At("q/adapter_config.json"), R"({"peft_type": "LORA"})");
  ASSERT_OK_AND_ASSIGN(const auto linted, Lint(*Model::Open(At("q"))));
  EXPECT_THAT(linted.findings, IsEmpty());
  EXPECT_THAT(linted.notes, ElementsAre(HasSubstr("adapter_config.json")));
}

TEST_F(LintCompanionsTest, ComparesAllFilesWithTheOriginals) {
  Planted p = CleanOf(Base::kCompressedTensors);
  const auto write = [&] {
    WritePlanted(At("q"), p);
    for (const std::string& at : {At("o/"), At("q/")}) {
      for (const char* folder : {"1_Pooling", "2_Dense"}) {
        std::filesystem::create_directories(at + folder);
      }
      WriteFile(at + "tokenizer.json", R"({"model": {}})");
      WriteFile(at + "1_Pooling/config.json", R"({"a": 1, "b": 2})");
      WriteFile(at + "2_Dense/model.safetensors", "weights");
      WriteFile(at + "code.py", "1");
      WriteFile(at + "LICENSE", at);
    }
    WriteFile(At("q/1_Pooling/config.json"), R"({"b":2,"a":1.0})");
  };
  const auto found = [&] {
    const Model original = *Model::Open(At("o"));
    const auto linted = Lint(*Model::Open(At("q")), &original);
    EXPECT_THAT(linted, IsOk());
    std::string all;
    for (const Finding& f : linted->findings) {
      EXPECT_TRUE(f.rule == "companion-file" || f.where == "config.json");
      all += f.where + " ";
    }
    for (const std::string& note : linted->notes) all += note;
    return all;
  };
  WritePlantedOriginal(At("o"), p);
  write();
  EXPECT_EQ(found(), "");
  const auto spoil = [&] {
    WriteFile(At("q/1_Pooling/config.json"), R"({"a": 1, "b": 3})");
    WriteFile(At("q/2_Dense/model.safetensors"), "WEIGHTS");
    WriteFile(At("q/code.py"), "12");
    WriteFile(At("q/more.py"), "");
    std::filesystem::remove(At("q/tokenizer.json"));
  };
  spoil();
  EXPECT_THAT(found(), HasSubstr("1_Pooling/config.json 2_Dense/model."
                                 "safetensors code.py tokenizer.json "
                                 "differences from the original that saving a "
                                 "model again may cause: more.py: the "));
  // Libraries write such files anew when they save a model again, but no
  // weights, and not without a tokenizer.
  p.config["transformers_version"] = "5.0.0";
  write();
  spoil();
  EXPECT_THAT(found(),
              HasSubstr("2_Dense/model.safetensors tokenizer.json dif"));
  EXPECT_THAT(found(), HasSubstr("1_Pooling/config.json: it is not the file of "
                                 "the original; code.py: it"));
  std::filesystem::remove(At("q/config.json"));
  EXPECT_THAT(found(), HasSubstr("config.json "));
}

}  // namespace
}  // namespace quantd::checkpoint
