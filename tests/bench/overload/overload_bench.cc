// Measures a server under overload. Calls arrive at several times the rate that
// it can serve, and a refused caller retries once, after the stated delay. The
// results are the number of served calls, the latency of refusals, and whether
// retries succeed.
//
//   overload_bench [--server FLAG...] [--times 5] [--seconds 4]
//                  [--sizes 1,16,128] [--least-deadline-ms 10]
//                  [--output FILE]
//
// For each size (MiB of bf16, quantized to both copies of NVFP4, rotated) it
// starts a server on loopback and measures:
//
// 1. alone: one caller. The deadline in the overload is twice its p99, but at
//    least --least-deadline-ms.
// 2. best: the most calls a second of 1, 2, 4 or 8 callers.
// 3. overload: an open loop at `times` that rate, and retries. All calls have
//    the deadline, so a call that is accepted but late has failed. Then `best`
//    is measured once more, and results are compared with the mean of both.
//
// Callers and server share the machine's cores, so the server lacks the time
// that callers spend on refused calls. Unless --server says otherwise, its
// device has one thread and one slot, so that the device limits the rate, and
// not the time to send.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <fstream>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <queue>
#include <string>
#include <thread>
#include <vector>

#include "CLI/CLI.hpp"
#include "quantd/client.h"
#include "quantd/error.h"
#include "tests/bench/quantile.h"
#include "tests/bench/rpc_process.h"

namespace quantd::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;
using std::chrono::milliseconds;

