// Tests of quantctl's commands on whole models: compare, lint, repair, inspect
// and options of convert.
#include <set>

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
  ASSERT_THAT(Run({"compare", At("m"), At("made"), "--report", Fresh("again")}),
              Prints(0, HasSubstr("/report.html")));
  const Files files = FilesOf(At("report"));
  EXPECT_EQ(NamesOf(files),
            (std::vector<std::string>{"report.html", "report.json"}));
  EXPECT_TRUE(files == FilesOf(At("again")));
  const auto json = ModelJson::parse(files.at("report.json"));
  EXPECT_EQ(json["tensors"].size(), 14u);
  EXPECT_EQ(json["equal"], 7);
  EXPECT_EQ(json["groups"].size(), 4u);
  EXPECT_EQ(json["profile"], "compressed-tensors@0.20");
  EXPECT_THAT(Run({"inspect", At("made")}).out,
              HasSubstr("profile: compressed-tensors@0.20"));
  // The model's directory contains no file of the report.
  EXPECT_FALSE(std::filesystem::exists(At("made/report.html")));
}

TEST_F(ModelTools, ChecksTheReportDirectoryFirst) {
  WriteLlama(Fresh("m"));
  WriteFile(At("file"), "x");
  EXPECT_THAT(RunServed({"convert", At("m"), Fresh("made"), "--report",
                         At("file/report")}),
              Errs(7, HasSubstr("cannot create " + At("file/report"))));
  EXPECT_FALSE(std::filesystem::exists(At("made")));
}

// One of three fused weights has another global scale.
TEST_F(ModelTools, RepairReportsTheLossAndLintIsClean) {
  WriteLlama(Fresh("m"));
  MustConvert("m", "made", {"--dialect", "modelopt", "--fuse", "none,nobody"});
  EXPECT_THAT(Run({"repair", At("made"), Fresh("mended")}),
              Prints(0, HasSubstr("no faults to repair; " + At("mended") +
                                  " is not written")));
  EXPECT_FALSE(std::filesystem::exists(At("mended")));
  const std::string shard = At("made/model-00001-of-00002.safetensors");
  {
    ASSERT_OK_AND_ASSIGN(const auto model, checkpoint::Model::Open(At("made")));
    const auto* t =
        model.Find("model.layers.0.self_attn.k_proj.weight_scale_2");
    const float third = FloatOf(model, t) / 3;
    std::string bytes = ReadFile(shard);
    const auto* stored = model.shards()[0].file.Find(
        "model.layers.0.self_attn.k_proj."
        "weight_scale_2");
    ASSERT_NE(stored, nullptr);
    std::memcpy(bytes.data() + 8 + *reinterpret_cast<uint64_t*>(bytes.data()) +
                    stored->offset,
                &third, sizeof(third));
    WriteFile(shard, bytes);
  }
  EXPECT_THAT(
      Run({"lint", At("made")}),
      Prints(8, HasSubstr("next: fused-scales: add --original MODEL, if you "
                          "have it, and repair finds more: quantctl repair " +
                          At("made") + " " + At("made-repaired") + "\n")));
  const Outcome mended = Run({"repair", At("made"), Fresh("mended")});
  EXPECT_EQ(mended.code, 0) << mended.err;
  EXPECT_THAT(mended.out, HasSubstr("fused-scales: model.layers.0.self_attn"));
  EXPECT_THAT(mended.out, HasSubstr("block scales were rounded; SQNR"));
  EXPECT_EQ(Run({"lint", At("mended")}).code, 0);
  // The output may be neither the model's directory nor inside it.
  EXPECT_EQ(Run({"repair", At("made"), At("made")}).code, 7);
}

