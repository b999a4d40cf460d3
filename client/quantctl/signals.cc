#include "client/quantctl/signals.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <mutex>
#include <thread>

#include "client/files/file.h"
#include "fmt/format.h"

namespace quantd::quantctl {
namespace {

// The text to print if a signal ends the process.
struct ExitText {
  std::mutex mutex;
  std::string text;
};
ExitText& TheExitText() {
  // Never destroyed, because the waiting thread may still read it during exit.
  static auto* const exit_text = new ExitText;
  return *exit_text;
}

std::atomic<std::atomic<int>*> to_stop = nullptr;

// Waits for a signal on a thread of its own, because a signal handler may not
// lock a mutex or free memory.
void WaitAndEnd(sigset_t signals) {
  int signal = 0;
  if (sigwait(&signals, &signal) != 0) return;
  if (std::atomic<int>* const stop = to_stop.exchange(nullptr)) {
    *stop = signal;
    if (sigwait(&signals, &signal) != 0) return;
  }
  OutputFile::AbandonAll();
  // Clears the progress bar. Ignores errors.
  if (isatty(STDERR_FILENO) == 1) {
    [[maybe_unused]] const auto n = write(STDERR_FILENO, "\r\x1b[K", 4);
  }
  {
    ExitText& exit_text = TheExitText();
    const std::lock_guard lock(exit_text.mutex);
    if (!exit_text.text.empty()) {
      const std::string line =
          fmt::format("quantctl: interrupted; {}\n", exit_text.text);
      [[maybe_unused]] const auto n =
          write(STDERR_FILENO, line.data(), line.size());
    }
  }
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, signal);
  pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
  raise(signal);
  // Reached only by the first process of a container: its own signals do not
  // end it.
  _exit(128 + signal);
}

}  // namespace

void SayOnSignals(const std::string& text) {
  ExitText& exit_text = TheExitText();
  const std::lock_guard lock(exit_text.mutex);
  exit_text.text = text;
}

void StopOnSignal(std::atomic<int>* stop) { to_stop = stop; }

void RemoveDraftsOnSignals() {
  ::signal(SIGXFSZ, SIG_IGN);
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGHUP, SIGINT, SIGTERM}) {
    struct sigaction old = {};
    sigaction(number, nullptr, &old);
    if (old.sa_handler != SIG_IGN) sigaddset(&signals, number);
  }
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread(WaitAndEnd, signals).detach();
}

}  // namespace quantd::quantctl
