#include "kernels/cuda/job/staging.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "kernels/cuda/check.h"
#include "kernels/device/lent_memory.h"

namespace quantd::cuda {
namespace {

// The size of pieces in which pageable memory is copied through page-locked
// memory. While the host copies a piece, the device copies the previous one.
constexpr size_t kPiece = size_t{2} << 20;
// The most bytes of inputs and outputs together for which kernels work directly
// on host memory.
constexpr size_t kDirectBytes = size_t{64} << 10;

absl::Status Copy(std::byte* to, const std::byte* from, size_t size,
                  cudaStream_t stream, const char* step) {
  if (size == 0) return absl::OkStatus();
  return CudaStatus(cudaMemcpyAsync(to, from, size, cudaMemcpyDefault, stream),
                    step);
}

absl::Status Take(BlockPool& pool, size_t bytes, Block* to) {
  absl::StatusOr<Block> block = pool.Take(bytes);
  if (block.ok()) *to = *std::move(block);
  return block.status();
}

}  // namespace

absl::StatusOr<Staging::Kept> Staging::KindOf(absl::Span<const std::byte> span,
                                              int device) {
  if (span.empty()) return Kept::kPinned;
  cudaPointerAttributes first;
  QUANTD_CUDA_RETURN(cudaPointerGetAttributes(&first, span.data()),
                     "look up the type of client memory");
  // Checks both ends, because only a part of the memory may be page-locked.
  cudaPointerAttributes last;
  QUANTD_CUDA_RETURN(
      cudaPointerGetAttributes(&last, span.data() + span.size() - 1),
      "look up the type of client memory");
  if (first.type != last.type || first.device != last.device) {
    return Kept::kPageable;
  }
  switch (first.type) {
    case cudaMemoryTypeUnregistered:
      return Kept::kPageable;
    case cudaMemoryTypeHost:
      return Kept::kPinned;
    case cudaMemoryTypeDevice:
      return first.device == device &&
                     reinterpret_cast<uintptr_t>(span.data()) %
                             kPayloadAlignment ==
                         0
                 ? Kept::kHere
                 : Kept::kDevice;
    default:
      return Kept::kDevice;
  }
}

size_t Staging::PoolBytes(int device, const Plan& plan,
                          const LentMemory& lent) {
  const auto here = [&](const auto& spans) {
    return !spans.empty() &&
           std::all_of(spans.begin(), spans.end(), [&](auto span) {
             if (span.empty()) return true;
             const absl::StatusOr<Kept> kept = KindOf(span, device);
             return kept.ok() && *kept == Kept::kHere;
           });
  };
  size_t bytes = BlockPool::Charge(plan.scratch_bytes());
  if (!here(lent.inputs) || InputsOverlapOutputs(lent)) {
    bytes += BlockPool::Charge(plan.input_bytes());
  }
  if (!here(lent.outputs)) bytes += BlockPool::Charge(plan.output_bytes());
  return bytes;
}

absl::Status Staging::Sort(const Device& device, const Needs& needs) {
  const bool overlap = InputsOverlapOutputs(lent_);
  const auto sort = [&](const std::vector<TensorSpec>& specs, const auto& lent,
                        bool input, std::vector<Tensor>* tensors) {
    for (size_t i = 0; i < specs.size(); ++i) {
      Tensor t;
      t.size = specs[i].size;
      if (!lent.empty()) {
        t.lent = const_cast<std::byte*>(lent[i].data());
        const absl::StatusOr<Kept> kept = KindOf(lent[i], device.ordinal());
        if (!kept.ok()) return kept.status();
        t.kept = *kept;
        // Copies the input, because an output would overwrite it while it is
        // read.
        if (input && overlap && t.kept == Kept::kHere) t.kept = Kept::kDevice;
      }
      tensors->push_back(t);
    }
    return absl::OkStatus();
  };
  if (auto s = sort(plan_->inputs(), lent_.inputs, true, &inputs_); !s.ok()) {
    return s;
  }
  if (auto s = sort(plan_->outputs(), lent_.outputs, false, &outputs_);
      !s.ok()) {
    return s;
  }
  const auto on_host = [](const Tensor& t) {
    return t.kept != Kept::kHere && t.kept != Kept::kDevice;
  };
  direct_ = !needs.atomics &&
            plan_->input_bytes() + plan_->output_bytes() <= kDirectBytes &&
            std::all_of(inputs_.begin(), inputs_.end(), on_host) &&
            std::all_of(outputs_.begin(), outputs_.end(), on_host);
  if (direct_) {
    for (std::vector<Tensor>* tensors : {&inputs_, &outputs_}) {
      for (Tensor& t : *tensors) {
        // Uses the job's own blocks, which have the alignment that kernels
        // need.
        if (t.kept == Kept::kPinned) t.kept = Kept::kPageable;
      }
    }
  }
  const auto is = [](Kept kept) {
    return [kept](const Tensor& t) { return t.kept == kept; };
  };
  copies_in_ = !std::all_of(inputs_.begin(), inputs_.end(), is(Kept::kHere));
  copies_out_ = !std::all_of(outputs_.begin(), outputs_.end(), is(Kept::kHere));
  gathers_ = lent_inputs() &&
             std::all_of(inputs_.begin(), inputs_.end(), is(Kept::kPageable));
  delivers_ =
      std::any_of(outputs_.begin(), outputs_.end(), is(Kept::kPageable));
  mirrors_ = needs.host_writes &&
             std::any_of(outputs_.begin(), outputs_.end(), [](const Tensor& t) {
               return t.kept == Kept::kHere || t.kept == Kept::kDevice;
             });
  return absl::OkStatus();
}

absl::Status Staging::Take(Device& device) {
  const auto through_host = [](const Tensor& t) {
    return t.kept == Kept::kJob || t.kept == Kept::kPageable;
  };
  const bool host_in =
      std::any_of(inputs_.begin(), inputs_.end(), through_host);
  const bool host_out =
      mirrors_ || std::any_of(outputs_.begin(), outputs_.end(), through_host);
  const struct {
    bool wanted;
    BlockPool& pool;
    size_t bytes;
    Block* to;
  } blocks[] = {
      {host_in, device.pinned(), plan_->input_bytes(), &in_},
      {host_out, device.pinned(), plan_->output_bytes(), &out_},
      {copies_in_ && !direct_, device.memory(), plan_->input_bytes(),
       &device_in_},
      {copies_out_ && !direct_, device.memory(), plan_->output_bytes(),
       &device_out_},
  };
  for (const auto& b : blocks) {
    if (!b.wanted) continue;
    if (auto s = cuda::Take(b.pool, b.bytes, b.to); !s.ok()) return s;
  }
  for (size_t i = 0; i < inputs_.size(); ++i) {
    Tensor& t = inputs_[i];
    const size_t offset = plan_->inputs()[i].offset;
    t.host = t.kept == Kept::kPinned ? t.lent : in_.data() + offset;
    t.device = t.kept == Kept::kHere ? t.lent
               : direct_             ? t.host
                                     : device_in_.data() + offset;
    on_device_.inputs.push_back({t.device, t.size});
    if (t.device != t.lent && !direct_) bytes_in_ += t.size;
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    Tensor& t = outputs_[i];
    const size_t offset = plan_->outputs()[i].offset;
    t.host = t.kept == Kept::kPinned ? t.lent : out_.data() + offset;
    t.device = t.kept == Kept::kHere ? t.lent
               : direct_             ? t.host
                                     : device_out_.data() + offset;
    on_device_.outputs.push_back({t.device, t.size});
    on_host_.outputs.push_back({t.host, t.size});
    if (t.device != t.lent && !direct_) bytes_out_ += t.size;
  }
  return absl::OkStatus();
}

absl::StatusOr<Staging> Staging::Make(Device& device, const Plan& plan,
                                      LentMemory lent, const Needs& needs) {
  Staging staging(plan);
  staging.lent_ = std::move(lent);
  if (auto s = staging.Sort(device, needs); !s.ok()) return s;
  if (auto s = staging.Take(device); !s.ok()) return s;
  return staging;
}

JobBases Staging::OnDevice() const {
  JobBases bases;
  bases.in = direct_ ? in_.data() : device_in_.data();
  bases.out = direct_ ? out_.data() : device_out_.data();
  bases.lent = &on_device_;
  return bases;
}

JobBases Staging::OnHost() const {
  JobBases bases;
  bases.out = out_.data();
  bases.lent = &on_host_;
  return bases;
}

void Staging::ZeroOutputs() const {
  if (!out_.bytes().empty()) std::memset(out_.data(), 0, out_.size());
}

absl::Status Staging::CopyFed(size_t first, size_t end, cudaStream_t stream) {
  if (direct_) return absl::OkStatus();
  return Copy(device_in_.data() + first, in_.data() + first, end - first,
              stream, "copy in");
}

absl::Status Staging::CopyIn(cudaStream_t stream) {
  if (!gathers_) {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (auto s = CopyIn(i, 0, inputs_[i].size, stream); !s.ok()) return s;
    }
    return absl::OkStatus();
  }
  // (A payload of up to kPiece bytes is one copy.)
  for (size_t done = 0; done < in_.size();) {
    const size_t end = std::min(in_.size(), done + kPiece);
    GatherInputs(*plan_, lent_, done, end, in_.data());
    if (auto s = CopyFed(done, end, stream); !s.ok()) return s;
    done = end;
  }
  return absl::OkStatus();
}

