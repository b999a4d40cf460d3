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

struct Farewell {
  std::mutex mutex;
  std::string text;
};
Farewell& TheFarewell() {
  // Never destroyed, because the waiting thread may still read it during exit.
  static auto* const farewell = new Farewell;
  return *farewell;
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
    Farewell& farewell = TheFarewell();
    const std::lock_guard lock(farewell.mutex);
    if (!farewell.text.empty()) {
      const std::string line =
          fmt::format("quantctl: interrupted; {}\n", farewell.text);
      [[maybe_unused]] const auto n =
          write(STDERR_FILENO, line.data(), line.size());
    }
  }
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, signal);
  pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
  raise(signal);
  // Reached by the first process of a container, which its own signal does not
  // end.
  _exit(128 + signal);
}

}  // namespace

void SayOnSignals(const std::string& text) {
  Farewell& farewell = TheFarewell();
  const std::lock_guard lock(farewell.mutex);
  farewell.text = text;
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
