// How a server ends.
#include <algorithm>
#include <chrono>

#include "absl/time/clock.h"
#include "server/gate/steady_time.h"
#include "server/observe/log.h"
#include "server/server.h"

namespace quantd {
namespace {

using Calls = CallRegistry::Kind;

// Time without a refusal, and time for refusals to be sent.
constexpr absl::Duration kQuietTime = absl::Milliseconds(200);
// Longest waits for clients that keep coming, for jobs that hang once all other
// calls are over, and for memory held by replies.
constexpr absl::Duration kPatience = absl::Seconds(2);
// Longest waits for what gRPC is still writing, and for gRPC when nothing is
// left to write.
constexpr std::chrono::seconds kLastWrites{1};
constexpr std::chrono::seconds kGrpcPatience{10};

}  // namespace

bool Server::Drain(absl::Duration delay) {
  if (drained_ || grpc_ == nullptr) return drained_well_;
  drained_ = true;
  env_.health.SetServing(false);
  Log(LogLevel::kInfo, "drain",
      {{"accepted", env_.registry.accepted()},
       {"delay_ms", absl::ToInt64Milliseconds(delay)}});
  absl::SleepFor(delay);
  env_.registry.StartDraining();
  const bool finished = env_.registry.WaitUntilNone(
      Calls::kAccepted, SteadyNow() + env_.options.drain_timeout);
  // After Shutdown gRPC itself refuses calls, as CANCELLED and without a
  // reason. So clients that still come are first told to go elsewhere.
  env_.registry.WaitUntilQuiet(kQuietTime, SteadyNow() + kPatience);
  env_.acceptor->Stop();
  // A short wait for open calls: accepted ones are over, and health watchers
  // would stay for ever.
  env_.registry.WaitUntilNone(Calls::kOpen, SteadyNow() + kQuietTime);
  const bool ended = EndGrpc();
  gate_thread_.Stop();
  stuck_ = !ended || !AwaitCalls() || !env_.monitor->Stop(kPatience);
  if (stuck_) {
    const int hanging = env_.monitor->hanging();
    Log(LogLevel::kError, "stuck",
        {{"hanging_jobs", hanging}, {"grpc_ended", ended}});
    // Only gRPC hangs: all calls are over and have released their memory.
    drained_well_ =
        !ended && finished && hanging == 0 && env_.gate->used() == 0;
    return drained_well_;
  }
  FinishDrain(finished);
  return drained_well_;
}

// gRPC closes no connection while it writes, and a peer that takes nothing
// makes a write last for ever.
bool Server::EndGrpc() {
  grpc_end_ = std::async(std::launch::async, [this] {
    // A deadline in the past: gRPC would wait for a later one by the wall
    // clock.
    grpc_->Shutdown(std::chrono::system_clock::time_point());
  });
  const auto ends_within = [this](std::chrono::seconds patience) {
    return grpc_end_.wait_for(patience) == std::future_status::ready;
  };
  if (ends_within(kLastWrites)) return true;
  Log(LogLevel::kWarn, "connections_cut",
      {{"connections", env_.acceptor->EndAll()}});
  return ends_within(kGrpcPatience);
}

// Waits until jobs have ended or are found to hang.
bool Server::AwaitCalls() {
  absl::Time hang_since = absl::InfiniteFuture();
  while (!env_.registry.WaitUntilNone(Calls::kExisting,
                                      SteadyNow() + absl::Milliseconds(50))) {
    const absl::Time now = SteadyNow();
    hang_since = env_.monitor->hanging() == 0 ? absl::InfiniteFuture()
                                              : std::min(hang_since, now);
    if (now - hang_since > kPatience) return false;
  }
  return true;
}

void Server::FinishDrain(bool finished) {
  for (auto& queue : queues_) queue->Shutdown();
  for (auto& queue : stream_queues_) queue->Shutdown();
  env_.queue_threads.Join();
  grpc_.reset();
  // Replies may leave gRPC's buffers a moment after their calls are over.
  const absl::Time patience = SteadyNow() + kPatience;
  while (env_.gate->used() != 0 && SteadyNow() < patience) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  const size_t left = env_.gate->used();
  Log(left == 0 ? LogLevel::kInfo : LogLevel::kError, "stopped",
      {{"finished", finished ? "all" : "cancelled"}, {"lent_bytes", left}});
  drained_well_ = finished && left == 0;
}

Server::~Server() {
  Drain(absl::ZeroDuration());
  gate_thread_.Stop();
  env_.monitor->Stop(absl::InfiniteDuration());
  if (!stuck_) return;
  grpc_end_.wait();
  env_.registry.WaitUntilNone(Calls::kExisting, absl::InfiniteFuture());
  FinishDrain(false);
}

}  // namespace quantd
