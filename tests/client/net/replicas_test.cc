// Tests that no call of the SDK fails while real servers are stopped and
// restarted under load, and that every reply equals that of an undisturbed
// server.
//
// Four stops by default; QUANTD_STOPS=40 for the long form, in which at least
// 10,000 calls are made.
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "fmt/format.h"
#include "quantd/client.h"
#include "tests/bench/rpc_process.h"
#include "tests/testing/matchers.h"

namespace quantd {
namespace {

using bench::ServerProcess;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr int kReplicas = 3;
constexpr int kThreads = 6;

std::unique_ptr<ServerProcess> Start(const std::string& address) {
  return std::make_unique<ServerProcess>(std::vector<std::string>{
      bench::FindQuantd(), "--listen", address, "--device", "cpu:0",
      "--cpu-threads", "1", "--memory-budget", "256MiB", "--drain-delay-ms",
      "300", "--log-level", "warn"});
}

// A request and the expected bytes of its reply.
class Case {
 public:
  Case(int64_t rows, int64_t cols, Format format, bool decode) {
    desc_ = {DType::kBF16, {rows, cols}};
    input_.resize(static_cast<size_t>(rows * cols));
    std::mt19937 random(static_cast<unsigned>(rows));
    // bf16 numbers of both signs, from 2^-7 to almost 2.
    for (uint16_t& v : input_) {
      v = static_cast<uint16_t>((random() & 0x87FF) | 0x3C00);
    }
    options_.format = format;
    options_.usage = decode ? Usage::kRowwise : Usage::kBoth;
    decode_ = decode;
  }

  // Gets the expected reply from an undisturbed server.
  absl::Status Learn(Client& client) {
    auto quantized = Quantize(client);
    if (!quantized.ok()) return quantized.status();
    if (!decode_) {
      expected_ = BytesOf(*quantized);
      return absl::OkStatus();
    }
    quantized_ = std::make_unique<Result>(*std::move(quantized));
    const auto decoded = Dequantize(client);
    if (!decoded.ok()) return decoded.status();
    expected_ = BytesOf(*decoded);
    return absl::OkStatus();
  }

  absl::StatusOr<Result> Ask(Client& client) const {
    return decode_ ? Dequantize(client) : Quantize(client);
  }
  bool Is(const Result& result) const { return BytesOf(result) == expected_; }

