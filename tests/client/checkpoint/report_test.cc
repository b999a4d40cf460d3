// Tests of the report about a model: its content, the size of its page, and the
// escaping of untrusted names.
#include "client/checkpoint/report/report.h"

#include "client/checkpoint/check/compare.h"
#include "client/checkpoint/names.h"
#include "tests/client/checkpoint/model_fixture.h"
#include "tests/client/checkpoint/quantized_writer.h"

namespace quantd::checkpoint {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

const char kAttention[] = "model.layers.0.self_attn.";

class ReportTest : public ModelFixture {
 protected:
  // Writes both models and returns the report on them.
  Report Made(const std::vector<WrittenTensor>& original,
              const std::vector<WrittenTensor>& quantized,
              const std::vector<std::string>& notes = {}) {
    ModelJson config = LlamaConfig();
    WriteModel(At("a"), config, {original});
    config["quantization_config"] = CompressedTensorsJson();
    WriteModel(At("b"), config, {quantized});
    const auto a = Model::Open(At("a"));
    const auto b = Model::Open(At("b"));
    EXPECT_THAT(a, IsOk());
    EXPECT_THAT(b, IsOk());
    auto difference = CompareModels(*a, *b);
    EXPECT_THAT(difference, IsOk());
    auto report = MakeReport(*a, *b, *std::move(difference), notes);
    EXPECT_THAT(report, IsOk());
    return *std::move(report);
  }
};

void Take(const MadeNvfp4& made, std::vector<WrittenTensor>* original,
          std::vector<WrittenTensor>* quantized) {
  original->push_back(made.plain);
  for (const WrittenTensor& t : made.parts) quantized->push_back(t);
}

TEST(Place, FindsLayersAndExperts) {
  const Place expert = PlaceOf("model.layers.3.mlp.experts.17.up_proj");
  EXPECT_EQ(expert.stack, "model.layers");
  EXPECT_EQ(expert.layer, 3);
  EXPECT_EQ(expert.name, "mlp.experts.*.up_proj");
  EXPECT_EQ(PlaceOf("lm_head").name, "lm_head");
  EXPECT_EQ(PlaceOf("lm_head").layer, -1);
  EXPECT_EQ(PlaceOf("blocks.7").name, "weight");
  EXPECT_EQ(PlaceOf("h.99999999999999999999.x").layer, -1);
}

TEST_F(ReportTest, ExplainsEveryDifference) {
  std::vector<WrittenTensor> original = {Bf16("model.norm.weight", {64})};
  std::vector<WrittenTensor> quantized = original;
  for (const char* leaf : {"q_proj", "k_proj", "v_proj"}) {
    Take(MakeNvfp4(std::string(kAttention) + leaf, 32, 64,
                   Nvfp4Names::kCompressedTensors),
         &original, &quantized);
  }
  // One number of q_proj is far larger in the original than in the codes.
  original[1].bytes[0] = std::byte{0x80};
  original[1].bytes[1] = std::byte{0x40};  // 4.0
  const Report r = Made(original, quantized, {"a note"});
  EXPECT_EQ(r.summary.equal, 1u);
  ASSERT_EQ(r.changed.size(), 3u);
  EXPECT_EQ(r.changed[0].difference.name, std::string(kAttention) + "q_proj");
  EXPECT_THAT(r.changed[0].why, HasSubstr("clipped: its largest value 4"));
  EXPECT_NEAR(r.changed[0].bits, 4.5, 0.05);
  EXPECT_THAT(
      r.heat_columns,
      ElementsAre("self_attn.k_proj", "self_attn.q_proj", "self_attn.v_proj"));
  ASSERT_EQ(r.heat.size(), 1u);
  EXPECT_EQ(r.heat[0].layer, "0");
  EXPECT_EQ(r.heat[0].cells[1]->sqnr_db, r.changed[0].difference.sqnr_db);
  ASSERT_EQ(r.histograms.size(), 3u);
  EXPECT_EQ(r.histograms[0].codes.total(), 32u * 64 / 16);
  EXPECT_EQ(r.histograms[0].codes.counts[0x3F], 0u);
  EXPECT_GE(r.histograms[0].codes.median(), 0x40);
  ASSERT_EQ(r.groups.size(), 1u);
  EXPECT_EQ(r.groups[0].modules.size(), 3u);
  ASSERT_TRUE(r.groups[0].global);
  EXPECT_EQ(*r.groups[0].global, 2688 / 0.5f);
  EXPECT_THAT(r.warnings, Contains("a note"));
  EXPECT_THAT(r.warnings, Contains(HasSubstr("lint: not-the-original")));
  // The codes of three matrices, their scales and global scales.
  EXPECT_EQ(r.bytes_b, 128u + 3 * (32 * 64 / 2 + 32 * 64 / 16 + 4));

  const Json json = JsonOf(r);
  EXPECT_EQ(json["tensors"].size(), 3u);
  EXPECT_EQ(json["tensors"][0]["why"], r.changed[0].why);
  EXPECT_EQ(json["scale_codes"][0]["counts"].size(), 256u);
  EXPECT_EQ(json["groups"][0]["scale"], 2688 / 0.5f);
}

// All weights are far off. Shades that were relative to the other weights would
// hide this.
TEST_F(ReportTest, ShadesAllOfAWrongModelRed) {
  std::vector<WrittenTensor> original = {Bf16("model.norm.weight", {64})};
  std::vector<WrittenTensor> quantized = original;
  for (const char* leaf : {"q_proj", "k_proj", "v_proj"}) {
    Take(MakeNvfp4(std::string(kAttention) + leaf, 32, 64,
                   Nvfp4Names::kCompressedTensors),
         &original, &quantized);
    original.back() =
        Bf16(std::string(kAttention) + leaf + ".weight", {32, 64}, 0.1f);
  }
  const Report r = Made(original, quantized);
  EXPECT_EQ(r.summary.below, 3u);
  EXPECT_THAT(r.verdict, HasSubstr("3 of the 3 tensors that differ are below "
                                   "what their formats give"));
  const std::string page = PageOf(r);
  EXPECT_THAT(page,
              HasSubstr("Farther from the original than its formats explain"));
  EXPECT_THAT(page, HasSubstr("<td class=\"q0 low\""));
  for (const char* shade : {"q1", "q2", "q3", "q4", "q5", "q6"}) {
    EXPECT_THAT(page, Not(HasSubstr(fmt::format("<td class=\"{}", shade))));
  }
  EXPECT_EQ(JsonOf(r)["below"], 3);
  EXPECT_EQ(JsonOf(r)["tensors"][0]["below"], true);
}

TEST_F(ReportTest, ShadesAreRelativeToTheFormat) {
  std::vector<WrittenTensor> original = {Bf16("model.norm.weight", {64})};
  std::vector<WrittenTensor> quantized = original;
  for (const char* leaf : {"q_proj", "k_proj", "v_proj"}) {
    Take(MakeNvfp4(std::string(kAttention) + leaf, 32, 64,
                   Nvfp4Names::kCompressedTensors),
         &original, &quantized);
  }
  // The original holds the decoded values, so the error is far below that of
  // NVFP4 for normal numbers.
  const Report r = Made(original, quantized);
  EXPECT_EQ(r.summary.below, 0u);
  EXPECT_THAT(r.verdict, HasSubstr("none of "));
  EXPECT_NEAR(r.summary.usual_db, 20.4, 0.01);
  ASSERT_EQ(r.heat.size(), 1u);
  EXPECT_NEAR(r.heat[0].cells[1]->usual_db, 20.4, 0.01);
  const std::string page = PageOf(r);
  EXPECT_THAT(page, HasSubstr("As close to the original as its formats allow"));
  EXPECT_THAT(page, HasSubstr("dB, usual: 20.4 dB"));
  EXPECT_THAT(page, HasSubstr("<td class=\"q6\""));
  EXPECT_THAT(page, Not(HasSubstr("<td class=\"q3\"")));
}

TEST_F(ReportTest, DistinguishesCauses) {
  TensorDifference d;
  d.rows = 64;
  d.cols = 64;
  d.sqnr_db = 20;
  d.cosine = 0.99;
  d.amax = d.amax_b = 5;
  d.rms = 1;
  ScaleCodes scales;
  scales.counts[0x60] = 100;
  Surroundings around;
  around.layout = FindLayout(Dialect::kModelOpt, WeightFormat::kNvfp4);
  around.scales = &scales;
  EXPECT_EQ(CauseOf(d, around),
            "as expected for nvfp4: 0.40 dB below the usual 20.4 dB");
  d.sqnr_db = 18;
  EXPECT_THAT(CauseOf(d, around), HasSubstr("with this distribution"));
  around.group_amax = 50;
  around.largest = "k_proj";
  EXPECT_THAT(CauseOf(d, around), HasSubstr("k_proj, whose largest value is "
                                            "10 times as large"));
  around.group_amax = 0;
  scales.counts[3] = 50;
  EXPECT_THAT(CauseOf(d, around), HasSubstr("33.3 % of its block scales"));
  d.rms = 0.1;
  EXPECT_THAT(CauseOf(d, around), HasSubstr("50 times the root mean square"));
  scales.counts[3] = 0;
  d.rms = 1;
  d.lost = 2048;
  EXPECT_THAT(CauseOf(d, around), HasSubstr("50 % of its values became zero"));
  d.not_finite = 2;
  EXPECT_THAT(CauseOf(d, around), HasSubstr("2 values are NaN"));
  d.not_finite = 0;
  d.sqnr_db = -3;
  d.cosine = 0.01;
  EXPECT_THAT(CauseOf(d, around), HasSubstr("another tensor"));
}

TEST_F(ReportTest, EscapesUntrustedNames) {
  const std::string evil = "model.layers.0.<script>alert(1)</script>\"x";
  std::vector<WrittenTensor> original = {Bf16("model.norm.weight", {64})};
  std::vector<WrittenTensor> quantized = original;
  Take(MakeNvfp4(evil, 32, 64, Nvfp4Names::kCompressedTensors), &original,
       &quantized);
  const std::string page = PageOf(Made(original, quantized, {"<b>note</b>"}));
  EXPECT_THAT(page, AllOf(Not(HasSubstr("<script")), Not(HasSubstr("<b>note")),
                          HasSubstr("&lt;script&gt;")));
  // The page fetches nothing.
  EXPECT_THAT(page, AllOf(HasSubstr("default-src 'none'"),
                          Not(HasSubstr("http://")), Not(HasSubstr("src=")),
                          Not(HasSubstr("https://")), Not(HasSubstr("url("))));
}

TEST_F(ReportTest, PageOfAThousandTensorsIsBelowOneMegabyte) {
  std::vector<WrittenTensor> original;
  std::vector<WrittenTensor> quantized;
  for (int layer = 0; layer < 143; ++layer) {
    for (const char* leaf : {"self_attn.q_proj", "self_attn.k_proj",
                             "self_attn.v_proj", "self_attn.o_proj",
                             "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"}) {
      Take(MakeNvfp4(fmt::format("model.layers.{}.{}", layer, leaf), 16, 32,
                     Nvfp4Names::kCompressedTensors),
           &original, &quantized);
    }
  }
  const Report r = Made(original, quantized);
  EXPECT_EQ(r.changed.size(), 1001u);
  EXPECT_EQ(r.heat.size(), 143u);
  EXPECT_EQ(r.heat_columns.size(), 7u);
  const std::string page = PageOf(r);
  EXPECT_LT(page.size(), size_t{1} << 20);
  EXPECT_THAT(page, HasSubstr("1001 of 1001"));
}

}  // namespace
}  // namespace quantd::checkpoint
