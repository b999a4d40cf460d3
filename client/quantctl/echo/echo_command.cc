#include "client/quantctl/echo/echo_command.h"

#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <memory>

#include "client/files/file.h"
#include "client/quantctl/echo/echo_server.h"
#include "client/quantctl/signals.h"
#include "fmt/format.h"
#include "proto/net/address.h"

namespace quantd::quantctl {
namespace {

struct Flags {
  EchoOptions echo;
  std::string port_file;
  bool for_parent = false;
};

// Until a signal or, with a parent, until that one's end of the pipe is gone.
void WaitForTheEnd(const std::atomic<int>& stop, bool for_parent) {
  pollfd parent = {for_parent ? STDIN_FILENO : -1, POLLIN, 0};
  while (stop == 0 && poll(&parent, 1, 50) <= 0) {
  }
}

int RunEchoServer(const Options& o, const Flags& flags) {
  const auto& [echo, port_file, for_parent] = flags;
  static std::atomic<int> stop = 0;
  StopOnSignal(&stop);
  const auto server = EchoServer::Start(echo);
  if (!server.ok()) {
    return Fail(o,
                absl::IsInvalidArgument(server.status()) ? kUsage : kInternal,
                server.status());
  }
  if (!security::IsLoopback((*server)->address())) {
    fmt::print(
        stderr,
        "quantctl: whoever reaches {} can use it up: there is no TLS and "
        "no token\n",
        (*server)->address());
  }
  if (!port_file.empty()) {
    if (const auto s = WriteTextFile(port_file, (*server)->address() + "\n");
        !s.ok()) {
      return Fail(o, kCannotWrite, s);
    }
  }
  if (for_parent) {
    fmt::print("{}\n", (*server)->address());
  } else {
    fmt::print(
        "echo at {}: at most {} calls at a time, messages of at most {}; "
        "measure with 'quantctl bench --echo {}'\n",
        (*server)->address(), (*server)->calls(), BytesText(echo.max_bytes),
        (*server)->address());
  }
  std::fflush(stdout);
  WaitForTheEnd(stop, for_parent);
  if (!port_file.empty()) std::remove(port_file.c_str());
  return kOk;
}

}  // namespace

void AddEchoServer(CLI::App* app, std::function<int(const Options&)>* run) {
  const auto flags = std::make_shared<Flags>();
  flags->echo.listen = "127.0.0.1:50152";
  CLI::App* sub = app->add_subcommand(
      "echo-server",
      "Answer calls with bytes and no arithmetic, for 'bench --echo'");
  sub->callback([run, flags] {
    *run = [flags](const Options& o) { return RunEchoServer(o, *flags); };
  });
  sub->add_option("--listen", flags->echo.listen,
                  "Where: HOST:PORT (port 0: a free one) or unix:/PATH")
      ->type_name("ADDRESS")
      ->capture_default_str();
  sub->add_option("--max-bytes", flags->echo.max_bytes,
                  "Of a message, each way (default 256MiB)")
      ->transform(CLI::AsSizeValue(true))
      ->type_name("SIZE");
  sub->add_option("--threads", flags->echo.threads,
                  "That answer; 0: one for each four cores")
      ->check(CLI::Range(0, 64))
      ->capture_default_str();
  sub->add_option("--port-file", flags->port_file,
                  "Write the address there once it listens")
      ->type_name("FILE");
  // Of EchoProcess.
  sub->add_flag("--for-parent", flags->for_parent)->group("");
}

}  // namespace quantd::quantctl