 private:
  static std::vector<std::byte> BytesOf(const Result& result) {
    std::vector<std::byte> all;
    for (const TensorSpec& part : result.parts()) {
      const auto bytes = result.bytes(part.kind);
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
    return all;
  }
  absl::StatusOr<Result> Quantize(Client& client) const {
    return client.Quantize(
        desc_,
        {reinterpret_cast<const std::byte*>(input_.data()), input_.size() * 2},
        options_);
  }
  absl::StatusOr<Result> Dequantize(Client& client) const {
    DequantizeOptions options;
    options.format = options_.format;
    options.usage = Usage::kRowwise;
    options.output = DType::kF32;
    return client.Dequantize(desc_,
                             {quantized_->bytes(TensorKind::kRowwiseData),
                              quantized_->bytes(TensorKind::kRowwiseScale),
                              quantized_->amaxes(TensorKind::kRowwiseAmax)},
                             options);
  }

  TensorDesc desc_;
  std::vector<uint16_t> input_;
  QuantizeOptions options_;
  bool decode_ = false;
  std::unique_ptr<Result> quantized_;
  std::vector<std::byte> expected_;
};

struct Tally {
  std::atomic<int> calls = 0;
  std::atomic<int> sent_again = 0;
  std::atomic<int> most_sent = 0;
  std::atomic<int> failed = 0;
  std::atomic<int> wrong = 0;
  std::atomic<int64_t> longest_ms = 0;
};

template <typename Value>
void RaiseTo(std::atomic<Value>* highest, Value value) {
  Value seen = highest->load();
  while (seen < value && !highest->compare_exchange_weak(seen, value)) {
  }
}

void CallUntil(const std::atomic<bool>& over, Client& client,
               const std::vector<Case>& cases, int seed, Tally* tally) {
  std::mt19937 random(static_cast<unsigned>(seed));
  while (!over) {
    // Picks mostly small requests, so that there are many calls, and sometimes
    // a large one.
    const size_t which =
        random() % 16 == 0 ? random() % cases.size() : random() % 2;
    const auto start = steady_clock::now();
    const auto result = cases[which].Ask(client);
    RaiseTo(&tally->longest_ms,
            int64_t{(steady_clock::now() - start) / milliseconds(1)});
    ++tally->calls;
    if (!result.ok()) {
      ++tally->failed;
      ADD_FAILURE() << result.status();
      continue;
    }
    if (!cases[which].Is(*result)) ++tally->wrong;
    if (result->attempts() > 1) ++tally->sent_again;
    RaiseTo(&tally->most_sent, result->attempts());
  }
}

TEST(Replicas, NoCallFailsWhileServersRestart) {
  ASSERT_NE(bench::FindQuantd(), "") << "the quantd binary is not built";
  const char* wanted = std::getenv("QUANTD_STOPS");
  const int stops = wanted != nullptr ? std::atoi(wanted) : 4;
  const int least_calls = stops >= 20 ? 10'000 : 100;

  std::vector<std::unique_ptr<ServerProcess>> replicas;
  std::vector<std::string> addresses;
  std::string target;
  for (int i = 0; i < kReplicas; ++i) {
    replicas.push_back(Start("127.0.0.1:0"));
    ASSERT_TRUE(replicas.back()->running()) << replicas.back()->Log();
    addresses.push_back(replicas.back()->address());
    target += (i == 0 ? "" : ",") + addresses.back();
  }
  std::vector<Case> cases;
  cases.emplace_back(4, 256, Format::kNvfp4, false);
  cases.emplace_back(64, 512, Format::kNvfp4, true);
  cases.emplace_back(512, 1024, Format::kMxfp8E4M3, false);
  cases.emplace_back(2048, 1024, Format::kNvfp4, false);
  cases.emplace_back(2048, 2048, Format::kNvfp4, true);
  {
    const auto alone = Client::Create(addresses[0]);
    ASSERT_THAT(alone, IsOk());
    for (Case& c : cases) ASSERT_THAT(c.Learn(**alone), IsOk());
  }

  const auto client = Client::Create(target);
  ASSERT_THAT(client, IsOk());
  Tally tally;
  std::atomic<bool> over = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back(
        [&, i] { CallUntil(over, **client, cases, i, &tally); });
  }
  const auto start = steady_clock::now();
  int terminated = 0;
  int unclean = 0;
  std::mt19937 random(7);
  for (int stop = 0; stop < stops; ++stop) {
    std::this_thread::sleep_for(milliseconds(300 + random() % 300));
    auto& replica = replicas[static_cast<size_t>(stop % kReplicas)];
    const bool gently = stop % 2 == 0;
    replica->Signal(gently ? SIGTERM : SIGKILL);
    const int code = replica->WaitForExit(60);
    if (gently) {
      ++terminated;
      if (code != 0) {
        ++unclean;
        ADD_FAILURE() << "exit code " << code << "\n" << replica->Log();
      }
    }
    replica.reset();
    replica = Start(addresses[static_cast<size_t>(stop % kReplicas)]);
    ASSERT_TRUE(replica->running()) << replica->Log();
  }
  while (tally.calls < least_calls &&
         steady_clock::now() - start < std::chrono::minutes(5)) {
    std::this_thread::sleep_for(milliseconds(50));
  }
  over = true;
  for (std::thread& t : threads) t.join();
  const std::string account = fmt::format(
      "{} stops ({} SIGTERM, {} SIGKILL), {} calls in {:.1f} s: {} failed, {} "
      "wrong, {} sent again, at most {} times; the longest took {} ms",
      stops, terminated, stops - terminated, tally.calls.load(),
      std::chrono::duration<double>(steady_clock::now() - start).count(),
      tally.failed.load(), tally.wrong.load(), tally.sent_again.load(),
      tally.most_sent.load(), tally.longest_ms.load());
  fmt::print("{}\n", account);
  RecordProperty("account", account);
  EXPECT_EQ(tally.failed, 0);
  EXPECT_EQ(tally.wrong, 0);
  EXPECT_EQ(unclean, 0);
  EXPECT_GE(tally.calls, least_calls);
}

// A single server is killed and restarted a moment later. Its clients must find
// it again before gRPC's slow reconnection would. The parameter is the number
// of attempts; with one, every call in the meantime fails.
class Alone : public testing::TestWithParam<int> {};

TEST_P(Alone, RestartedServerIsFoundSoon) {
  auto server = Start("127.0.0.1:0");
  ASSERT_TRUE(server->running()) << server->Log();
  const std::string address = server->address();
  ClientOptions options;
  options.retry = {.max_attempts = GetParam(),
                   .initial_backoff = milliseconds(50),
                   .max_backoff = milliseconds(200)};
  const auto client = Client::Create(address, options);
  ASSERT_THAT(client, IsOk());
  const Case one(16, 64, Format::kNvfp4, false);
  ASSERT_THAT(one.Ask(**client), IsOk());
  server->Signal(SIGKILL);
  server->WaitForExit(30);
  std::atomic<bool> served = false;
  std::thread caller([&] {
    const auto end = steady_clock::now() + std::chrono::seconds(60);
    while (!served && steady_clock::now() < end) {
      const auto result = one.Ask(**client);
      EXPECT_TRUE(result.ok() || GetParam() == 1) << result.status();
      served = result.ok();
      if (!served) std::this_thread::sleep_for(milliseconds(5));
    }
    EXPECT_TRUE(served);
  });
  std::this_thread::sleep_for(milliseconds(1000));
  EXPECT_FALSE(served);
  server = Start(address);
  EXPECT_TRUE(server->running()) << server->Log();
  const auto back = steady_clock::now();
  caller.join();
  EXPECT_LT(steady_clock::now() - back, milliseconds(2500));
}

INSTANTIATE_TEST_SUITE_P(Attempts, Alone, testing::Values(1, 1000));

}  // namespace
}  // namespace quantd
