// Runs one attack on one server in a separate process, so that its cost does
// not affect the measuring clients.
//
//     quantd_attacker ADDRESS ATTACK [--seconds N] [--source IP] [--tls]
//       [--certificate FILE --key FILE] [--token T] [--core N]
//       [--largest-request N]
//     quantd_attacker ADDRESS honest --connections N --call-bytes N --rate N
//
// Ends after its time or at SIGTERM, and prints its statistics as a line of
// JSON. Use it only on your own servers.
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "CLI/CLI.hpp"
#include "tests/attack/attacks.h"

namespace {

using quantd::attack::Assault;
using quantd::attack::Attack;
using quantd::attack::Socket;

constexpr char kHonest[] = "honest";

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Attacks a quantd server");
  quantd::attack::Target target;
  std::string name;
  double seconds = 5;
  int core = -1;
  size_t largest_request = size_t{64} << 20;
  int connections = 1;
  size_t call_bytes = 64 << 10;
  double rate = 1e6;
  app.add_option("address", target.address, "IP:PORT or unix:PATH")->required();
  app.add_option("attack", name, "name of the attack, \"honest\" or \"list\"")
      ->required();
  app.add_option("--seconds", seconds, "length of the attack")
      ->capture_default_str();
  app.add_option("--source", target.source, "source IP address");
  app.add_flag("--tls", target.tls, "TLS without verifying the server");
  app.add_option("--certificate", target.certificate,
                 "PEM file of a client certificate");
  app.add_option("--key", target.key, "PEM file of its key");
  app.add_option("--token", target.token, "bearer token to send");
  app.add_option("--core", core, "the only core to run on");
  app.add_option("--largest-request", largest_request,
                 "largest request that the server reports")
      ->capture_default_str();
  app.add_option("--connections", connections, "honest: number of connections");
  app.add_option("--call-bytes", call_bytes, "honest: bytes of a call");
  app.add_option("--rate", rate, "honest: bytes per second of all connections");
  CLI11_PARSE(app, argc, argv);

  if (name == "list") {
    for (const Attack& attack : quantd::attack::Attacks()) {
      std::cout << attack.name << ": " << attack.what << '\n';
    }
    return 0;
  }
  const Attack* const attack = quantd::attack::FindAttack(name);
  if (attack == nullptr && name != kHonest) {
    std::cerr << "quantd_attacker: no attack " << name << "; try \"list\"\n";
    return 2;
  }
  if (core >= 0) {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET(core, &cores);
    sched_setaffinity(0, sizeof(cores), &cores);
  }
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &stop, nullptr);
  signal(SIGPIPE, SIG_IGN);

  const std::chrono::milliseconds time(static_cast<int64_t>(seconds * 1000));
  const auto start = Assault::Clock::now();
  auto* const assault = new Assault(target, time, largest_request);
  std::thread([&] {
    if (attack != nullptr) {
      attack->run(*assault);
    } else {
      quantd::attack::RunHonestly(*assault, connections, call_bytes, rate);
    }
    kill(getpid(), SIGTERM);
  }).detach();
  int number = 0;
  sigwait(&stop, &number);
  const nlohmann::json done = {
      {"connections", assault->connections()},
      {"failed_connections", assault->failed_connections()},
      {"sent_bytes", Socket::SentByAll()},
      {"seconds",
       std::chrono::duration<double>(Assault::Clock::now() - start).count()}};
  std::cout << done.dump() << std::endl;
  Socket::ResetAll();
  // _exit, because threads of the attack may still run.
  _exit(0);
}