TEST_F(ModelTools, LintReportsWhatItComparedOrCannotOpen) {
  WriteLlama(Fresh("m"));
  MustConvert("m", "made");
  const Outcome clean = Run({"lint", At("made"), "--original", At("m")});
  EXPECT_EQ(clean.code, 0) << clean.out;
  EXPECT_THAT(
      clean.out,
      HasSubstr("no faults found in 14 quantized weights, 14 of them and "
                "7 other tensors compared with the original"));
  const Outcome told =
      Run({"lint", At("made"), "--original", At("m"), "--json"});
  const auto json = ModelJson::parse(told.out);
  EXPECT_EQ(json["weights"], 14);
  EXPECT_EQ(json["compared"]["weights"], 14);
  EXPECT_EQ(json["compared"]["others"], 7);
  EXPECT_EQ(json["rows_looked_at"], 1.0);
  // Another model as original has no weight to compare, which is a finding.
  WriteModel(Fresh("other"), LlamaConfig(),
             {{Bf16("transformer.x.weight", {64, 64})}});
  EXPECT_THAT(
      Run({"lint", At("made"), "--original", At("other")}),
      Prints(8, testing::AllOf(
                    HasSubstr("no-counterpart: model.layers.0"),
                    HasSubstr("0 of them and 0 other tensors compared"),
                    HasSubstr("next: no-counterpart: download the files "
                              "again"))));
  // A damaged file is a finding; a missing model is an error.
  WriteFile(At("made/config.json"), "[]");
  EXPECT_THAT(
      Run({"lint", At("made")}),
      Prints(8, testing::AllOf(
                    HasSubstr("unreadable: "),
                    HasSubstr("expected a JSON object, got array"),
                    HasSubstr("next: unreadable: download the files again"))));
  EXPECT_EQ(Run({"lint", At("nowhere")}).code, 3);
}

// ModelOpt has no weight-only FP8, so no quant_algo would be right.
TEST_F(ModelTools, RepairWritesNothingIfNothingCanBeRepaired) {
  WriteLlama(Fresh("m"));
  const auto convert = [&](double largest_input) {
    ModelJson amax;
    for (const auto& shard : LlamaShards()) {
      for (const WrittenTensor& t : shard) {
        if (!t.name.ends_with("_proj.weight")) continue;
        amax[t.name.substr(0, t.name.rfind('.'))] = largest_input;
      }
    }
    WriteFile(At("amax.json"), amax.dump());
    return RunServed({"convert", At("m"), Fresh("made"), "--dialect",
                      "modelopt", "--format", "fp8", "--input-amax",
                      At("amax.json")})
        .code;
  };
  // Neither these input scales nor their reciprocals are plausible.
  ASSERT_EQ(convert(4e12), 0);
  EXPECT_THAT(
      Run({"lint", At("made"), "--original", At("m")}).out,
      HasSubstr("quantctl convert " + At("m") + " " + At("made-converted") +
                " --dialect modelopt --format fp8 --input-amax FILE"));
  ASSERT_EQ(convert(4), 0);
  {
    const auto model = checkpoint::Model::Open(At("made"));
    ASSERT_THAT(model, IsOk());
    std::vector<WrittenTensor> tensors;
    for (const auto& t : model->tensors()) {
      if (t.name().ends_with(".input_scale")) continue;
      std::vector<std::byte> bytes(t.stored.size);
      ASSERT_THAT(model->Read(t, 0, absl::MakeSpan(bytes)), IsOk());
      tensors.push_back({t.name(), t.stored.dtype, t.stored.shape, bytes});
    }
    for (const auto& shard : model->shards()) {
      std::filesystem::remove(At("made/" + shard.name));
    }
    std::filesystem::remove(At("made/model.safetensors.index.json"));
    WriteSafetensors(At("made/model.safetensors"), tensors, {{"format", "pt"}});
  }
  EXPECT_THAT(Run({"repair", At("made"), Fresh("mended")}),
              Prints(8, testing::AllOf(
                            HasSubstr("none of the faults can be repaired; " +
                                      At("mended") + " is not written"),
                            HasSubstr("left: no-input-scale"))));
  EXPECT_FALSE(std::filesystem::exists(At("mended")));
}

