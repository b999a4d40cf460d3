// A client that makes calls of every kind and compares every reply:
//
//   quantd_soak_caller TARGET KINDS [--seconds N] [--pace-ms N] ...
//
// KINDS is like "quantize:2,invalid:1": kinds from counts.h with the number of
// threads for each. Exits after its time or at SIGTERM, when calls in flight
// have ended, with 0 if no reply was wrong. --counts FILE stores the counts.
// --calls prints a line for each call: its beginning and end in microseconds of
// CLOCK_MONOTONIC, its kind, and its code or WRONG.
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <deque>
#include <iostream>
#include <map>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <thread>

#include "CLI/CLI.hpp"
#include "quantd/local.h"
#include "tests/soak/cases.h"
#include "tests/soak/invalid_calls.h"

namespace quantd::soak {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

volatile sig_atomic_t stopped = 0;

struct Flags {
  std::string target;
  std::string kinds;
  double seconds = 3600;
  int pace_ms = 5;
  int attempts = 4;
  int deadline_ms = 30'000;
  int dead_peer_ms = 20'000;
  int reconnect_every = 0;
  std::string counts;
  bool calls = false;
  ClientOptions options = {};
};

int64_t Microseconds(Clock::time_point at) {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             at.time_since_epoch())
      .count();
}

// The calls of one thread.
class Caller {
 public:
  Caller(const Flags& flags, Kind kind, const std::vector<Case>& cases,
         Counts* counts, uint64_t seed)
      : flags_(flags),
        kind_(kind),
        cases_(cases),
        all_(counts),
        counts_(counts->kinds[kind]),
        random_(seed) {}

  void Run(Clock::time_point end) {
    for (uint64_t i = 0; !stopped && Clock::now() < end; ++i) {
      Rest(end);
      if (stopped) break;
      if (i == 0 || (flags_.reconnect_every > 0 &&
                     i % static_cast<uint64_t>(flags_.reconnect_every) == 0)) {
        if (!Connect()) continue;
      }
      const auto start = Clock::now();
      ++counts_.started;
      const std::string outcome =
          kind_ == kInvalid ? CallInvalid(i) : Call(cases_[i % cases_.size()]);
      if (flags_.calls) {
        std::printf("%lld %lld %s %s\n",
                    static_cast<long long>(Microseconds(start)),
                    static_cast<long long>(Microseconds(Clock::now())),
                    kKindNames[kind_].data(), outcome.c_str());
        std::fflush(stdout);
      }
      std::this_thread::sleep_for(milliseconds(flags_.pace_ms));
    }
  }

 private:
  void Rest(Clock::time_point end) {
    if (all_->paused == 0) return;
    // Free memory in the heap is not a leak, so it is returned first.
    malloc_trim(0);
    ++all_->resting;
    while (all_->paused != 0 && !stopped && Clock::now() < end) {
      std::this_thread::sleep_for(milliseconds(2));
    }
    --all_->resting;
  }

  bool Connect() {
    if (kind_ == kInvalid) {
      auto made = InvalidCalls::Create(flags_.target, flags_.options);
      if (made.ok()) invalid_ = *std::move(made);
      return Usable(made.status());
    }
    ClientOptions options = flags_.options;
    if (kind_ != kShared) options.memory_socket.clear();
    if (kind_ == kStream) options.stream_from = 0;
    if (kind_ == kBands) options.band_bytes = 1 << 20;
    memory_ = {};
    auto made = CreateClient(flags_.target, options);
    if (!made.ok()) return Usable(made.status());
    client_ = *std::move(made);
    return true;
  }
  // Returns whether this thread can make calls after connecting with `status`.
  // A client that is connected continues: certificate files are invalid for a
  // moment while they are replaced.
  bool Usable(const absl::Status& status) {
    if (status.ok() || client_ != nullptr || invalid_ != nullptr) return true;
    std::cerr << status.message() << '\n';
    std::this_thread::sleep_for(milliseconds(100));
    return false;
  }

