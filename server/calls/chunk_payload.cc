// A payload in chunks after the request, until the client ends its side. Where
// the amax is reduced over several calls, the client is told the maxima after
// the last chunk, answers with the settled ones, and ends its side then.
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "fmt/format.h"
#include "kernels/device/budget.h"
#include "kernels/plan/field_error.h"
#include "kernels/plan/shards.h"
#include "proto/limits.h"
#include "proto/stream/chunks.h"
#include "server/calls/call_environment.h"
#include "server/calls/payload.h"

namespace quantd {
namespace {

class ChunkPayload final : public Payload {
 public:
  explicit ChunkPayload(const CallEnvironment* env) : env_(env) {}

  absl::Status Parse(wire::Slices message) override {
    auto start = wire::ParseStreamStart(message, env_->defaults);
    if (!start.ok()) return start.status();
    request_ = std::move(start->request);
    bytes_to_come_ = start->payload_bytes;
    reduces_ = start->reduces;
    return absl::OkStatus();
  }

  size_t Need() const override { return PayloadNeed(*request_.plan); }

  absl::StatusOr<Next> Begin(Backend& backend, wire::Slices,
                             std::atomic<uint64_t>* pieces) override {
    auto job = backend.Begin(request_.plan);
    if (!job.ok()) return job.status();
    job_ = *std::move(job);
    job_->CountPieces(pieces);
    gather_.emplace(request_, job_->staging());
    return AfterChunk();
  }
  bool has_job() const override { return job_ != nullptr; }
  void DropJob() override {
    gather_.reset();
    job_.reset();
  }

  bool AwaitsAnswer() const override { return awaits_ != Awaits::kChunks; }
  Expected NextMessage() const override {
    if (awaits_ != Awaits::kChunks) return {};
    return {std::min<size_t>(env_->window, bytes_to_come_ - gather_->came()),
            wire::kMaxChunkBytes};
  }

  absl::StatusOr<Next> Take(wire::Slices message) override {
    if (awaits_ == Awaits::kEnd) return wire::AfterReducedAmax();
    if (awaits_ == Awaits::kSettledAmax) return TakeSettled(message);
    auto chunk = wire::ParseChunk(message);
    if (!chunk.ok()) return chunk.status();
    if (absl::Status fits =
            wire::CheckChunk(gather_->came(), chunk->size, bytes_to_come_);
        !fits.ok()) {
      return fits;
    }
    gather_->Add(message, *chunk);
    job_->Fed(gather_->settled());
    return AfterChunk();
  }

  absl::StatusOr<Next> TakeEnd() override {
    if (awaits_ == Awaits::kSettledAmax) return wire::NoReducedAmax();
    if (awaits_ == Awaits::kChunks) {
      absl::Status whole = wire::CheckWhole(gather_->came(), bytes_to_come_);
      if (!whole.ok()) return whole;
    }
    return Next::kCompute;
  }

  absl::StatusOr<Next> Compute() override {
    if (reduces_ && awaits_ == Awaits::kChunks) {
      const auto found = job_->FindMaxima();
      if (!found.ok()) return found.status();
      gather_.reset();
      told_ = wire::MaximaReply(*found);
      awaits_ = Awaits::kSettledAmax;
      return Next::kTell;
    }
    if (reduces_) {
      if (absl::Status s = job_->Settle(request_.plan); !s.ok()) return s;
    }
    auto report = job_->Run();
    if (!report.ok()) return report.status();
    report_ = *std::move(report);
    return Next::kReply;
  }

  std::string ReplyHead(std::string_view device,
                        std::string_view id) const override {
    return wire::StreamReplyHead(*request_.plan, report_, device, id);
  }

  JobOutput Finish() override {
    JobOutput output;
    output.block = job_->TakeOutput();
    output.size = output.block.size();
    DropJob();
    return output;
  }

 private:
  enum class Awaits { kChunks, kSettledAmax, kEnd };

  // Nothing follows the last chunk until the maxima are told.
  Next AfterChunk() const {
    return reduces_ && gather_->came() == bytes_to_come_ ? Next::kCompute
                                                         : Next::kReceive;
  }

  absl::StatusOr<Next> TakeSettled(wire::Slices message) {
    size_t size = 0;
    for (const std::string_view piece : message) size += piece.size();
    if (size > wire::kMaxReducedBytes) {
      return TooLargeError(
          "reduced_amax",
          fmt::format("at most {} bytes", wire::kMaxReducedBytes),
          fmt::format("{} bytes", size), wire::kMaxReducedBytes);
    }
    auto reduced = wire::ParseReducedAmax(message);
    if (!reduced.ok()) return reduced.status();
    auto plan = SettledPlan(*request_.plan, *reduced);
    if (!plan.ok()) return plan.status();
    request_.plan = std::make_shared<const Plan>(*std::move(plan));
    awaits_ = Awaits::kEnd;
    return Next::kReceive;
  }

  const CallEnvironment* const env_;
  bool reduces_ = false;
  Awaits awaits_ = Awaits::kChunks;
  std::unique_ptr<Job> job_;
  std::optional<wire::StreamGather> gather_;  // into the job's staging
};

}  // namespace

std::unique_ptr<Payload> MakeChunkPayload(const CallEnvironment* env) {
  return std::make_unique<ChunkPayload>(env);
}

}  // namespace quantd