TEST_F(ModelTools, AutoChoosesTheSmallestFormatsThatMeetTheTarget) {
  WriteLlama(Fresh("m"));
  std::filesystem::remove(At("made.rules"));
  const Outcome run =
      RunServed({"convert", At("m"), Fresh("made"), "--format", "auto",
                 "--target", "20.45dB", "--json", "--report", Fresh("report")});
  ASSERT_EQ(run.code, 0) << run.err;
  const auto advice = ModelJson::parse(run.out.substr(0, run.out.find('\n')));
  ASSERT_EQ(advice["event"], "advice");
  EXPECT_EQ(advice["groups"].size(), 8u);
  // The report of the written model confirms the predicted SQNRs.
  const auto report = ModelJson::parse(ReadFile(At("report/report.json")));
  std::set<std::string> formats;
  for (const auto& g : advice["groups"]) {
    const std::string chosen = g["chosen"];
    formats.insert(chosen);
    for (const auto& [format, c] : g["candidates"].items()) {
      if (format == chosen) {
        EXPECT_TRUE(c["sqnr_db"].is_null() || c["sqnr_db"] >= 20.45);
      } else if (c["bytes"] < g["candidates"][chosen]["bytes"]) {
        EXPECT_LT(c["sqnr_db"], 20.45) << g.dump();
      }
    }
    if (g["modules"].size() > 1) continue;
    for (const auto& t : report["tensors"]) {
      if (t["name"] != g["modules"][0]) continue;
      EXPECT_NEAR(t["sqnr_db"].get<double>(),
                  g["candidates"][chosen]["sqnr_db"].get<double>(), 0.02)
          << t.dump();
    }
  }
  EXPECT_GT(formats.size(), 1u);
  EXPECT_EQ(Run({"lint", At("made")}).code, 0);
  // Weights quantized with 4over6 are also verified with 4over6.
  const Outcome verified =
      RunServed({"verify", At("made"), "--original", At("m")});
  EXPECT_EQ(verified.code, 0) << verified.out;
  // The rules reproduce the model.
  MustConvert("m", "again", {"--rules", At("made.rules")});
  EXPECT_TRUE(FilesOf(At("made")) == FilesOf(At("again")));
}

// Engines refuse fp8 experts without input scales, so fp8 is not a candidate.
TEST_F(ModelTools, AutoNamesFormatsThatAreNotCandidates) {
  const std::string e = "model.layers.0.mlp.experts.0.";
  WriteModel(Fresh("m"), LlamaConfig(),
             {{Bf16(e + "gate_proj.weight", {64, 128}),
               Bf16(e + "up_proj.weight", {64, 128})}});
  const Outcome run =
      RunServed({"convert", At("m"), Fresh("made"), "--format", "auto",
                 "--target", "10dB", "--report", Fresh("report")});
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("note: fp8 is not a candidate: " + e));
  EXPECT_THAT(ReadFile(At("report/report.json")),
              HasSubstr("fp8 is not a candidate"));
  WriteLlama(Fresh("m"));
  EXPECT_THAT(RunServed({"convert", At("m"), Fresh("made"), "--format", "auto",
                         "--target", "10dB", "--dry-run"})
                  .out,
              testing::Not(HasSubstr("not a candidate")));
}

