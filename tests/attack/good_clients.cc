#include "tests/attack/good_clients.h"

#include <algorithm>
#include <cstddef>
#include <thread>
#include <utility>

#include "absl/types/span.h"

namespace quantd::attack {
namespace {

using Clock = std::chrono::steady_clock;

double Milliseconds(Clock::duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

// Returns the quantile `part` of sorted values, or 0 if there are no values.
double Quantile(const std::vector<double>& sorted, double part) {
  if (sorted.empty()) return 0;
  return sorted[static_cast<size_t>(part *
                                    static_cast<double>(sorted.size() - 1))];
}

}  // namespace

class GoodClients::Caller {
 public:
  Caller(const std::string& address, const ClientOptions& options,
         size_t call_bytes)
      : client_(Client::Create(address, options)),
        tensor_{DType::kBF16,
                {static_cast<int64_t>(call_bytes / 2 / kColumns), kColumns}},
        input_(call_bytes) {
    // Fills the input with finite bf16 numbers of many magnitudes.
    uint32_t state = 1;
    for (size_t i = 0; i + 1 < call_bytes; i += 2) {
      state = state * 1664525 + 1013904223;
      input_[i] = static_cast<std::byte>(state >> 16);
      input_[i + 1] = static_cast<std::byte>(0x3c + (state >> 30));
    }
  }

  void CallUntil(Clock::time_point end) {
    times_.clear();
    failed_ = 0;
    while (Clock::now() < end) {
      // Small calls are paced, since the edge limits the rate of calls from an
      // address.
      if (input_.size() < kSmall) std::this_thread::sleep_for(kPace);
      const auto start = Clock::now();
      const absl::Status status = CallOnce();
      times_.push_back(Milliseconds(Clock::now() - start));
      if (!status.ok()) {
        ++failed_;
        error_ = status.ToString();
      }
    }
  }

  const std::vector<double>& times() const { return times_; }
  int failed() const { return failed_; }
  const std::string& error() const { return error_; }

 private:
  static constexpr int64_t kColumns = 1024;
  static constexpr size_t kSmall = 64 << 10;
  static constexpr std::chrono::milliseconds kPace{3};

  absl::Status CallOnce() {
    if (!client_.ok()) return client_.status();
    QuantizeOptions options;
    options.format = Format::kNvfp4;
    const auto result = (*client_)->Quantize(tensor_, input_, options);
    if (!result.ok()) return result.status();
    const auto codes = result->bytes(TensorKind::kRowwiseData);
    if (codes_.empty()) codes_.assign(codes.begin(), codes.end());
    return std::ranges::equal(codes_, codes)
               ? absl::OkStatus()
               : absl::DataLossError("the reply differs from the first one");
  }

  const absl::StatusOr<std::unique_ptr<Client>> client_;
  const TensorDesc tensor_;
  std::vector<std::byte> input_;
  std::vector<std::byte> codes_;  // of the first reply
  std::vector<double> times_;     // in ms
  int failed_ = 0;
  std::string error_;
};

GoodClients::GoodClients(const std::string& address,
                         const Credentials& credentials,
                         const std::vector<Callers>& callers,
                         std::chrono::milliseconds deadline) {
  ClientOptions options;
  options.deadline = deadline;
  options.credentials = credentials;
  for (const Callers& kind : callers) {
    auto& clients = kinds_.emplace_back();
    options.stream_from = kind.streams ? 0 : SIZE_MAX;
    for (int i = 0; i < kind.count; ++i) {
      clients.push_back(
          std::make_unique<Caller>(address, options, kind.call_bytes));
    }
    sizes_.push_back(kind.call_bytes);
  }
}

GoodClients::~GoodClients() = default;

std::vector<Score> GoodClients::Call(std::chrono::milliseconds time) {
  const auto start = Clock::now();
  std::vector<std::thread> threads;
  for (const auto& kind : kinds_) {
    for (const auto& caller : kind) {
      threads.emplace_back([&] { caller->CallUntil(start + time); });
    }
  }
  for (std::thread& thread : threads) thread.join();
  const double seconds = Milliseconds(Clock::now() - start) / 1000;

  std::vector<Score> scores;
  for (size_t i = 0; i < kinds_.size(); ++i) {
    Score score;
    score.call_bytes = sizes_[i];
    std::vector<double> times;
    for (const auto& caller : kinds_[i]) {
      times.insert(times.end(), caller->times().begin(), caller->times().end());
      score.failed += caller->failed();
      if (!caller->error().empty()) score.error = caller->error();
    }
    std::ranges::sort(times);
    score.served = static_cast<int>(times.size()) - score.failed;
    score.calls_per_second = score.served / seconds;
    score.p50_ms = Quantile(times, 0.5);
    score.p99_ms = Quantile(times, 0.99);
    scores.push_back(std::move(score));
  }
  return scores;
}

}  // namespace quantd::attack
