// Tests of the basic commands of quantctl with a server.
#include "client/files/quantized_file.h"
#include "client/quantctl/terminal/terminal.h"
#include "fmt/format.h"
#include "tests/client/quantctl/cli_fixture.h"

namespace quantd {
namespace {

using nlohmann::json;
using testing::HasSubstr;

TEST_F(Cli, InfoNamesTheDevice) {
  EXPECT_THAT(RunServed({"info"}), Prints(0, HasSubstr("cpu:0")));
  const Outcome as_json = RunServed({"info", "--json"});
  EXPECT_EQ(as_json.Json()["devices"][0]["healthy"], true);
  EXPECT_EQ(as_json.Json()["formats"][0]["name"], "nvfp4");
}

TEST_F(Cli, SampleRoundTripReachesTheUsualSqnr) {
  ASSERT_EQ(Run({"sample", "--out", At("s.safetensors")}).code, 0);
  for (const char* rht : {"none", "both"}) {
    const Outcome run = RunServed({"roundtrip", At("s.safetensors"), "--usage",
                                   "both", "--rht", rht, "--json"});
    ASSERT_EQ(run.code, 0) << run.err;
    const json report = run.Json();
    const json& gaussian = report["tensors"][0];
    ASSERT_EQ(gaussian["name"], "gaussian");
    EXPECT_GE(gaussian["shape"][0].get<int>() * gaussian["shape"][1].get<int>(),
              1 << 20);
    for (const char* copy : {"rowwise", "columnwise"}) {
      const double sqnr = gaussian["copies"][copy]["sqnr_db"];
      EXPECT_GT(sqnr, 20.34);
      EXPECT_LT(sqnr, 20.54);
    }
    EXPECT_EQ(gaussian["sqnr_db"], gaussian["copies"]["rowwise"]["sqnr_db"]);
    // Only a rotation adds a note to the report.
    if (std::string_view(rht) == "both") {
      ASSERT_EQ(report["notes"].size(), 1u);
      EXPECT_THAT(report["notes"][0].get<std::string>(),
                  HasSubstr("for gradients"));
    } else {
      EXPECT_TRUE(report["notes"].empty());
    }
  }
  // A second run gives the same bytes.
  ASSERT_EQ(Run({"sample", "--out", At("t.safetensors")}).code, 0);
  EXPECT_EQ(ReadFile(At("s.safetensors")), ReadFile(At("t.safetensors")));
}

TEST_F(Cli, QuantizesAndDecodesNpy) {
  ASSERT_EQ(RunServed({"quantize", At("x.npy"), "-o", At("q.safetensors"),
                       "--usage", "both", "--rht", "columnwise"})
                .code,
            0);
  ASSERT_OK_AND_ASSIGN(const auto q,
                       QuantizedTensor::Load(At("q.safetensors"), "x"));
  EXPECT_TRUE(q.columnwise()->rotated);
  for (const char* usage : {"rowwise", "columnwise"}) {
    for (const char* dtype : {"f32", "f16"}) {
      ASSERT_EQ(RunServed({"dequantize", At("q.safetensors"), "-o", At("y.npy"),
                           "--usage", usage, "--dtype", dtype})
                    .code,
                0);
      ASSERT_OK_AND_ASSIGN(const auto y, npy::File::Open(At("y.npy")));
      EXPECT_EQ(Name(y.header().dtype), dtype);
      EXPECT_EQ(y.header().shape, (std::vector<int64_t>{64, 160}));
    }
  }
  // --rht implies the usage.
  const Outcome implied =
      RunServed({"roundtrip", At("x.npy"), "--rht", "columnwise", "--json"});
  ASSERT_EQ(implied.code, 0);
  EXPECT_TRUE(implied.Json()["tensors"][0]["copies"].contains("columnwise"));
  EXPECT_FALSE(implied.Json()["tensors"][0]["copies"].contains("rowwise"));
  const Outcome amax = RunServed({"amax", At("x.npy"), "--json"});
  ASSERT_EQ(amax.code, 0);
  const json copies = amax.Json()["tensors"][0]["copies"];
  EXPECT_EQ(copies.size(), 4u);
  EXPECT_EQ(copies["rowwise"]["amax"].get<float>(), q.rowwise()->amax[0]);
  EXPECT_EQ(copies["columnwise_rht"]["amax"].get<float>(),
            q.columnwise()->amax[0]);
}

TEST_F(Cli, QuantizesTheSuitableTensorsOfACheckpoint) {
  const Outcome run = RunServed({"quantize", At("model.safetensors"), "-o",
                                 At("mq.safetensors"), "--json"});
  ASSERT_EQ(run.code, 0) << run.err;
  const json report = run.Json();
  EXPECT_EQ(report["tensors"].size(), 2u);
  std::map<std::string, std::string> skipped;
  for (const json& s : report["skipped"]) skipped[s["name"]] = s["reason"];
  EXPECT_THAT(skipped["odd"], HasSubstr("multiple of 16"));
  EXPECT_THAT(skipped["norm"], HasSubstr("a vector"));
  EXPECT_THAT(skipped["ids"], HasSubstr("I64"));
  EXPECT_THAT(skipped["one"], HasSubstr("scalar"));
  ASSERT_OK_AND_ASSIGN(const auto file,
                       safetensors::File::Open(At("mq.safetensors")));
  EXPECT_EQ(file.Find("w.rowwise_data")->dtype, "U8");
  EXPECT_EQ(file.Find("w.rowwise_scale")->dtype, "F8_E4M3");
  EXPECT_EQ(file.Find("w.rowwise_amax")->dtype, "F32");
  EXPECT_EQ(file.tensors().size(), 6u);

  ASSERT_EQ(RunServed({"dequantize", At("mq.safetensors"), "-o",
                       At("back.safetensors")})
                .code,
            0);
  ASSERT_OK_AND_ASSIGN(const auto back,
                       safetensors::File::Open(At("back.safetensors")));
  EXPECT_EQ(back.Find("deep")->shape, (std::vector<int64_t>{4, 16, 160}));
  // Equal numbers in another shape decode to equal bytes.
  std::vector<std::byte> w(64 * 160 * 4);
  std::vector<std::byte> deep(w.size());
  ASSERT_THAT(back.Read(*back.Find("w"), 0, absl::MakeSpan(w)), IsOk());
  ASSERT_THAT(back.Read(*back.Find("deep"), 0, absl::MakeSpan(deep)), IsOk());
  EXPECT_TRUE(BytesEq("deep", w, deep));
  // Decoded values can be quantized again.
  const Outcome again = RunServed(
      {"roundtrip", At("back.safetensors"), "--tensor", "w", "--json"});
  EXPECT_EQ(again.code, 0);
  EXPECT_EQ(again.Json()["tensors"].size(), 1u);

  // --tensor accepts a vector. A named tensor that cannot be quantized is an
  // error.
  EXPECT_EQ(RunServed({"quantize", At("model.safetensors"), "--tensor", "norm",
                       "-o", At("n.safetensors")})
                .code,
            0);
  EXPECT_THAT(RunServed({"quantize", At("model.safetensors"), "--tensor", "odd",
                         "-o", At("n.safetensors")}),
              Errs(3, HasSubstr("multiple of 16")));
}

TEST_F(Cli, ExitCodesTellErrorsApart) {
  const std::string x = At("x.npy");
  const std::string out = At("e.safetensors");
  EXPECT_EQ(Run({"--help"}).code, 0);
  const std::string help = Run({"help"}).out;
  for (const quantctl::ExitMeaning& e : quantctl::kExitCodes) {
    const std::string meaning = e.meaning;
    EXPECT_THAT(help, HasSubstr(fmt::format("\n  {}  {}", int{e.code},
                                            meaning.substr(0, 40))));
  }
  EXPECT_EQ(Run({}).code, 2);
  EXPECT_EQ(Run({"frobnicate"}).code, 2);
  EXPECT_EQ(RunServed({"roundtrip"}).code, 2);
  for (const char* number : {"-1", "99999999999999999999", "010", "0x10"}) {
    EXPECT_THAT(
        Run({"quantize", x, "--seed", number, "-o", At("never.safetensors")}),
        Errs(2, HasSubstr("--seed")))
        << number;
  }
  for (const char* bad :
       {"--format=fp3", "--usage=up", "--rht=maybe", "--sign-mask=12345",
        "--non-finite=no", "--given-amax-rowwise=x", "--deadline=0",
        "--given-amax-rowwise=-1"}) {
    EXPECT_EQ(RunServed({"roundtrip", x, bad}).code, 2) << bad;
  }
  EXPECT_EQ(
      RunServed({"roundtrip", x, "--rht", "columnwise", "--usage", "rowwise"})
          .code,
      2);
  EXPECT_EQ(RunServed({"roundtrip", At("absent.npy")}).code, 3);
  EXPECT_EQ(RunServed({"roundtrip", At("server.out")}).code, 3);
  WriteFile(At("bad.npy"), "\x93NUMPY\x01");
  EXPECT_EQ(RunServed({"roundtrip", At("bad.npy")}).code, 3);
  EXPECT_EQ(RunServed({"roundtrip", x, "--tensor", "y"}).code, 3);
  EXPECT_EQ(RunServed({"dequantize", At("model.safetensors"), "-o", out}).code,
            3);
  EXPECT_THAT(Run({"roundtrip", x, "--server", "127.0.0.1:1"}),
              Errs(4, HasSubstr("Start a server with")));
  EXPECT_THAT(Run({"roundtrip", x, "--server", "127.0.0.1:1,127.0.0.1:2"}),
              Errs(4, testing::AllOf(HasSubstr("none of 2 quantd servers"),
                                     HasSubstr("127.0.0.1:2: "))));
  EXPECT_EQ(Run({"roundtrip", x, "--server", "127.0.0.1:1," + address_}).code,
            0);
  // An address without a port gets the default one.
  for (const char* bare : {"127.0.0.2", "127.0.0.3,127.0.0.2", "[::1]"}) {
    EXPECT_THAT(Run({"info", "--deadline", "0.5", "--server", bare}).err,
                HasSubstr(":50151"));
  }
  for (const char* bad : {"127.0.0.1:", "127.0.0.1:1,", "http://host:1"}) {
    EXPECT_THAT(Run({"roundtrip", x, "--server", bad}),
                Errs(2, HasSubstr("commas between them")))
        << bad;
  }
  // Only the server can check the payload.
  std::vector<float> nan(16, std::numeric_limits<float>::quiet_NaN());
  ASSERT_THAT(npy::Write(At("nan.npy"), DType::kF32, {1, 16},
                         {reinterpret_cast<const std::byte*>(nan.data()), 64}),
              IsOk());
  const Outcome refused = RunServed({"quantize", At("nan.npy"), "-o", out,
                                     "--non-finite", "reject", "--json"});
  EXPECT_EQ(refused.code, 5);
  EXPECT_EQ(refused.Json()["exit_code"], 5);
  EXPECT_EQ(refused.Json()["tensors"][0]["error"]["field"], "payload");
  EXPECT_FALSE(std::filesystem::exists(out));
  EXPECT_EQ(RunServed({"quantize", x, "-o", At("no/dir.safetensors")}).code, 7);
  // An option that the format does not have is a usage error, not an error of
  // the file.
  EXPECT_EQ(
      RunServed({"roundtrip", x, "--format", "mxfp8", "--epsilon", "1"}).code,
      2);
  // The extension determines the type of file.
  for (const char* name : {"e.npz", "e", "e.npy"}) {
    EXPECT_THAT(RunServed({"quantize", x, "-o", At(name)}),
                Errs(2, HasSubstr("a name that ends with .safetensors")))
        << name;
    EXPECT_FALSE(std::filesystem::exists(At(name)));
  }
}

TEST_F(Cli, ReportsTensorsThatFail) {
  std::vector<float> x(64, 1.0f);
  x[40] = std::numeric_limits<float>::infinity();
  const absl::Span<const std::byte> bytes(
      reinterpret_cast<const std::byte*>(x.data()), 256);
  ASSERT_OK_AND_ASSIGN(auto writer, safetensors::Writer::Create(
                                        At("part.safetensors"),
                                        {{"good", "F32", {2, 16}, 0, 128},
                                         {"inf", "F32", {2, 16}, 0, 128}},
                                        {}));
  ASSERT_THAT(writer.Append("good", bytes.subspan(0, 128)), IsOk());
  ASSERT_THAT(writer.Append("inf", bytes.subspan(128, 128)), IsOk());
  ASSERT_THAT(writer.Commit(), IsOk());
  const Outcome run =
      RunServed({"quantize", At("part.safetensors"), "-o", At("pq.safetensors"),
                 "--non-finite", "reject", "--json"});
  EXPECT_EQ(run.code, 6) << run.err;
  EXPECT_TRUE(run.Json()["tensors"][1].contains("error"));
  EXPECT_EQ(run.Json()["totals"]["failed"], 1);
  // An incomplete file does not get the final name.
  EXPECT_FALSE(std::filesystem::exists(At("pq.safetensors")));
  EXPECT_EQ(
      RunServed({"quantize", At("part.safetensors"), "-o", At("pq.safetensors"),
                 "--non-finite", "reject", "--tensor", "good"})
          .code,
      0);
  // No temporary files are left.
  for (const auto& entry : std::filesystem::directory_iterator(dir_->path())) {
    EXPECT_EQ(entry.path().string().find(".partial."), std::string::npos);
  }
}

}  // namespace
}  // namespace quantd
