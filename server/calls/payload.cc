#include "server/calls/payload.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "kernels/device/budget.h"
#include "kernels/device/lent_memory.h"
#include "kernels/device/memory.h"
#include "kernels/plan/shards.h"
#include "proto/limits.h"
#include "proto/stream/chunks.h"
#include "quantd/field_error.h"
#include "server/calls/call_environment.h"

namespace quantd {
namespace {

// The whole payload is in the request, or in memory that the client lends.
class MessagePayload final : public Payload {
 public:
  MessagePayload(const CallEnvironment* env, wire::Method method)
      : env_(env), method_(method) {}

  absl::Status Parse(wire::Slices message) override {
    auto request = wire::ParseRequest(method_, message, env_->facts.defaults);
    if (!request.ok()) return request.status();
    request_ = *std::move(request);
    auto places = Places::Find(request_, env_->regions);
    if (!places.ok()) return places.status();
    places_ = *std::move(places);
    return absl::OkStatus();
  }

  size_t Need() const override {
    const bool in_place = env_->works_in_place;
    const Plan& plan = *request_.plan;
    size_t need = PayloadNeed(plan);
    if (places_.lends_inputs() && (in_place || places_.inputs_on_device())) {
      need -= BlockPool::Charge(plan.input_bytes());
    }
    if (in_place && WritesInPlace()) {
      need -= BlockPool::Charge(plan.output_bytes());
    }
    return need;
  }

  absl::StatusOr<Next> Begin(Backend& backend, wire::Slices message,
                             std::atomic<uint64_t>* pieces) override {
    auto lent = Lend(backend);
    if (!lent.ok()) return lent.status();
    const bool gathers = lent->inputs.empty();
    auto job = backend.Begin(request_.plan, *std::move(lent));
    if (!job.ok()) return job.status();
    job_ = *std::move(job);
    job_->CountPieces(pieces);
    if (!gathers) return Next::kCompute;
    if (places_.lends_inputs()) {
      GatherInputs(*request_.plan, {.inputs = places_.inputs()}, 0,
                   request_.plan->input_bytes(), job_->staging().data());
    } else {
      wire::Gather(request_, message, job_->staging());
    }
    job_->Fed(request_.plan->input_bytes());
    return Next::kCompute;
  }
  bool has_job() const override { return job_ != nullptr; }
  void DropJob() override {
    job_.reset();
    rest_.clear();
    large_rest_ = {};
    lends_outputs_ = false;
  }

  absl::StatusOr<Next> Compute() override { return RunToReply(*job_); }

  std::string ReplyHead(std::string_view device,
                        std::string_view id) const override {
    return wire::ReplyHead(*request_.plan, report_, device, id,
                           request_.lent.outputs);
  }

  JobOutput Finish() override {
    const Plan& plan = *request_.plan;
    const wire::PayloadLayout layout =
        wire::LayOutPayload(plan, request_.lent.outputs);
    JobOutput output;
    output.size = layout.size;
    output.rest = std::move(rest_);
    output.block = job_->TakeOutput();
    job_.reset();
    if (large_rest_.size() > 0) output.block = std::move(large_rest_);
    if (!places_.lends_outputs() || lends_outputs_) return output;
    // Outputs that travel in the reply are moved together, to the front.
    size_t end = 0;
    for (size_t i = 0; i < plan.outputs().size(); ++i) {
      const TensorSpec& spec = plan.outputs()[i];
      std::byte* const from = output.block.data() + spec.offset;
      if (request_.lent.outputs[i]) {
        if (spec.size != 0) {
          std::memcpy(places_.outputs()[i].data(), from, spec.size);
        }
        continue;
      }
      std::byte* const to = output.block.data() + layout.offsets[i];
      std::memset(output.block.data() + end, 0, layout.offsets[i] - end);
      std::memmove(to, from, spec.size);
      end = layout.offsets[i] + spec.size;
    }
    return output;
  }

 private:
  // Whether the job writes lent outputs in place: if outputs that travel in the
  // reply are small, such as an amax, they get memory of their own. Otherwise
  // the job writes one block, from which lent outputs are copied.
  bool WritesInPlace() const {
    if (!places_.lends_outputs()) return false;
    // The host cannot write into a device's memory.
    if (places_.outputs_on_device()) return true;
    return wire::LayOutPayload(*request_.plan, request_.lent.outputs).size <=
           kCopiedOutput;
  }

  absl::StatusOr<LentMemory> Lend(const Backend& backend) {
    LentMemory lent;
    if (!backend.info().borrows) return lent;
    if (places_.lends_inputs()) lent.inputs = places_.inputs();
    if (const SharedEvent* const event = places_.record_event()) {
      lent.record = &event->mapping();
    }
    if (!WritesInPlace()) return lent;
    lends_outputs_ = true;
    const Plan& plan = *request_.plan;
    const wire::PayloadLayout layout =
        wire::LayOutPayload(plan, request_.lent.outputs);
    absl::Span<std::byte> rest;
    if (layout.size <= kCopiedOutput) {
      rest_.resize(layout.size);
      rest = absl::MakeSpan(rest_);
    } else {
      // Fresh pages, so the gaps are zero. The block was admitted as output.
      auto block =
          BlockPool::Create(PageableSource(), BlockPool::Charge(layout.size))
              ->Take(layout.size);
      if (!block.ok()) return block.status();
      large_rest_ = *std::move(block);
      rest = large_rest_.bytes();
    }
    lent.outputs = places_.outputs();
    for (size_t i = 0; i < plan.outputs().size(); ++i) {
      if (request_.lent.outputs[i]) continue;
      lent.outputs[i] = rest.subspan(layout.offsets[i], plan.outputs()[i].size);
    }
    return lent;
  }

  const CallEnvironment* const env_;
  const wire::Method method_;
  // Outputs that travel in the reply while others are lent, if they are small
  // (rest_) or large.
  std::vector<std::byte> rest_;
  Block large_rest_;
  bool lends_outputs_ = false;
  // Destroyed before the two above: it may write there.
  std::unique_ptr<Job> job_;
};

// Chunks follow the request until the client ends its side. If the amax is
// reduced over several calls, the client is told the local maxima after the
// last chunk, answers with the reduced ones, and then ends its side.
class ChunkPayload final : public Payload {
 public:
  explicit ChunkPayload(const CallEnvironment* env) : env_(env) {}

  absl::Status Parse(wire::Slices message) override {
    auto start = wire::ParseStreamStart(message, env_->facts.defaults);
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
    return {
        std::min<size_t>(env_->shares.window, bytes_to_come_ - gather_->came()),
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
    return RunToReply(*job_);
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

  // After the last chunk nothing comes until the maxima are told.
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
  // Destination: the job's staging memory.
  std::optional<wire::StreamGather> gather_;
};

}  // namespace

std::unique_ptr<Payload> MakePayload(const CallEnvironment* env,
                                     wire::Method method) {
  if (method == wire::Method::kStream)
    return std::make_unique<ChunkPayload>(env);
  return std::make_unique<MessagePayload>(env, method);
}

}  // namespace quantd
