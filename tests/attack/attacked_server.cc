#include "tests/attack/attacked_server.h"

#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>
#include <thread>

#include "quantd/client.h"
#include "tests/attack/socket.h"
#include "tests/client/temp_dir.h"

namespace quantd::attack {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr char kToken[] = "a-token-of-the-good";
constexpr char kAttackersToken[] = "other";
// The SHA-256 and names of tokens, as in the server's token file.
constexpr char kTokens[] =
    "c983102faf923141c6eb84dde46a30201bc9e032f8d3dd432af03c140bd63c37 good\n"
    "d9298a10d1b0735837dc4bd85dac641b0f3cef27a47e5d53a54f2f3f5b2fcffa bad\n";

std::string HttpGet(const std::string& address, const std::string& path) {
  const auto socket = Socket::ConnectBare(
      {.address = address}, Clock::now() + std::chrono::seconds(5));
  std::string reply;
  if (socket == nullptr || !socket->Send("GET " + path +
                                         " HTTP/1.1\r\nHost: localhost\r\n"
                                         "Connection: close\r\n\r\n")) {
    return reply;
  }
  while (socket->alive() && !socket->over()) {
    socket->Receive(&reply, milliseconds(100));
  }
  return reply;
}

std::vector<std::string> ServerCommand(const Setting& setting,
                                       int descriptors) {
  std::vector<std::string> command;
  if (descriptors > 0) {
    command = {"/usr/bin/prlimit", "--nofile=" + std::to_string(descriptors) +
                                       ":" + std::to_string(descriptors)};
  }
  command.insert(
      command.end(),
      {bench::FindQuantd(), "--listen", "127.0.0.1:0", "--metrics-address",
       "127.0.0.1:0", "--log-format", "json", "--drain-delay-ms", "0",
       "--drain-timeout-s", std::to_string(kDrainSeconds)});
  if (setting.budget != 0) {
    command.insert(command.end(),
                   {"--memory-budget", std::to_string(setting.budget)});
  }
  const std::vector<std::string> none;
  const auto& flags = setting.way == Way::kEdge    ? TheSecrets().tokens
                      : setting.way == Way::kPlain ? none
                                                   : TheSecrets().mutual;
  command.insert(command.end(), flags.begin(), flags.end());
  if (setting.way == Way::kEdge) {
    command.insert(command.end(), {"--trusted-proxies", "127.0.0.1"});
  }
  return command;
}

}  // namespace

const Secrets& TheSecrets() {
  static const TempDir directory;
  static const Secrets secrets = [] {
    const std::string at = directory.path();
    Secrets made;
    const char* const packed = std::getenv("ATTACK_MAKE_CERTS");
    const std::string command =
        std::string("'") + (packed != nullptr ? packed : QUANTD_MAKE_CERTS) +
        "' '" + at + "' >/dev/null 2>&1";
    if (std::system(command.c_str()) != 0) return made;
    std::ofstream(at + "/tokens") << kTokens;
    fs::permissions(at + "/tokens", fs::perms::owner_read);
    made.directory = at;
    made.tokens = {"--token-file", at + "/tokens"};
    made.mutual = {"--tls-cert",       at + "/server.pem", "--tls-key",
                   at + "/server.key", "--tls-client-ca",  at + "/ca.pem"};
    made.mutual.insert(made.mutual.end(), made.tokens.begin(),
                       made.tokens.end());
    made.pem = at + "/both.pem";
    std::ofstream(made.pem) << std::ifstream(at + "/server.pem").rdbuf()
                            << std::ifstream(at + "/server.key").rdbuf();
    made.credentials.ca_file = at + "/ca.pem";
    made.credentials.certificate_file = at + "/client.pem";
    made.credentials.key_file = at + "/client.key";
    made.credentials.token = kToken;
    return made;
  }();
  return secrets;
}

