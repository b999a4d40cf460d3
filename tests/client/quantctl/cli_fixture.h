// Runs the programs quantctl and quantd. The environment variable QUANTCTL,
// which CMake sets, is the path of the former.
#ifndef QUANTD_TESTS_CLIENT_QUANTCTL_CLI_FIXTURE_H_
#define QUANTD_TESTS_CLIENT_QUANTCTL_CLI_FIXTURE_H_

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>

#include "client/files/npy.h"
#include "client/files/safetensors.h"
#include "tests/bench/rpc_process.h"
#include "tests/client/temp_dir.h"
#include "tests/testing/matchers.h"

extern char** environ;

namespace quantd {

inline pid_t Spawn(const std::vector<std::string>& words,
                   const std::string& out, const std::string& err) {
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 1, out.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_addopen(&files, 2, err.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0600);
  std::vector<char*> argv;
  for (const std::string& w : words)
    argv.push_back(const_cast<char*>(w.data()));
  argv.push_back(nullptr);
  // Restores the default action of SIGINT, which a shell ignores in background
  // processes.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t usual;
  sigemptyset(&usual);
  for (const int s : {SIGHUP, SIGINT, SIGTERM}) sigaddset(&usual, s);
  posix_spawnattr_setsigdefault(&attributes, &usual);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  pid_t pid = -1;
  posix_spawnp(&pid, argv[0], &files, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  return pid;
}

struct Outcome {
  int code = -1;
  std::string out;
  std::string err;
  nlohmann::json Json() const {
    return nlohmann::json::parse(out, nullptr, false);
  }
};

// An outcome with that exit code, whose standard error matches.
MATCHER_P2(Errs, code, err, "") {
  *result_listener << "code " << arg.code << ": " << arg.out << arg.err;
  return arg.code == code && testing::Value(arg.err, err);
}
// An outcome with that exit code, whose standard output matches.
MATCHER_P2(Prints, code, out, "") {
  *result_listener << "code " << arg.code << ": " << arg.out << arg.err;
  return arg.code == code && testing::Value(arg.out, out);
}

class Cli : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    dir_ = new TempDir;
    server_ = std::make_unique<bench::ServerProcess>(std::vector<std::string>{
        bench::FindQuantd(), "--listen", "127.0.0.1:0"});
    ASSERT_TRUE(server_->running()) << server_->Log();
    address_ = server_->address();
    WriteSamples();
  }
  static void TearDownTestSuite() {
    server_.reset();
    delete dir_;
    dir_ = nullptr;
  }

  // Starts quantctl without waiting for it.
  static pid_t Start(std::vector<std::string> words) {
    const char* quantctl = std::getenv("QUANTCTL");
    if (quantctl == nullptr) return -1;
    words.insert(words.begin(), quantctl);
    return Spawn(words, *dir_ / "out", *dir_ / "err");
  }
  // Waits for a process. Its code is as in a shell: 128 plus the number of the
  // signal that ended it.
  static Outcome Wait(pid_t pid) {
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid) return {};
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
            ReadFile(*dir_ / "out"), ReadFile(*dir_ / "err")};
  }
  static Outcome Run(std::vector<std::string> words) {
    return Wait(Start(std::move(words)));
  }
  static Outcome RunServed(std::vector<std::string> words) {
    words.insert(words.end(), {"--server", address_});
    return Run(std::move(words));
  }
  static std::string At(std::string_view name) { return *dir_ / name; }

  // Writes a file with tensors as in a checkpoint: weights, a norm, indices, a
  // scalar.
  static void WriteSamples() {
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    std::vector<float> x(64 * 160);
    for (float& v : x) v = normal(random);
    const absl::Span<const std::byte> bytes(
        reinterpret_cast<const std::byte*>(x.data()), x.size() * 4);
    ASSERT_THAT(npy::Write(At("x.npy"), DType::kF32, {64, 160}, bytes), IsOk());
    ASSERT_OK_AND_ASSIGN(auto writer,
                         safetensors::Writer::Create(
                             At("model.safetensors"),
                             {{"w", "F32", {64, 160}, 0, x.size() * 4},
                              {"deep", "F32", {4, 16, 160}, 0, x.size() * 4},
                              {"odd", "F32", {4, 24}, 0, 384},
                              {"norm", "F32", {160}, 0, 640},
                              {"ids", "I64", {10}, 0, 80},
                              {"one", "F32", {}, 0, 4}},
                             {}));
    for (const auto& [name, size] :
         std::vector<std::pair<const char*, size_t>>{{"w", bytes.size()},
                                                     {"deep", bytes.size()},
                                                     {"odd", 384},
                                                     {"norm", 640},
                                                     {"ids", 80},
                                                     {"one", 4}}) {
      ASSERT_THAT(writer.Append(name, bytes.subspan(0, size)), IsOk());
    }
    ASSERT_THAT(writer.Commit(), IsOk());
  }

  static inline TempDir* dir_ = nullptr;
  static inline std::unique_ptr<bench::ServerProcess> server_;
  static inline std::string address_;
};

}  // namespace quantd

#endif  // QUANTD_TESTS_CLIENT_QUANTCTL_CLI_FIXTURE_H_
