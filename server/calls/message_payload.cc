// A payload that is all of it in the request, or in memory that the client
// lends.
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/device/budget.h"
#include "kernels/device/lent_memory.h"
#include "kernels/device/memory.h"
#include "server/calls/call_environment.h"
#include "server/calls/payload.h"

namespace quantd {
namespace {

class MessagePayload final : public Payload {
 public:
  MessagePayload(const CallEnvironment* env, wire::Method method)
      : env_(env), method_(method) {}

  absl::Status Parse(wire::Slices message) override {
    auto request = wire::ParseRequest(method_, message, env_->defaults);
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

  absl::StatusOr<Next> Compute() override {
    auto report = job_->Run();
    if (!report.ok()) return report.status();
    report_ = *std::move(report);
    return Next::kReply;
  }

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
    // What travels moves together, to the front.
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
  // A little that travels, an amax above all, has a place of its own. With more
  // the job has a block, and what is lent is copied.
  bool WritesInPlace() const {
    if (!places_.lends_outputs()) return false;
    // The host cannot write there.
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
      // Fresh pages: the gaps in it are zero. It was admitted as output.
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
  // What travels of an output that is lent: a little of it, or much.
  std::vector<std::byte> rest_;
  Block large_rest_;
  bool lends_outputs_ = false;
  std::unique_ptr<Job> job_;  // it may write there
};

}  // namespace

std::unique_ptr<Payload> MakeMessagePayload(const CallEnvironment* env,
                                            wire::Method method) {
  return std::make_unique<MessagePayload>(env, method);
}

}  // namespace quantd