constexpr int64_t kColumns = 1024;
constexpr milliseconds kAmple{30'000};
// The default of the shortest deadline, so that the scheduler of a shared
// machine does not determine the results.
constexpr double kLeastDeadlineMs = 10;

double Milliseconds(Clock::duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

// Makes calls, which all send the same tensor.
class Calls {
 public:
  Calls(const std::string& target, size_t mebibytes)
      : tensor_{DType::kBF16,
                {static_cast<int64_t>(mebibytes << 20) / (2 * kColumns),
                 kColumns}},
        input_(mebibytes << 20, std::byte{0x3f}) {
    options_.format = Format::kNvfp4;
    options_.usage = Usage::kBoth;
    options_.rht.rowwise = options_.rht.columnwise = true;
    ClientOptions options;
    options.channels = 8;
    options.retry.max_attempts = 1;
    auto client = Client::Create(target, options);
    if (client.ok()) client_ = *std::move(client);
  }
  bool ok() const { return client_ != nullptr; }
  absl::Status Call(milliseconds deadline) {
    CallOptions call;
    call.deadline = deadline;
    return client_->Quantize(tensor_, input_, options_, call).status();
  }

 private:
  const TensorDesc tensor_;
  const std::vector<std::byte> input_;
  QuantizeOptions options_;
  std::unique_ptr<Client> client_;
};

struct Closed {
  double calls_per_second = 0;
  std::vector<double> ms;
};

// Runs callers that each make one call after another.
Closed RunClosed(Calls& calls, int callers, double seconds) {
  Closed result;
  std::mutex mutex;
  const Clock::time_point start = Clock::now();
  const auto end = start + std::chrono::duration_cast<Clock::duration>(
                               std::chrono::duration<double>(seconds));
  std::vector<std::thread> threads;
  for (int i = 0; i < callers; ++i) {
    threads.emplace_back([&] {
      for (Clock::time_point begin = Clock::now(); begin < end;) {
        const bool good = calls.Call(kAmple).ok();
        const Clock::time_point now = Clock::now();
        const std::lock_guard lock(mutex);
        if (good) result.ms.push_back(Milliseconds(now - begin));
        begin = now;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  result.calls_per_second = static_cast<double>(result.ms.size()) /
                            (Milliseconds(Clock::now() - start) / 1e3);
  return result;
}

// An open loop, and one retry of refused calls.
class Overload {
 public:
  Overload(Calls& calls, double rate, double seconds, milliseconds deadline)
      : calls_(calls), deadline_(deadline), start_(Clock::now()) {
    const auto count = static_cast<int>(rate * seconds);
    for (int i = 0; i < count; ++i) {
      due_.push({At(static_cast<double>(i) / rate), false});
    }
    end_ = At(seconds);
  }

  Json Run(int callers) {
    std::vector<std::thread> threads;
    for (int i = 0; i < callers; ++i) threads.emplace_back([this] { Work(); });
    for (std::thread& thread : threads) thread.join();
    // Counts calls until the end of the loop, since retries may follow long
    // after it.
    const double seconds = Milliseconds(end_ - start_) / 1e3;
    return {{"offered", offered_},
            {"accepted", accepted_ms_.size()},
            {"refused", refused_ms_.size()},
            {"expired", expired_},
            {"failed", failed_},
            {"unsent", unsent_},
            {"calls_per_second", static_cast<double>(in_time_) / seconds},
            {"accepted_p50_ms", Quantile(accepted_ms_, 0.5)},
            {"accepted_p99_ms", Quantile(accepted_ms_, 0.99)},
            {"refusal_p50_ms", Quantile(refused_ms_, 0.5)},
            {"refusal_p99_ms", Quantile(refused_ms_, 0.99)},
            {"delay_p50_ms", Quantile(delays_ms_, 0.5)},
            {"delay_max_ms", Quantile(delays_ms_, 1)},
            {"retries", retries_},
            {"retries_that_succeeded",
             retries_ == 0 ? 0.0
                           : static_cast<double>(retries_good_) /
                                 static_cast<double>(retries_)}};
  }

 private:
  struct Due {
    Clock::time_point at;
    bool retry;
    bool operator<(const Due& other) const { return at > other.at; }
  };

  Clock::time_point At(double seconds) const {
    return start_ + std::chrono::duration_cast<Clock::duration>(
                        std::chrono::duration<double>(seconds));
  }

  // One idle caller at a time waits for the next call's time. If all idle
  // callers waited, they would take CPU time from the others.
  void Work() {
    std::unique_lock lock(mutex_);
    while (true) {
      free_.wait(lock, [&] { return !awaited_ || over_; });
      if (over_) return;
      awaited_ = true;
      while (due_.empty() ? calling_ != 0 : Clock::now() < due_.top().at) {
        due_.empty() ? changed_.wait(lock)
                     : (void)changed_.wait_until(lock, due_.top().at);
      }
      awaited_ = false;
      if (due_.empty()) {
        over_ = true;
        return free_.notify_all();
      }
      const Due next = due_.top();
      due_.pop();
      ++calling_;
      free_.notify_one();
      lock.unlock();
      const Clock::time_point begin = Clock::now();
      // A call that no caller could send in time does not count.
      const bool sent = begin <= next.at + deadline_;
      const absl::Status status =
          sent ? calls_.Call(deadline_) : absl::OkStatus();
      const Clock::time_point now = Clock::now();
      lock.lock();
      --calling_;
      sent ? Count(next, status, begin, now) : (void)++unsent_;
      changed_.notify_one();
    }
  }

  void Count(const Due& call, const absl::Status& status,
             Clock::time_point begin, Clock::time_point now) {
    call.retry ? ++retries_ : ++offered_;
    // gRPC's clock has milliseconds, so a reply may arrive slightly after the
    // deadline.
    if (status.ok() && now - begin > deadline_) {
      ++expired_;
    } else if (status.ok()) {
      accepted_ms_.push_back(Milliseconds(now - begin));
      if (call.retry) ++retries_good_;
      if (now <= end_) ++in_time_;
    } else if (absl::IsResourceExhausted(status)) {
      refused_ms_.push_back(Milliseconds(now - begin));
      const auto hint = GetRetryHint(status);
      if (call.retry || !hint) return;
      delays_ms_.push_back(static_cast<double>(hint->delay.count()));
      due_.push({now + hint->delay, true});
    } else if (absl::IsDeadlineExceeded(status)) {
      ++expired_;
    } else {
      ++failed_;
    }
  }

  Calls& calls_;
  const milliseconds deadline_;
  const Clock::time_point start_;
  Clock::time_point end_;
  std::mutex mutex_;
  std::condition_variable
      free_;  // signals that no caller waits for the next call's time
  std::condition_variable changed_;  // signals the caller that waits for it
  bool awaited_ = false;
  bool over_ = false;
  std::priority_queue<Due> due_;
  int calling_ = 0;
  uint64_t offered_ = 0;
  uint64_t expired_ = 0;
  uint64_t failed_ = 0;
  uint64_t unsent_ = 0;
  uint64_t in_time_ = 0;
  uint64_t retries_ = 0;
  uint64_t retries_good_ = 0;
  std::vector<double> accepted_ms_;
  std::vector<double> refused_ms_;
  std::vector<double> delays_ms_;
};

Json Measure(const std::vector<std::string>& flags, size_t mebibytes,
             double times, double seconds, double least_deadline_ms) {
  std::vector<std::string> command = {FindQuantd(), "--listen", "127.0.0.1:0",
                                      "--device", "cpu"};
  command.insert(command.end(), flags.begin(), flags.end());
  const ServerProcess server(command);
  Calls calls(server.address(), mebibytes);
  if (!server.running() || !calls.ok()) {
    return {{"mebibytes", mebibytes}, {"error", server.Log()}};
  }
  RunClosed(calls, 1, seconds / 4);
  const Closed alone = RunClosed(calls, 1, seconds);
  Closed best;
  int best_callers = 0;
  for (const int callers : {1, 2, 4, 8}) {
    Closed now = RunClosed(calls, callers, seconds / 2);
    if (now.calls_per_second <= best.calls_per_second) continue;
    best = std::move(now);
    best_callers = callers;
  }
  const double p99 = Quantile(alone.ms, 0.99);
  const milliseconds deadline(
      static_cast<int64_t>(std::max({2 * p99, least_deadline_ms, 1.0})));
  const double rate = times * best.calls_per_second;
  // The number of calls that arrive within one deadline, and some more.
  const int callers = std::clamp(
      static_cast<int>(rate * static_cast<double>(deadline.count()) / 1e3) + 8,
      16, 256);
  Overload overload(calls, rate, seconds, deadline);
  Json row = {{"mebibytes", mebibytes},
              {"alone_p50_ms", Quantile(alone.ms, 0.5)},
              {"alone_p99_ms", p99},
              {"best_calls_per_second", best.calls_per_second},
              {"best_callers", best_callers},
              {"deadline_ms", deadline.count()},
              {"callers", callers}};
  row.update(overload.Run(callers));
  // Measures the best rate again, since it may have changed on a shared
  // machine.
  const double after =
      RunClosed(calls, best_callers, seconds / 2).calls_per_second;
  row["best_after_calls_per_second"] = after;
  row["of_best"] = row["calls_per_second"].get<double>() /
                   ((best.calls_per_second + after) / 2);
  row["accepted_p99_of_alone"] = row["accepted_p99_ms"].get<double>() / p99;
  return row;
}

int Main(int argc, char** argv) {
  std::vector<std::string> flags = {"--cpu-threads", "1", "--slots", "1"};
  std::vector<size_t> sizes = {1, 16, 128};
  double times = 5;
  double seconds = 4;
  double least_deadline_ms = kLeastDeadlineMs;
  std::string output;
  CLI::App app("Calls a server at several times the rate that it can serve.");
  app.add_option("--server", flags, "Flags of the server");
  app.add_option("--times", times, "Multiple of the best rate");
  app.add_option("--seconds", seconds, "Length of each phase");
  app.add_option("--sizes", sizes, "MiB of a call")->delimiter(',');
  app.add_option("--least-deadline-ms", least_deadline_ms,
                 "The shortest deadline");
  app.add_option("--output", output, "File for the rows; stdout by default");
  CLI11_PARSE(app, argc, argv);
  Json rows = Json::array();
  for (const size_t size : sizes) {
    rows.push_back(Measure(flags, size, times, seconds, least_deadline_ms));
    std::printf("%s\n", rows.back().dump().c_str());
    std::fflush(stdout);
  }
  if (output.empty()) return 0;
  std::ofstream file(output);
  file << Json({{"times", times},
                {"seconds", seconds},
                {"cores", std::thread::hardware_concurrency()},
                {"rows", rows}})
              .dump(1)
       << '\n';
  return file.good() ? 0 : 1;
}

}  // namespace
}  // namespace quantd::bench

int main(int argc, char** argv) { return quantd::bench::Main(argc, argv); }
