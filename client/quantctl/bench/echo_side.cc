#include "client/quantctl/bench/echo_side.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "client/quantctl/echo/echo_server.h"
#include "fmt/format.h"
#include "proto/net/address.h"

namespace quantd::quantctl {
namespace {

// Beyond so many nothing was won.
constexpr int kMostConnections = 8;
// A trial's part of the bytes, and its seconds.
constexpr size_t kTrialBytes = size_t{256} << 20;
constexpr double kTrialSeconds = 0.3;
constexpr size_t kTaken = 3;

absl::Status NoCeiling(std::string_view why) {
  return absl::InvalidArgumentError(fmt::format("--echo: {}", why));
}

absl::Status Check(const std::string& echo, const Options& o) {
  const Credentials& c = o.credentials;
  if (o.server == "local" || o.server.starts_with("local:")) {
    return NoCeiling(
        "with --server local nothing is sent; name a server with --server");
  }
  if (!o.memory_socket.empty()) {
    return NoCeiling(
        "what lies in shared memory is not sent; do without --memory-socket "
        "(and QUANTD_MEMORY_SOCKET)");
  }
  if (c.tls || !c.ca_file.empty() || !c.certificate_file.empty()) {
    return NoCeiling(
        "an echo does not encrypt, so it is no ceiling for a server that does; "
        "measure one without TLS");
  }
  if (echo == "self" && !security::IsLoopback(o.server)) {
    return NoCeiling(fmt::format(
        "self is on this machine, and {} is not; run 'quantctl echo-server "
        "--listen HOST:50152' there, and name that",
        o.server));
  }
  return {};
}

}  // namespace

absl::StatusOr<std::unique_ptr<EchoSide>> EchoSide::Create(
    const std::string& echo, const Options& options, int connections) {
  if (auto s = Check(echo, options); !s.ok()) return s;
  std::unique_ptr<EchoSide> side(new EchoSide(connections));
  std::string address = echo;
  if (echo == "self") {
    // As the server is reached; by what leaves no file.
    auto process = EchoProcess::Start(
        options.server.starts_with("unix")
            ? fmt::format("unix-abstract:quantctl-echo-{}", getpid())
            : "127.0.0.1:0");
    if (!process.ok()) return process.status();
    side->process_ = *std::move(process);
    address = side->process_->address();
  }
  auto client =
      EchoClient::Create(address, std::max(connections, kMostConnections),
                         CallOf(options).deadline);
  if (!client.ok()) return client.status();
  side->client_ = *std::move(client);
  return side;
}

std::vector<Arrangement> EchoSide::ArrangementsFor(uint64_t bytes,
                                                   uint64_t reply_bytes,
                                                   bool in_then_out,
                                                   int connections) {
  std::vector<Arrangement> found;
  // Larger ones an echo does not take, unless it is told to. (One message is
  // all there before its answer is.)
  if (std::max(bytes, reply_bytes) <= EchoOptions().max_bytes) {
    found.push_back({});
  }
  std::vector<int> counts = {1, 2, 4, kMostConnections};
  if (connections > kMostConnections) counts.push_back(connections);
  for (const size_t piece :
       {size_t{256} << 10, size_t{1} << 20, size_t{4} << 20}) {
    for (const int count : counts) {
      // Else there is nothing for one of them.
      if (bytes <= piece * (static_cast<uint64_t>(count) - 1)) continue;
      if (bytes <= piece) continue;
      found.push_back({piece, count, false, in_then_out});
      if (!in_then_out) found.push_back({piece, count, true, false});
    }
  }
  return found;
}

absl::Status EchoSide::FirstCall(absl::Span<const std::byte> input,
                                 uint64_t reply_bytes) {
  const auto some = input.subspan(0, std::min<size_t>(input.size(), 1 << 20));
  std::vector<std::byte> output(std::min<uint64_t>(some.size(), reply_bytes));
  const auto s = client_->Exchange(some, absl::MakeSpan(output), {});
  if (!s.ok()) return s;
  if (!std::equal(output.begin(), output.end(), some.begin())) {
    return absl::InternalError(
        "what the echo answered is not what was sent: name a quantctl "
        "echo-server with --echo");
  }
  return {};
}

absl::StatusOr<std::vector<Arrangement>> EchoSide::BestFor(
    absl::Span<const std::byte> input, uint64_t reply_bytes, bool in_then_out,
    const Load& load, const std::atomic<int>& stop) {
  const auto some = input.subspan(0, std::min(input.size(), kTrialBytes));
  const auto reply = static_cast<uint64_t>(static_cast<double>(reply_bytes) *
                                           static_cast<double>(some.size()) /
                                           static_cast<double>(input.size()));
  std::vector<std::pair<double, Arrangement>> tried;
  for (const Arrangement& how :
       ArrangementsFor(input.size(), reply_bytes, in_then_out, connections_)) {
    const auto call = [&] { return Call(some, reply, how); };
    // The first warms up.
    if (const auto s = call(); !s.ok()) return s;
    const Outcome trial =
        RunLoad({load.callers, 0, kTrialSeconds, load.calls}, call, stop);
    if (!trial.error.ok()) return trial.error;
    if (stop != 0) break;
    tried.emplace_back(static_cast<double>(trial.good) / trial.seconds, how);
  }
  {
    // Of the trial's size.
    const std::lock_guard lock(mutex_);
    spare_.clear();
  }
  std::stable_sort(
      tried.begin(), tried.end(),
      [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<Arrangement> best;
  for (const auto& [rate, how] : tried) {
    if (best.size() < kTaken) best.push_back(how);
  }
  return best;
}

absl::Status EchoSide::Call(absl::Span<const std::byte> input,
                            uint64_t reply_bytes, const Arrangement& how) {
  std::vector<std::byte> output;
  {
    const std::lock_guard lock(mutex_);
    if (!spare_.empty()) {
      output = std::move(spare_.back());
      spare_.pop_back();
    }
  }
  if (output.size() != reply_bytes) output.resize(reply_bytes);
  const auto s = client_->Exchange(input, absl::MakeSpan(output), how);
  const std::lock_guard lock(mutex_);
  spare_.push_back(std::move(output));
  return s;
}

}  // namespace quantd::quantctl