  // Returns the input in shared memory, or an empty span while the memory
  // socket is unavailable.
  absl::Span<const std::byte> Share(const Case& one) {
    if (memory_.bytes().size() < one.input.size()) {
      auto made = client_->AllocateHost(size_t{4} << 20);
      if (!made.ok()) return one.input;
      memory_ = *std::move(made);
    }
    const auto place = memory_.bytes().subspan(0, one.input.size());
    std::copy(one.input.begin(), one.input.end(), place.begin());
    return place;
  }

  std::string Call(const Case& one) {
    CallOptions call;
    std::thread canceller;
    if (kind_ == kExpired) call.deadline = milliseconds(1 + random_() % 6);
    if (kind_ == kCancelled) {
      CancellationToken token;
      call.cancel = token;
      canceller = std::thread([token, after = random_() % 8'000] {
        std::this_thread::sleep_for(std::chrono::microseconds(after));
        token.Cancel();
      });
    }
    const auto result =
        Ask(*client_, one, kind_ == kShared ? Share(one) : one.input, call);
    if (canceller.joinable()) canceller.join();
    if (!result.ok()) return Failed(result.status());
    counts_.attempts += static_cast<uint64_t>(result->attempts());
    counts_.bands += static_cast<uint64_t>(result->bands());
    counts_.lent += result->transport() == Transport::kShared ? 1 : 0;
    if (!IsRight(one, *result)) {
      ++counts_.wrong;
      return "WRONG";
    }
    ++counts_.right;
    return "OK";
  }

  // Makes an invalid call, which the server must refuse.
  std::string CallInvalid(uint64_t i) {
    const InvalidCalls::Answer answer = invalid_->Call(i);
    if (answer.code == absl::StatusCode::kOk) {
      ++counts_.wrong;
      return "WRONG";
    }
    const auto code = static_cast<size_t>(answer.code);
    ++counts_.attempts;
    ++counts_.failed[code];
    if (answer.told) ++counts_.told[code];
    return answer.code == absl::StatusCode::kInvalidArgument
               ? "OK"
               : absl::StatusCodeToString(answer.code);
  }

  std::string Failed(const absl::Status& status) {
    const auto code = static_cast<size_t>(status.code());
    counts_.attempts += static_cast<uint64_t>(GetAttempts(status));
    ++counts_.failed[code];
    if (GetServerError(status).has_value()) ++counts_.told[code];
    if (kind_ != kCancelled && kind_ != kExpired && ++complaints_ <= 20) {
      std::cerr << kKindNames[kind_] << ": " << status << '\n';
    }
    return absl::StatusCodeToString(status.code());
  }

  const Flags& flags_;
  const Kind kind_;
  const std::vector<Case>& cases_;
  Counts* const all_;
  KindCounts& counts_;
  std::minstd_rand random_;
  int complaints_ = 0;
  std::unique_ptr<Client> client_;
  HostMemory memory_;  // the input of shared calls
  std::unique_ptr<InvalidCalls> invalid_;
};

// Maps the counts from a file, which may exist, or makes them in memory.
Counts* OpenCounts(const std::string& path) {
  int fd = -1;
  if (!path.empty()) {
    fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, sizeof(Counts)) != 0) return nullptr;
  }
  void* at =
      mmap(nullptr, sizeof(Counts), PROT_READ | PROT_WRITE,
           path.empty() ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, fd, 0);
  if (fd >= 0) close(fd);
  // Zero bytes are valid counters.
  return at == MAP_FAILED ? nullptr : static_cast<Counts*>(at);
}