TEST_F(ModelTools, AutoFitsIntoASize) {
  WriteLlama(Fresh("m"));
  const auto size_of = [](const std::string& text) {
    return ModelJson::parse(text.substr(0, text.find('\n')))["bytes_out"]
        .get<uint64_t>();
  };
  // If the plain model already has at most this size, nothing is written.
  Fresh("made.rules");
  EXPECT_THAT(RunServed({"convert", At("m"), Fresh("made"), "--format", "auto",
                         "--target", "1GiB"}),
              Prints(0, HasSubstr("already fits")));
  EXPECT_FALSE(std::filesystem::exists(At("made")));
  EXPECT_FALSE(std::filesystem::exists(At("made.rules")));
  uint64_t last = 0;
  for (const char* most : {"230kB", "300kB", "400kB"}) {
    const Outcome run =
        RunServed({"convert", At("m"), Fresh("made"), "--format", "auto",
                   "--target", most, "--dry-run", "--json"});
    ASSERT_EQ(run.code, 0) << run.err;
    const uint64_t bytes = size_of(run.out);
    EXPECT_LE(bytes, std::stoull(most) * 1024);
    EXPECT_GT(bytes, last);
    last = bytes;
    EXPECT_FALSE(std::filesystem::exists(At("made")));
  }
  EXPECT_THAT(RunServed({"convert", At("m"), Fresh("made"), "--format", "auto",
                         "--target", "10kB"}),
              Errs(3, HasSubstr("the smallest possible model has")));
  EXPECT_EQ(Run({"convert", At("m"), At("made"), "--format", "auto"}).code, 2);
  EXPECT_EQ(Run({"convert", At("m"), At("made"), "--target", "3dB"}).code, 2);
  EXPECT_EQ(RunServed({"convert", At("m"), At("made"), "--format", "auto",
                       "--target", "many"})
                .code,
            2);
}

TEST_F(ModelTools, DialectAloneSelectsItsFormat) {
  WriteLlama(Fresh("m"));
  for (const auto& [dialect, format] :
       {std::pair("deepseek", "fp8_block"), std::pair("modelopt", "nvfp4"),
        std::pair("none", "bf16")}) {
    const std::string from =
        At(std::string_view(dialect) == "none" ? "c" : "m");
    ASSERT_THAT(Run({"convert", from, Fresh("made"), "--dialect", dialect,
                     "--server", "local:cpu"}),
                Prints(0, HasSubstr(std::string(" to ") + format)))
        << dialect;
    Fresh("c");
    std::filesystem::rename(At("made"), At("c"));
  }
  const Outcome wrong = Run({"convert", At("m"), Fresh("made"), "--dialect",
                             "deepseek", "--format", "nvfp4"});
  EXPECT_EQ(wrong.code, 2) << "the option is wrong, not the model";
}

TEST_F(ModelTools, CommandsAcceptBothNamesOfFormats) {
  WriteLlama(Fresh("m"));
  for (const auto& row : checkpoint::AllLayouts()) {
    if (checkpoint::StoredAs(row.format) != row.format) continue;
    const std::string own(FindFormat(row.codes)->name);
    EXPECT_EQ(checkpoint::ParseWeightFormat(own), row.format) << own;
    const auto plan = [](const std::string& name) {
      return Run({"plan", "--shape", "128,256", "--format", name}).out;
    };
    EXPECT_THAT(plan(own), HasSubstr(" to " + own));
    EXPECT_EQ(plan(std::string(Name(row.format))), plan(own));
  }
  const auto plan = [&](const char* format, const char* rule) {
    return Run({"convert", At("m"), At("x"), "--dry-run", "--format", format,
                "--rule", std::string("*.down_proj=") + rule})
        .out;
  };
  EXPECT_THAT(plan("mxfp8", "fp8_dynamic"), HasSubstr("to mxfp8"));
  EXPECT_EQ(plan("mxfp8_e4m3", "fp8_channel_e4m3"),
            plan("mxfp8", "fp8_dynamic"));
}

