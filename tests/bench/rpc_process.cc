#include "tests/bench/rpc_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

namespace quantd::bench {
namespace {

namespace fs = std::filesystem;

// Returns the fields of /proc/PID/stat from the third on, because the second
// may contain spaces.
std::vector<std::string> StatFields(pid_t pid) {
  const std::string text = ReadFile("/proc/" + std::to_string(pid) + "/stat");
  const size_t close = text.rfind(')');
  if (close == std::string::npos) return {};
  std::istringstream rest(text.substr(close + 1));
  return {std::istream_iterator<std::string>(rest), {}};
}

}  // namespace

std::string SelfPath() { return fs::read_symlink("/proc/self/exe"); }

std::string FindQuantd() {
  const fs::path here = fs::path(SelfPath()).parent_path();
  for (const char* place : {"quantd", "../quantd", "../bin/quantd",
                            "../server/quantd", "../../server/quantd"}) {
    std::error_code error;
    const fs::path path = here / place;
    if (fs::is_regular_file(path, error)) return path.string();
  }
  return "";
}

std::pair<int, std::string> RunQuantd(const std::string& arguments,
                                      const std::string& environment) {
  std::string command = environment;
  command.append(" '").append(FindQuantd()).append("' ").append(arguments);
  command.append(" 2>&1");
  FILE* pipe = popen(command.c_str(), "r");
  std::string text;
  char buffer[4096];
  while (const size_t n = fread(buffer, 1, sizeof(buffer), pipe)) {
    text.append(buffer, n);
  }
  return {WEXITSTATUS(pclose(pipe)), text};
}

void Process::Run(std::vector<std::string> command) {
  std::vector<char*> argv;
  for (std::string& word : command) argv.push_back(word.data());
  argv.push_back(nullptr);
  const std::string log = directory_ / "log";
  pid_ = fork();
  if (pid_ == 0) {
    const int fd = open(log.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
    dup2(fd, STDOUT_FILENO);
    dup2(fd, STDERR_FILENO);
    execv(argv[0], argv.data());
    _exit(127);
  }
}

ServerProcess::ServerProcess(std::vector<std::string> command) {
  const std::string port_file = directory_ / "port";
  command.insert(command.end(), {"--port-file", port_file});
  Run(std::move(command));
  for (int i = 0; i < 6000 && pid_ > 0; ++i) {
    std::istringstream(ReadFile(port_file)) >> address_;
    if (running() || waitpid(pid_, nullptr, WNOHANG) == pid_) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

Process::~Process() {
  if (pid_ > 0) {
    Signal(SIGTERM);
    if (WaitForExit(30) == kRunning) {
      Signal(SIGKILL);
      WaitForExit(10);
    }
  }
}

void Process::Signal(int number) const {
  if (pid_ > 0) kill(pid_, number);
}

int Process::WaitForExit(double seconds) {
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (pid_ > 0) {
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) == pid_) {
      pid_ = -1;
      return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    }
    if (std::chrono::steady_clock::now() >= end) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return kRunning;
}

uint64_t Process::MinorFaults() const {
  const auto fields = StatFields(pid_);
  return fields.size() > 7 ? std::stoull(fields[7]) : 0;
}

uint64_t StatusOf(pid_t pid, const std::string& key) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/status");
  std::string word;
  while (file >> word) {
    uint64_t kib = 0;
    if (word == key + ":" && file >> kib) return kib << 10;
  }
  return 0;
}

std::string Process::Log() const { return ReadFile(directory_ / "log"); }

}  // namespace quantd::bench
