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

}  // namespace
}  // namespace quantd