TEST_F(ModelTools, ForceReplacesAModelAndNothingElse) {
  WriteLlama(Fresh("m"));
  const auto convert = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"convert", At("m"), At("made")});
    return RunServed(std::move(more));
  };
  Fresh("made");
  ASSERT_EQ(convert({}).code, 0);
  const Files before = FilesOf(At("made"));
  EXPECT_THAT(convert({"--format", "mxfp8"}),
              Errs(7, HasSubstr("or replace it with --force")));
  // An impossible conversion replaces nothing.
  EXPECT_EQ(convert({"--force", "--rule", "*=fp3"}).code, 2);
  EXPECT_EQ(convert({"--force", "--dry-run"}).code, 0);
  EXPECT_TRUE(before == FilesOf(At("made")));
  WriteFile(At("made/stray"), "x");
  EXPECT_EQ(convert({"--force", "--format", "mxfp8"}).code, 0);
  EXPECT_FALSE(std::filesystem::exists(At("made/stray")));
  EXPECT_FALSE(before == FilesOf(At("made")));
  // A directory that is not a model is kept, and so is the source.
  std::filesystem::create_directories(Fresh("photos"));
  WriteFile(At("photos/one.jpg"), "x");
  EXPECT_EQ(Run({"convert", At("m"), At("photos"), "--force"}).code, 7);
  EXPECT_TRUE(std::filesystem::exists(At("photos/one.jpg")));
  const Files model = FilesOf(At("m"));
  EXPECT_EQ(Run({"convert", At("m"), At("m"), "--force"}).code, 7);
  EXPECT_TRUE(model == FilesOf(At("m")));
}

TEST_F(ModelTools, SuggestsToDownloadAModelOfTheHub) {
  for (const char* command : {"inspect", "lint"}) {
    EXPECT_THAT(Run({command, "org/Name-8B"}),
                Errs(3, HasSubstr("hf download org/Name-8B --local-dir "
                                  "Name-8B")));
  }
  for (const char* path : {"absent", "./a/b", "/a/b", "a/b/c", "a/"}) {
    EXPECT_THAT(Run({"inspect", path}).err,
                testing::Not(HasSubstr("hf download")))
        << path;
  }
}

TEST_F(ModelTools, RecognizesFilesOfQuantize) {
  const std::string plain = At("own.safetensors");
  const std::string q = At("own.q.safetensors");
  ASSERT_EQ(Run({"sample", "-o", plain}).code, 0);
  ASSERT_EQ(RunServed({"quantize", plain, "-o", q, "--usage", "both"}).code, 0);
  const Outcome inspected = Run({"inspect", q, "--json"});
  EXPECT_EQ(inspected.code, 0);
  EXPECT_EQ(inspected.Json()["tensors"].size(), 2u);
  EXPECT_EQ(inspected.Json()["tensors"][0]["format"], "nvfp4");
  EXPECT_THAT(Run({"inspect", q}).out, HasSubstr("1024x1024  bf16  nvfp4"));
  EXPECT_EQ(Run({"lint", q}).code, 0);
  for (const auto& [a, b] : {std::pair(plain, q), std::pair(q, plain)}) {
    const Outcome compared = Run({"compare", a, b, "--json"});
    ASSERT_EQ(compared.code, 0) << compared.err;
    const double db = compared.Json()["tensors"][0]["sqnr_db"];
    EXPECT_NEAR(db, 20.4, 0.2);
    EXPECT_EQ(compared.Json()["tensors"][0]["usual_db"], 20.4);
  }
  EXPECT_THAT(Run({"compare", q, q}).out, HasSubstr("2 tensors equal"));
  EXPECT_EQ(Run({"compare", plain, q, "--fail-below", "25"}).code, 8);
  EXPECT_EQ(Run({"compare", plain, q, "--report", At("r")}).code, 2);
  EXPECT_EQ(Run({"compare", At("model.safetensors"), q}).code, 8);
  // A part that contradicts the file's metadata is an error.
  std::string bytes = ReadFile(q);
  const size_t at = bytes.find("gaussian.rowwise_scale");
  ASSERT_NE(at, std::string::npos);
  bytes.replace(at, 22, "gaussian.rowwise_scalf");
  WriteFile(q, bytes);
  EXPECT_THAT(Run({"lint", q}), Prints(8, HasSubstr("rowwise_scale")));
}

}  // namespace
}  // namespace quantd
