// quantctl echo-server, and bench beside it.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "tests/bench/rpc_process.h"
#include "tests/client/quantctl/cli_fixture.h"

namespace quantd {
namespace {

using testing::HasSubstr;

TEST_F(Cli, EchoServerServesABenchAndEnds) {
  bench::ServerProcess echo({std::getenv("QUANTCTL"), "echo-server", "--listen",
                             "127.0.0.1:0", "--max-bytes", "2MiB"});
  ASSERT_TRUE(echo.running()) << echo.Log();
  const std::vector<std::string> words = {"bench",    "--seconds",   "0.05",
                                          "--rounds", "1",           "--json",
                                          "--echo",   echo.address()};
  auto small = words;
  small.insert(small.end(), {"--sizes", "1MiB"});
  const Outcome run = RunServed(small);
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_GT(run.Json()["cells"][0]["echo"]["input_gb_per_s"], 0);
  auto large = words;
  large.insert(large.end(), {"--sizes", "3MiB"});
  const Outcome refused = RunServed(large);
  EXPECT_EQ(refused.code, 4);
  EXPECT_THAT(refused.err, HasSubstr("larger --max-bytes"));
  echo.Signal(SIGTERM);
  EXPECT_EQ(echo.WaitForExit(20), 0);
}

// Of a process that may be nobody's child any more, and waits for whoever
// collects those.
bool Lives(pid_t pid) {
  const std::string stat = ReadFile("/proc/" + std::to_string(pid) + "/stat");
  const size_t state = stat.rfind(") ");
  return state != std::string::npos && stat[state + 2] != 'Z';
}

TEST_F(Cli, TheEchoEndsWithItsBench) {
  for (const int number : {SIGINT, SIGKILL}) {
    const pid_t bench = Start({"bench", "--sizes", "4KiB", "--seconds", "60",
                               "--echo", "self", "--server", address_});
    ASSERT_GT(bench, 0);
    const std::string task = std::to_string(bench);
    pid_t echo = 0;
    for (int i = 0; i < 400 && echo == 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      std::ifstream("/proc/" + task + "/task/" + task + "/children") >> echo;
    }
    ASSERT_GT(echo, 0);
    EXPECT_TRUE(Lives(echo));
    // It is the bench's to end it.
    EXPECT_NE(getpgid(echo), getpgid(bench));
    // Once calls are under way.
    std::this_thread::sleep_for(std::chrono::seconds(1));
    kill(bench, number);
    const Outcome run = Wait(bench);
    EXPECT_EQ(run.code, 128 + number) << run.err;
    for (int i = 0; i < 400 && Lives(echo); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    EXPECT_FALSE(Lives(echo)) << number;
  }
}

TEST_F(Cli, EchoServerSaysWhyItDoesNotStart) {
  const Outcome name = Run({"echo-server", "--listen", "nowhere"});
  EXPECT_EQ(name.code, 2);
  EXPECT_THAT(name.err, HasSubstr("--listen"));
  const Outcome large = Run({"echo-server", "--max-bytes", "2GiB"});
  EXPECT_EQ(large.code, 2);
  EXPECT_THAT(large.err, HasSubstr("--max-bytes: expected 1 to 1073741824"));
  EXPECT_EQ(Run({"echo-server", "--listen", address_}).code, 1);
}

TEST_F(Cli, BenchRefusesAnEchoThatIsNoCeiling) {
  const auto refused = [](std::vector<std::string> words, const char* why,
                          int code = 2) {
    words.insert(words.begin(), {"bench", "--sizes", "4KiB"});
    const Outcome run = Run(words);
    EXPECT_EQ(run.code, code) << why;
    EXPECT_THAT(run.err, HasSubstr(why));
  };
  refused({"--server", "local", "--echo", "self"}, "nothing is sent");
  refused({"--server", "192.0.2.1:50151", "--echo", "self"},
          "echo-server --listen HOST:50152");
  refused({"--server", address_, "--echo", "self", "--rate", "5"}, "--rate");
  refused({"--server", address_, "--rounds", "3"}, "--echo");
  refused({"--server", address_, "--echo", "a:1,b:2"}, "expected self");
  refused({"--server", address_, "--tls", "--echo", "self"},
          "does not encrypt");
  refused({"--server", address_, "--echo", "127.0.0.1:1", "--deadline", "2"},
          "quantctl echo-server --listen 127.0.0.1:1", 4);
  // A quantd is none.
  refused({"--server", address_, "--echo", address_}, "that is no echo", 5);
}

}  // namespace
}  // namespace quantd
