#include "server/calls/tensor_job.h"

#include <cstring>
#include <utility>

#include "kernels/device/budget.h"
#include "kernels/device/lent_memory.h"
#include "kernels/device/memory.h"

namespace quantd {
namespace {

// A little that travels, an amax above all, has a place of its own. With more
// the job has a block, and what is lent is copied.
bool WritesInPlace(const wire::Request& request, const Places& places) {
  if (!places.lends_outputs()) return false;
  // The host cannot write there.
  if (places.outputs_on_device()) return true;
  return wire::LayOutPayload(*request.plan, request.lent.outputs).size <=
         kCopiedOutput;
}

}  // namespace

size_t PayloadNeed(const wire::Request& request, const Places& places,
                   bool in_place) {
  const Plan& plan = *request.plan;
  size_t need = PayloadNeed(plan);
  if (places.lends_inputs() && (in_place || places.inputs_on_device())) {
    need -= BlockPool::Charge(plan.input_bytes());
  }
  if (in_place && WritesInPlace(request, places)) {
    need -= BlockPool::Charge(plan.output_bytes());
  }
  return need;
}

absl::StatusOr<LentMemory> TensorJob::Lend(const Backend& backend) {
  LentMemory lent;
  if (!backend.info().borrows) return lent;
  if (places_.lends_inputs()) lent.inputs = places_.inputs();
  if (const SharedEvent* const event = places_.record_event()) {
    lent.record = &event->mapping();
  }
  if (!WritesInPlace(request_, places_)) return lent;
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

absl::Status TensorJob::Begin(Backend& backend, wire::Slices message,
                              std::atomic<uint64_t>* pieces) {
  auto lent = Lend(backend);
  if (!lent.ok()) return lent.status();
  const bool gathers = lent->inputs.empty();
  auto job = backend.Begin(request_.plan, *std::move(lent));
  if (!job.ok()) return job.status();
  job_ = *std::move(job);
  job_->CountPieces(pieces);
  if (!gathers) return absl::OkStatus();
  if (places_.lends_inputs()) {
    GatherInputs(*request_.plan, {.inputs = places_.inputs()}, 0,
                 request_.plan->input_bytes(), job_->staging().data());
  } else {
    wire::Gather(request_, message, job_->staging());
  }
  job_->Fed(request_.plan->input_bytes());
  return absl::OkStatus();
}

JobOutput TensorJob::Finish() {
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

}  // namespace quantd