int Main(const Flags& flags) {
  Counts* const counts = OpenCounts(flags.counts);
  if (counts == nullptr) {
    std::cerr << flags.counts << ": cannot store counts\n";
    return 2;
  }
  std::map<Kind, std::vector<Case>> cases;
  std::deque<std::pair<Kind, Caller>> callers;
  std::istringstream kinds(flags.kinds);
  for (std::string word; std::getline(kinds, word, ',');) {
    const size_t colon = word.find(':');
    const std::string name = word.substr(0, colon);
    const auto* const found =
        std::find(std::begin(kKindNames), std::end(kKindNames), name);
    const int threads =
        colon == std::string::npos ? 1 : std::atoi(word.c_str() + colon + 1);
    if (found == std::end(kKindNames) || threads < 1 || threads > 64) {
      std::cerr << "unknown kind of calls: " << word << '\n';
      return 2;
    }
    const auto kind = static_cast<Kind>(found - std::begin(kKindNames));
    if (!cases.contains(kind)) {
      auto made = MakeCases(kind);
      if (!made.ok()) {
        std::cerr << made.status() << '\n';
        return 2;
      }
      cases[kind] = *std::move(made);
    }
    for (int i = 0; i < threads; ++i) {
      callers.emplace_back(
          std::piecewise_construct, std::make_tuple(kind),
          std::make_tuple(std::cref(flags), kind, std::cref(cases[kind]),
                          counts, callers.size() + 1));
    }
  }
  const auto end =
      Clock::now() + milliseconds(static_cast<int64_t>(flags.seconds * 1000));
  std::vector<std::thread> threads;
  counts->threads = callers.size();
  for (auto& [kind, caller] : callers) {
    threads.emplace_back([&caller = caller, end] { caller.Run(end); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const KindCounts& kind : counts->kinds) {
    if (kind.wrong != 0) return 1;
  }
  return 0;
}

}  // namespace
}  // namespace quantd::soak

int main(int argc, char** argv) {
  quantd::soak::Flags flags;
  auto& credentials = flags.options.credentials;
  CLI::App app("Calls a quantd server and compares the replies");
  app.add_option("target", flags.target, "target as in Client::Create")
      ->required();
  app.add_option("kinds", flags.kinds, "KIND:THREADS,...")->required();
  app.add_option("--seconds", flags.seconds, "time to make calls")
      ->capture_default_str();
  app.add_option("--pace-ms", flags.pace_ms, "pause after each call");
  app.add_option("--attempts", flags.attempts, "attempts of each call");
  app.add_option("--deadline-ms", flags.deadline_ms, "deadline of each call");
  app.add_option("--dead-peer-ms", flags.dead_peer_ms,
                 "time until a silent connection counts as lost");
  app.add_option("--reconnect-every", flags.reconnect_every,
                 "calls of a thread between connections; 0: one connection");
  app.add_option("--counts", flags.counts, "file for the counts");
  app.add_flag("--calls", flags.calls, "print a line for each call");
  app.add_option("--memory-socket", flags.options.memory_socket,
                 "memory socket of the server");
  app.add_option("--tls-ca", credentials.ca_file,
                 "authority of the servers' certificates");
  app.add_option("--tls-cert", credentials.certificate_file,
                 "certificate of this client");
  app.add_option("--tls-key", credentials.key_file, "key of this client");
  app.add_option("--token-file", credentials.token_file,
                 "file with a bearer token");
  CLI11_PARSE(app, argc, argv);
  flags.options.channels = 1;
  flags.options.deadline = std::chrono::milliseconds(flags.deadline_ms);
  flags.options.dead_peer_timeout =
      std::chrono::milliseconds(flags.dead_peer_ms);
  flags.options.retry.max_attempts = flags.attempts;
  flags.options.local = {.memory_budget = 64 << 20, .slots = 1, .threads = 1};
  // Uses a single arena, because malloc_trim does not trim the ends of others.
  // This test looks for leaks, not for peaks of arenas.
  mallopt(M_ARENA_MAX, 1);
  signal(SIGTERM, [](int) { quantd::soak::stopped = 1; });
  signal(SIGPIPE, SIG_IGN);
  return quantd::soak::Main(flags);
}
