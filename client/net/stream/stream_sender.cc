#include "client/net/stream/stream_sender.h"

#include <grpcpp/alarm.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "client/call/error_details.h"
#include "client/net/server_status.h"
#include "proto/net/received_message.h"

namespace quantd::client {
StreamedReply::StreamedReply(const Plan& plan,
                             absl::Span<const Destination> into, bool reduces)
    : plan_(plan),
      reduces_(reduces),
      layout_(wire::LayOutPayload(plan, {})),
      builder_(plan, into) {
  for (const TensorSpec& part : plan.outputs()) {
    targets_.push_back(builder_.Claim(part.kind));
  }
}

void StreamedReply::Restart() {
  received_ = 0;
  last_.reset();
  maxima_.reset();
  settled_.reset();
}

absl::Status StreamedReply::TakeMaxima(const FoundMaxima& maxima) {
  const CopyAmax none = NoMaxima(plan_);
  if (maxima_ || maxima.amax.rowwise.size() != none.rowwise.size() ||
      maxima.amax.columnwise.size() != none.columnwise.size()) {
    return NotOurMessage();
  }
  maxima_ = maxima.amax;
  return absl::OkStatus();
}

absl::Status StreamedReply::Settle(const CopyAmax& reduced) {
  absl::StatusOr<Plan> plan = SettledPlan(plan_, reduced);
  if (plan.ok()) settled_.emplace(*std::move(plan));
  return plan.status();
}

void StreamedReply::Place(std::string_view bytes) {
  for (size_t i = 0; i < targets_.size(); ++i) {
    const size_t at = layout_.offsets[i];
    const size_t begin = std::max(received_, at);
    const size_t end =
        std::min(received_ + bytes.size(), at + targets_[i].size());
    if (begin >= end) continue;
    std::memcpy(targets_[i].data() + (begin - at),
                bytes.data() + (begin - received_), end - begin);
  }
  received_ += bytes.size();
}

absl::Status StreamedReply::Take(absl::Span<const std::string_view> message) {
  if (last_) return NotOurMessage();
  auto part = wire::ParseStreamReply(message, settled_ ? *settled_ : plan_);
  if (part.ok() && reduces_ && !settled_) {
    return part->maxima ? TakeMaxima(*part->maxima) : NotOurMessage();
  }
  if (absl::IsUnimplemented(part.status())) return part.status();
  if (!part.ok() || part->chunk.size > layout_.size - received_) {
    return NotOurMessage();
  }
  size_t at = 0;
  const size_t end = part->chunk.offset + part->chunk.size;
  for (const std::string_view piece : message) {
    const size_t from = std::max(at, part->chunk.offset);
    const size_t to = std::min(at + piece.size(), end);
    if (from < to) Place(piece.substr(from - at, to - from));
    at += piece.size();
  }
  if (!part->reply) return absl::OkStatus();
  if (received_ != layout_.size) return NotOurMessage();
  last_ = *std::move(part->reply);
  // The bytes are already written, so their offsets must be those of the plan.
  for (size_t i = 0; i < targets_.size(); ++i) {
    const TensorSpec& want = plan_.outputs()[i];
    const auto found = std::find_if(
        last_->tensors.begin(), last_->tensors.end(),
        [&](const TensorSpec& got) { return got.kind == want.kind; });
    if (found == last_->tensors.end() || found->offset != layout_.offsets[i]) {
      return NotOurMessage();
    }
    if (auto s = builder_.AddInPlace(*found); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::StatusOr<Result> StreamedReply::Finish(const Trip& trip) {
  const JobReport& report = last_->report;
  return builder_.Take(
      {report.saw_nan, report.saw_inf, report.rowwise, report.columnwise,
       std::move(last_->device), std::move(last_->request_id), trip.attempts,
       report.replaced_globals,
       trip.by_unix ? Transport::kUnix : Transport::kTcp, true});
}

StreamSender::StreamSender(
    const std::string& head,
    absl::Span<const absl::Span<const std::byte>> payload,
    const ChannelCredentials& credentials, Reduction* reduction)
    : head_(head),
      payload_(payload),
      credentials_(credentials),
      reduction_(reduction),
      pins_(std::make_shared<Pins>()) {
  for (const auto& piece : payload_) payload_bytes_ += piece.size();
}

StreamSender::~StreamSender() { pins_->WaitUntilFree(); }

grpc::ByteBuffer StreamSender::Chunk(size_t begin, size_t size) const {
  std::vector<grpc::Slice> slices = {grpc::Slice(wire::ChunkPrefix(size))};
  const size_t end = begin + size;
  size_t at = 0;
  for (const auto& piece : payload_) {
    const size_t from = std::max(at, begin);
    const size_t to = std::min(at + piece.size(), end);
    if (from < to) {
      slices.push_back(
          Pins::Borrow(piece.subspan(from - at, to - from), pins_));
    }
    at += piece.size();
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

// One attempt. It reads replies from the start, so that an error ends the
// attempt before everything is sent.
class StreamSender::Call {
 public:
  Call(const StreamSender& sender, const OnSent& on_sent, StreamedReply* reply)
      : sender_(sender), on_sent_(on_sent), reply_(reply) {}

  absl::Status Run(grpc::GenericStub& stub, const CallLimit& limit,
                   CallControl& control) {
    SetUp(limit, sender_.credentials_, &context_);
    {
      const CallControl::Stage stage(&control, [&] { context_.TryCancel(); });
      stream_ = stub.PrepareCall(
          &context_, wire::SpecOf(wire::Method::kStream).path, &queue_);
      stream_->StartCall(&started_);
      // Another thread sets the answer, so it arrives as an event of the queue.
      std::optional<Reduction::Watch> watch;
      if (sender_.reduction_ != nullptr) {
        watch.emplace(sender_.reduction_, [this] {
          alarm_.Set(&queue_, gpr_inf_past(GPR_CLOCK_MONOTONIC), &answered_);
        });
      }
      Await();
    }
    queue_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) {
    }
    if (!failed_.ok()) return failed_;
    if (!status_.ok()) return FromGrpc(status_, context_);
    return reply_->whole() ? absl::OkStatus() : NotOurMessage();
  }

 private:
  void Await() {
    while (!ended_ || writing_) {
      void* tag = nullptr;
      bool ok = false;
      queue_.Next(&tag, &ok);
      if (tag == &started_) {
        Write();
        Read();
      } else if (tag == &writing_) {
        writing_ = false;
        if (ok && !all_sent_) {
          Write();
        } else if (ok && on_sent_ && !replied_) {
          on_sent_();
        }
        Answer();
      } else if (tag == &answered_) {
        answered_ = true;
        Answer();
      } else if (tag == &message_) {
        OnRead(ok);
      } else {
        ended_ = true;
      }
    }
  }

  void Write() {
    const size_t all = sender_.payload_bytes_;
    grpc::ByteBuffer message;
    if (!head_sent_) {
      head_sent_ = true;
      const grpc::Slice head(sender_.head_);
      message = grpc::ByteBuffer(&head, 1);
    } else {
      const size_t size = std::min(wire::kChunkBytes, all - sent_);
      message = sender_.Chunk(sent_, size);
      sent_ += size;
    }
    writing_ = true;
    all_sent_ = sent_ == all;
    grpc::WriteOptions options;
    if (all_sent_ && sender_.reduction_ == nullptr) options.set_last_message();
    stream_->Write(message, options, &writing_);
  }

  // Sends the reduced amax, once the server's maxima have arrived and the
  // reduction has an answer. If the answer is an error, it ends this stream at
  // once.
  void Answer() {
    if (!answered_ || replied_ || !failed_.ok()) return;
    const auto reduced = *sender_.reduction_->answer();
    if (!reduced.ok()) return End(reduced.status());
    if (writing_ || !reply_->maxima()) return;
    if (auto s = reply_->Settle(*reduced); !s.ok()) return End(s);
    const std::string message = wire::ReducedAmax(*reduced);
    const grpc::Slice slice(message);
    replied_ = writing_ = true;
    stream_->Write(grpc::ByteBuffer(&slice, 1),
                   grpc::WriteOptions().set_last_message(), &writing_);
  }

  void End(const absl::Status& status) {
    failed_ = status;
    context_.TryCancel();
  }

  void Read() { stream_->Read(message_.buffer(), &message_); }

  void OnRead(bool ok) {
    if (!ok) return stream_->Finish(&status_, &ended_);
    if (failed_.ok()) {
      const bool waited = sender_.reduction_ != nullptr && !reply_->maxima();
      const absl::Status taken = reply_->Take(message_.Pieces());
      if (!taken.ok()) {
        End(taken);
      } else if (waited) {
        sender_.reduction_->Found(*reply_->maxima());
        Answer();
      }
    }
    message_.Clear();
    Read();
  }

  const StreamSender& sender_;
  const OnSent& on_sent_;
  StreamedReply* const reply_;
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  ReceivedMessage message_;
  grpc::Status status_;
  absl::Status failed_;  // an error found by this side
  size_t sent_ = 0;
  bool head_sent_ = false;
  bool all_sent_ = false;
  bool replied_ = false;  // the reduced amax was sent
  grpc::Alarm alarm_;
  // The addresses of these members also serve as tags.
  bool started_ = false;
  bool writing_ = false;
  bool ended_ = false;
  bool answered_ = false;
};

absl::Status StreamSender::Send(grpc::GenericStub& stub, const CallLimit& limit,
                                const OnSent& on_sent, CallControl& control,
                                StreamedReply* reply) {
  reply->Restart();
  return Call(*this, on_sent, reply).Run(stub, limit, control);
}

}  // namespace quantd::client
