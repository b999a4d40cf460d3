#include "server/calls/payload.h"

#include <algorithm>
#include <memory>

#include "fmt/format.h"
#include "kernels/device/budget.h"
#include "kernels/plan/field_error.h"
#include "kernels/plan/shards.h"
#include "proto/limits.h"
#include "server/calls/call_environment.h"

namespace quantd {

absl::StatusOr<Payload::Next> Payload::Take(wire::Slices) {
  return absl::InternalError("no message follows the request");
}

absl::StatusOr<Payload::Next> Payload::TakeEnd() { return Take({}); }

absl::Status MessagePayload::Parse(wire::Slices message) {
  auto request = wire::ParseRequest(method_, message, env_->defaults);
  if (!request.ok()) return request.status();
  request_ = *std::move(request);
  auto places = Places::Find(request_, env_->regions);
  if (!places.ok()) return places.status();
  places_ = *std::move(places);
  return absl::OkStatus();
}

size_t MessagePayload::Need() const {
  return PayloadNeed(request_, places_, env_->works_in_place);
}

absl::StatusOr<Payload::Next> MessagePayload::Begin(
    Backend& backend, wire::Slices message, std::atomic<uint64_t>* pieces) {
  job_.emplace(request_, places_);
  if (absl::Status s = job_->Begin(backend, message, pieces); !s.ok()) return s;
  return Next::kCompute;
}

absl::StatusOr<Payload::Next> MessagePayload::Compute() {
  auto report = job_->Run();
  if (!report.ok()) return report.status();
  report_ = *std::move(report);
  return Next::kReply;
}

std::string MessagePayload::ReplyHead(std::string_view device,
                                      std::string_view id) const {
  return wire::ReplyHead(*request_.plan, report_, device, id,
                         request_.lent.outputs);
}

JobOutput MessagePayload::Finish() {
  JobOutput output = job_->Finish();
  job_.reset();
  return output;
}

absl::Status ChunkPayload::Parse(wire::Slices message) {
  auto start = wire::ParseStreamStart(message, env_->defaults);
  if (!start.ok()) return start.status();
  request_ = std::move(start->request);
  bytes_to_come_ = start->payload_bytes;
  reduces_ = start->reduces;
  return absl::OkStatus();
}

size_t ChunkPayload::Need() const { return PayloadNeed(*request_.plan); }

absl::StatusOr<Payload::Next> ChunkPayload::Begin(
    Backend& backend, wire::Slices, std::atomic<uint64_t>* pieces) {
  auto job = backend.Begin(request_.plan);
  if (!job.ok()) return job.status();
  job_ = *std::move(job);
  job_->CountPieces(pieces);
  gather_.emplace(request_, job_->staging());
  return AfterChunk();
}

void ChunkPayload::DropJob() {
  gather_.reset();
  job_.reset();
}

// Nothing follows the last chunk until the maxima are told.
Payload::Next ChunkPayload::AfterChunk() const {
  return reduces_ && gather_->came() == bytes_to_come_ ? Next::kCompute
                                                       : Next::kReceive;
}

Payload::Expected ChunkPayload::NextMessage() const {
  if (awaits_ != Awaits::kChunks) return {};
  return {std::min<size_t>(env_->window, bytes_to_come_ - gather_->came()),
          wire::kMaxChunkBytes};
}

absl::StatusOr<Payload::Next> ChunkPayload::Take(wire::Slices message) {
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

absl::StatusOr<Payload::Next> ChunkPayload::TakeSettled(wire::Slices message) {
  size_t size = 0;
  for (const std::string_view piece : message) size += piece.size();
  if (size > wire::kMaxReducedBytes) {
    return TooLargeError(
        "reduced_amax", fmt::format("at most {} bytes", wire::kMaxReducedBytes),
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

absl::StatusOr<Payload::Next> ChunkPayload::TakeEnd() {
  if (awaits_ == Awaits::kSettledAmax) return wire::NoReducedAmax();
  if (awaits_ == Awaits::kChunks) {
    absl::Status whole = wire::CheckWhole(gather_->came(), bytes_to_come_);
    if (!whole.ok()) return whole;
  }
  return Next::kCompute;
}

absl::StatusOr<Payload::Next> ChunkPayload::Compute() {
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

std::string ChunkPayload::ReplyHead(std::string_view device,
                                    std::string_view id) const {
  return wire::StreamReplyHead(*request_.plan, report_, device, id);
}

JobOutput ChunkPayload::Finish() {
  JobOutput output;
  output.block = job_->TakeOutput();
  output.size = output.block.size();
  DropJob();
  return output;
}

}  // namespace quantd