absl::Status Staging::CopyIn(size_t input, size_t first, size_t size,
                             cudaStream_t stream) {
  const Tensor& t = inputs_[input];
  if (t.kept == Kept::kHere) return absl::OkStatus();
  if (t.kept != Kept::kPageable) {
    const std::byte* from = t.kept == Kept::kJob ? t.host : t.lent;
    return Copy(t.device + first, from + first, size, stream, "copy in");
  }
  for (const size_t end = first + size; first < end;) {
    const size_t n = std::min(kPiece, end - first);
    std::memcpy(t.host + first, t.lent + first, n);
    if (auto s = Copy(t.device + first, t.host + first, n, stream, "copy in");
        !s.ok()) {
      return s;
    }
    first += n;
  }
  return absl::OkStatus();
}

absl::Status Staging::CopyOut(cudaStream_t stream) {
  if (direct_) return absl::OkStatus();
  const auto through_block = [](const Tensor& t) {
    return t.kept == Kept::kJob || t.kept == Kept::kPageable;
  };
  if (std::all_of(outputs_.begin(), outputs_.end(), through_block)) {
    return Copy(out_.data(), device_out_.data(), out_.size(), stream,
                "copy out");
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (auto s = CopyOut(i, 0, outputs_[i].size, stream); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status Staging::CopyOutFront(size_t size, cudaStream_t stream) {
  if (direct_) return absl::OkStatus();
  return Copy(out_.data(), device_out_.data(), size, stream, "copy out");
}

absl::Status Staging::CopyOut(size_t output, size_t first, size_t size,
                              cudaStream_t stream) {
  const Tensor& t = outputs_[output];
  if (t.kept == Kept::kHere) return absl::OkStatus();
  std::byte* to = t.kept == Kept::kDevice ? t.lent : t.host;
  return Copy(to + first, t.device + first, size, stream, "copy out");
}

void Staging::DeliverAll() const {
  for (size_t i = 0; i < outputs_.size(); ++i) Deliver(i, 0, outputs_[i].size);
}

void Staging::DeliverBulk(size_t output, size_t first, size_t size) const {
  if (IsBulk(output)) Deliver(output, first, size);
}

void Staging::DeliverSmall() const {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (!IsBulk(i)) Deliver(i, 0, outputs_[i].size);
  }
}

void Staging::Deliver(size_t output, size_t first, size_t size) const {
  const Tensor& t = outputs_[output];
  if (t.kept != Kept::kPageable || size == 0) return;
  std::memcpy(t.lent + first, t.host + first, size);
}

// Whether only kernels, not the host, write this output.
bool Staging::IsBulk(size_t output) const {
  switch (plan_->outputs()[output].kind) {
    case TensorKind::kRowwiseData:
    case TensorKind::kRowwiseScale:
    case TensorKind::kColumnwiseData:
    case TensorKind::kColumnwiseScale:
    case TensorKind::kDequantized:
    case TensorKind::kRotated:
    case TensorKind::kDbias:
      return true;
    default:
      return false;
  }
}

bool Staging::IsMirrored(size_t output, bool all) const {
  const Kept kept = outputs_[output].kept;
  return mirrors_ && (kept == Kept::kHere || kept == Kept::kDevice) &&
         (all || !IsBulk(output));
}

absl::Status Staging::MirrorToHost(cudaStream_t stream) {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const Tensor& t = outputs_[i];
    if (!IsMirrored(i, false)) continue;
    if (auto s = Copy(t.host, t.device, t.size, stream, "copy out"); !s.ok()) {
      return s;
    }
  }
  return absl::OkStatus();
}

absl::Status Staging::MirrorToDevice(bool all, cudaStream_t stream) {
  if (!mirrors_) return absl::OkStatus();
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const Tensor& t = outputs_[i];
    if (!IsMirrored(i, all)) continue;
    if (auto s = Copy(t.lent, t.host, t.size, stream, "copy out"); !s.ok()) {
      return s;
    }
  }
  return CudaStatus(cudaStreamSynchronize(stream), "copy out");
}

Block Staging::Finish() {
  Block out = lent_outputs() ? Block() : std::move(out_);
  for (Block* block : {&in_, &out_, &device_in_, &device_out_}) {
    *block = Block();
  }
  return out;
}

}  // namespace quantd::cuda
