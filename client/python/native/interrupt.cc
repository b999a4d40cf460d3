#include "client/python/native/interrupt.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <thread>
#include <utility>

namespace quantd::python {
namespace {

constexpr std::array kSignals = {SIGINT, SIGTERM};

// Cancelling a call is not allowed in a signal handler. Therefore the handler
// wakes a thread, which cancels the call.
struct Watcher {
  sem_t wake;
  std::atomic<bool> interrupted{false};
  // The replaced handlers. Unused for signals that are not watched.
  std::array<struct sigaction, kSignals.size()> before = {};
  std::array<bool, kSignals.size()> installed = {};

  std::mutex mutex;
  const CancellationToken* token = nullptr;  // of the call in progress, if any

  Watcher() {
    sem_init(&wake, /*pshared=*/0, 0);
    // The new thread blocks all signals, so that older threads receive them.
    sigset_t all;
    sigset_t old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    std::thread([this] { Run(); }).detach();
    pthread_sigmask(SIG_SETMASK, &old, nullptr);
  }

  void Run() {
    for (;;) {
      if (sem_wait(&wake) != 0) continue;
      const std::lock_guard lock(mutex);
      // The interrupted call may have ended: do not cancel the one that
      // followed.
      if (token != nullptr && interrupted) token->Cancel();
    }
  }
};

// Never destroyed: its thread ends with the process.
std::atomic<Watcher*> watcher{nullptr};

void OnSignal(int number, siginfo_t* info, void* context) {
  const int saved = errno;
  Watcher& w = *watcher;
  for (size_t i = 0; i < kSignals.size(); ++i) {
    if (kSignals[i] != number) continue;
    if (w.before[i].sa_flags & SA_SIGINFO) {
      w.before[i].sa_sigaction(number, info, context);
    } else {
      w.before[i].sa_handler(number);
    }
  }
  w.interrupted = true;
  sem_post(&w.wake);
  errno = saved;
}

void Install(Watcher& w, size_t i) {
  if (sigaction(kSignals[i], nullptr, &w.before[i]) != 0) return;
  const bool info = w.before[i].sa_flags & SA_SIGINFO;
  if (!info && (w.before[i].sa_handler == SIG_DFL ||
                w.before[i].sa_handler == SIG_IGN)) {
    return;
  }
  struct sigaction ours = w.before[i];
  ours.sa_flags |= SA_SIGINFO;
  ours.sa_sigaction = &OnSignal;
  w.installed[i] = sigaction(kSignals[i], &ours, nullptr) == 0;
}

}  // namespace

InterruptWatch::InterruptWatch(CancellationToken token)
    : token_(std::move(token)) {
  if (watcher == nullptr) watcher = new Watcher;
  Watcher& w = *watcher;
  {
    const std::lock_guard lock(w.mutex);
    first_ = w.token == nullptr;
    if (!first_) return;
    w.interrupted = false;
    w.token = &token_;
  }
  for (size_t i = 0; i < kSignals.size(); ++i) Install(w, i);
}

InterruptWatch::~InterruptWatch() {
  if (!first_) return;
  Watcher& w = *watcher;
  for (size_t i = 0; i < kSignals.size(); ++i) {
    if (w.installed[i]) sigaction(kSignals[i], &w.before[i], nullptr);
    w.installed[i] = false;
  }
  const std::lock_guard lock(w.mutex);
  w.token = nullptr;
}

bool InterruptWatch::interrupted() const {
  return first_ && (*watcher).interrupted;
}

}  // namespace quantd::python