AttackedServer::AttackedServer(const Setting& setting, int descriptors)
    : process_(std::make_unique<bench::ServerProcess>(
          ServerCommand(setting, descriptors))),
      way_(setting.way) {
  if (!process_->running()) return;
  if (way_ != Way::kPlain) credentials_ = TheSecrets().credentials;
  std::istringstream lines(process_->Log());
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object()) continue;
    if (json.value("event", "") == "serving") {
      bound_ = json.value("memory_bound_bytes", uint64_t{0});
    } else if (json.value("event", "") == "metrics") {
      const std::string url = json.value("url", "");
      const size_t begin = url.find("//") + 2;
      metrics_ = url.substr(begin, url.find('/', begin) - begin);
    }
  }
  if (way_ == Way::kEdge) {
    edge_ =
        std::make_unique<Edge>(process_->address(), metrics_, TheSecrets().pem);
  }
  // Polls continuously, since /proc has no data about a crashed process.
  watch_ = std::thread([this] {
    while (watched_) {
      most_ = std::max(most_.load(), process_->Status("VmHWM"));
      if (edge_ != nullptr) {
        most_of_edge_ = std::max(most_of_edge_.load(),
                                 bench::StatusOf(edge_->pid(), "VmHWM"));
      }
      std::this_thread::sleep_for(milliseconds(20));
    }
  });
}

AttackedServer::~AttackedServer() { EndWatch(); }

void AttackedServer::EndWatch() {
  watched_ = false;
  if (watch_.joinable()) watch_.join();
}

size_t AttackedServer::LargestRequest() const {
  ClientOptions options;
  options.credentials = credentials_;
  const auto client = Client::Create(address(), options);
  if (!client.ok()) return 0;
  const auto info = (*client)->GetServerInfo();
  return info.ok() ? info->max_request_bytes : 0;
}

bool AttackedServer::Probe() const {
  std::string arguments =
      "--probe --probe-timeout-ms 5000 --listen " + process_->address();
  if (way_ == Way::kMutual || way_ == Way::kStranger) {
    for (const std::string& flag : TheSecrets().mutual) arguments += ' ' + flag;
  }
  const auto [code, text] = bench::RunQuantd(arguments);
  if (code != 0) std::cerr << text;
  return code == 0;
}

int64_t AttackedServer::LentBytes() const {
  constexpr std::string_view kName = "\nquantd_memory_used_bytes{";
  const std::string page = HttpGet(metrics_, "/metrics");
  int64_t sum = 0;
  bool any = false;
  for (size_t at = page.find(kName); at != std::string::npos;
       at = page.find(kName, at + 1)) {
    sum += std::atoll(page.c_str() + page.find("} ", at) + 2);
    any = true;
  }
  return any ? sum : -1;
}

bool AttackedServer::Settles(milliseconds patience) const {
  const auto end = Clock::now() + patience;
  while (LentBytes() != 0) {
    if (Clock::now() >= end) return false;
    std::this_thread::sleep_for(milliseconds(50));
  }
  return true;
}

int AttackedServer::Stop(double patience_seconds) {
  EndWatch();
  process_->Signal(SIGTERM);
  return process_->WaitForExit(patience_seconds);
}

int AttackedServer::Crash() {
  EndWatch();
  const int code = process_->WaitForExit(0);
  return code == bench::Process::kRunning ? 0 : code;
}

AttackerProcess::AttackerProcess(const AttackedServer& server,
                                 const Setting& setting, milliseconds time,
                                 const std::vector<std::string>& arguments,
                                 bool shows_token) {
  const std::string program =
      fs::path(bench::SelfPath()).parent_path() / "quantd_attacker";
  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::string> command = {program, server.address()};
  command.insert(command.end(), arguments.begin(), arguments.end());
  command.insert(command.end(),
                 {"--core", std::to_string(cores - 1), "--seconds",
                  std::to_string(time.count() / 1000.0)});
  if (setting.way != Way::kPlain) {
    const std::string& at = TheSecrets().directory;
    command.push_back("--tls");
    if (setting.way != Way::kStranger) {
      command.insert(command.end(), {"--certificate", at + "/client.pem",
                                     "--key", at + "/client.key"});
    }
    if (shows_token)
      command.insert(command.end(), {"--token", kAttackersToken});
  }
  if (setting.way == Way::kEdge) {
    command.insert(command.end(), {"--source", "127.0.0.2"});
  }
  process_ = std::make_unique<bench::Process>(command);
}

Deeds AttackerProcess::Stop() {
  Deeds deeds;
  process_->Signal(SIGTERM);
  process_->WaitForExit(60);
  const auto json = nlohmann::json::parse(process_->Log(), nullptr, false);
  if (json.is_object()) {
    deeds.connections = json.value("connections", 0);
    deeds.failed_connections = json.value("failed_connections", 0);
    deeds.sent_bytes = json.value("sent_bytes", uint64_t{0});
    deeds.seconds = json.value("seconds", 0.0);
  }
  return deeds;
}

}  // namespace quantd::attack
