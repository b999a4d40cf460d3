// Tests of lint on files beside the weights: some are no fault, others are a
// fault only by comparison with the original.
#include "client/checkpoint/lint/lint.h"
#include "tests/client/checkpoint/fault.h"

namespace quantd::checkpoint {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class LintCompanionsTest : public testing::Test {
 protected:
  std::string At(std::string_view name) const { return dir_ / name; }
  TempDir dir_;
};

TEST_F(LintCompanionsTest, AcceptsSpecialTokensAndTextsOfAnyKind) {
  WritePlanted(At("q"), CleanOf(Base::kCompressedTensors));
  WriteFile(At("q/tokenizer.json"),
            R"({"added_tokens": [{"id": 16, "special": true}],
                "model": {"vocab": {"a": 0, "b": 15, "{": 3}, "ids": 99},
                "id": 77})");
  WriteFile(At("q/generation_config.json"), R"({"eos_token_id": null})");
  WriteFile(At("q/data_config.json"), "[]");
  const auto linted = Lint(*Model::Open(At("q")));
  ASSERT_THAT(linted, IsOk());
  for (const Finding& f : linted->findings) {
    ADD_FAILURE() << f.rule << " " << f.where << ": " << f.text;
  }
  EXPECT_THAT(linted->notes, IsEmpty());
}

TEST_F(LintCompanionsTest, NotesAnAdapter) {
  WritePlanted(At("q"), CleanOf(Base::kModelOpt));
  WriteFile(At("q/adapter_config.json"), R"({"peft_type": "LORA"})");
  const auto linted = Lint(*Model::Open(At("q")));
  ASSERT_THAT(linted, IsOk());
  EXPECT_THAT(linted->findings, IsEmpty());
  EXPECT_THAT(linted->notes, ElementsAre(HasSubstr("adapter_config.json")));
}

TEST_F(LintCompanionsTest, FindsThatTheOriginalsTokenizerIsMissing) {
  const Planted p = CleanOf(Base::kCompressedTensors);
  WritePlanted(At("q"), p);
  WritePlantedOriginal(At("o"), p);
  std::filesystem::remove(At("q/tokenizer.json"));
  WriteFile(At("o/tokenizer.model"), "pieces");
  const auto original = Model::Open(At("o"));
  const auto without = Lint(*Model::Open(At("q")), &*original);
  ASSERT_THAT(without, IsOk());
  ASSERT_EQ(without->findings.size(), 1u);
  EXPECT_EQ(without->findings.front().rule, "companion-file");
  WriteFile(At("q/tokenizer.json"), "{}");
  const auto with = Lint(*Model::Open(At("q")), &*original);
  ASSERT_THAT(with, IsOk());
  EXPECT_THAT(with->findings, IsEmpty());
}

}  // namespace
}  // namespace quantd::checkpoint
