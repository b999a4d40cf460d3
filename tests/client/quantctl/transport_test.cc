// Tests that quantctl writes the same files over every transport, and of
// transports that do not reach a server.
#include "tests/bench/rpc_process.h"
#include "tests/client/checkpoint/model_writer.h"
#include "tests/client/quantctl/cli_fixture.h"

namespace quantd {
namespace {

using testing::HasSubstr;

class Ways : public Cli {
 protected:
  void SetUp() override { Start("16MiB"); }
  void Start(const std::string& limit) {
    process_.reset();
    std::vector<std::string> command = {bench::FindQuantd(),
                                        "--listen",
                                        Calls(),
                                        "--memory-socket",
                                        At("memory"),
                                        "--shared-memory-limit",
                                        limit,
                                        "--drain-delay-ms",
                                        "0"};
    process_ = std::make_unique<bench::ServerProcess>(command);
    ASSERT_TRUE(process_->running()) << process_->Log();
  }
  static std::string Calls() { return "unix:" + At("calls"); }
  // Runs quantctl with `words` and the flags of a transport.
  static Outcome Go(std::vector<std::string> words, const std::string& way) {
    const std::string server = way == "tcp"     ? address_
                               : way == "local" ? "local:cpu"
                                                : Calls();
    words.insert(words.end(), {"--transport", way, "--server", server});
    if (way == "shared") {
      words.insert(words.end(), {"--memory-socket", At("memory")});
    }
    return Run(std::move(words));
  }

  std::unique_ptr<bench::ServerProcess> process_;
};

TEST_F(Ways, AllTransportsWriteTheSameFiles) {
  std::string first;
  for (const std::string way : {"tcp", "unix", "shared", "local"}) {
    SCOPED_TRACE(way);
    const Outcome made = Go({"quantize", At("model.safetensors"), "--usage",
                             "both", "--json", "-o", At("made.safetensors")},
                            way);
    ASSERT_EQ(made.code, 0) << made.err;
    for (const auto& tensor : made.Json()["tensors"]) {
      EXPECT_EQ(tensor["transport"], way);
    }
    const std::string file = ReadFile(At("made.safetensors"));
    if (first.empty()) first = file;
    EXPECT_EQ(file, first);
    const Outcome back = Go({"dequantize", At("made.safetensors"), "--json",
                             "-o", At("back.safetensors")},
                            way);
    EXPECT_EQ(back.code, 0) << back.err;
    EXPECT_EQ(Go({"roundtrip", At("x.npy")}, way).code, 0);
    EXPECT_EQ(Go({"amax", At("x.npy")}, way).code, 0);
  }
}

TEST_F(Ways, ModelsAreConvertedByAllTransports) {
  Start("1GiB");
  WriteLlama(At("m"));
  for (const std::string way : {"tcp", "unix", "shared", "local"}) {
    SCOPED_TRACE(way);
    const std::string made = At("made-" + way);
    const Outcome converted = Go({"convert", At("m"), made, "--format", "auto",
                                  "--target", "25dB", "--dialect", "modelopt"},
                                 way);
    EXPECT_EQ(converted.code, 0) << converted.err;
    const Outcome verified = Go({"verify", made, "--original", At("m")}, way);
    EXPECT_EQ(verified.code, 0) << verified.err << verified.out;
  }
}

TEST_F(Ways, RefusesATransportThatDoesNotMatchTheAddress) {
  const std::vector<std::string> words = {"roundtrip", At("x.npy"), "--json"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), words.begin(), words.end());
    return Run(std::move(more));
  };
  EXPECT_EQ(with({"--transport", "local"}).Json()["server"], "local");
  const struct {
    std::vector<std::string> words;
    const char* expected;
  } wrong[] = {
      {{"--transport", "tcp", "--server", "local"}, "--server HOST:PORT"},
      {{"--transport", "tcp", "--server", Calls()}, "--server HOST:PORT"},
      {{"--transport", "unix", "--server", address_}, "--server unix:/PATH"},
      {{"--transport", "local", "--server", address_}, "--server local"},
      {{"--transport", "shared", "--server", Calls()}, "--memory-socket"},
      {{"--transport", "shared", "--server", "local"}, "--memory-socket"},
      {{"--transport", "pigeon"}, "tcp, unix, shared or local"},
  };
  for (const auto& w : wrong) {
    const Outcome run = with(w.words);
    EXPECT_EQ(run.code, 2);
    EXPECT_THAT(run.err + run.out, HasSubstr(w.expected));
  }
}

TEST_F(Ways, ReportsThatMemoryIsNotShared) {
  // Without a memory socket, --transport shared is an error. A tensor larger
  // than the shared memory is sent by message, unless --transport shared
  // forbids that.
  EXPECT_THAT(Run({"roundtrip", At("x.npy"), "--server", Calls(),
                   "--memory-socket", At("nothing"), "--transport", "shared"}),
              Errs(4, testing::AllOf(HasSubstr("cannot share memory through"),
                                     HasSubstr("--memory-socket"))));
  EXPECT_EQ(Run({"sample", "--rows", "4096", "--cols", "2048", "-o",
                 At("large.safetensors")})
                .code,
            0);
  std::vector<std::string> words = {"quantize",
                                    At("large.safetensors"),
                                    "--json",
                                    "--server",
                                    Calls(),
                                    "--memory-socket",
                                    At("memory"),
                                    "-o",
                                    At("made.safetensors")};
  const Outcome any = Run(words);
  ASSERT_EQ(any.code, 0) << any.err;
  EXPECT_EQ(any.Json()["tensors"][0]["transport"], "unix");
  words.insert(words.end(), {"--transport", "shared"});
  const Outcome only = Run(words);
  EXPECT_NE(only.code, 0);
  EXPECT_THAT(only.err, HasSubstr("--shared-memory-limit"));
}

TEST_F(Ways, VerifyRefusesAnotherTransport) {
  WriteLlama(At("n"));
  ASSERT_EQ(Run({"convert", At("n"), At("quantized"), "--format", "nvfp4",
                 "--dialect", "modelopt", "--server", "local:cpu"})
                .code,
            0);
  EXPECT_THAT(Go({"verify", At("quantized"), "--original", At("n")}, "shared"),
              Errs(5, HasSubstr("--shared-memory-limit")));
}

}  // namespace
}  // namespace quantd
