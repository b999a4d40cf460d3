#include "kernels/cuda/compute.h"

#include <optional>
#include <variant>

#include "kernels/block.h"

namespace quantd::cuda {
namespace {

class Planner {
 public:
  Planner(const Plan& plan, const JobMemory& memory, const Queue& queue)
      : plan_(plan), memory_(memory), queue_(queue) {}

  // Queues zeros for what no kernel writes: gaps between tensors and the
  // padding of scale tensors.
  cudaError_t ZeroPadding() {
    std::byte* const out = memory_.out;
    size_t end = 0;
    for (const TensorSpec& spec : plan_.outputs()) {
      cudaError_t error = Zero(out + end, spec.offset - end);
      end = spec.offset + spec.size;
      const bool row = spec.kind == TensorKind::kRowwiseScale;
      if (row || spec.kind == TensorKind::kColumnwiseScale) {
        const int64_t lines = row ? plan_.rows() : plan_.cols();
        const int64_t used =
            ((row ? plan_.cols() : plan_.rows()) + kBlock - 1) / kBlock;
        const int64_t stride = spec.shape[1];
        std::byte* scale = out + spec.offset;
        if (error == cudaSuccess && used < stride) {
          error = cudaMemset2DAsync(scale + used, stride, 0, stride - used,
                                    lines, queue_.stream);
        }
        if (error == cudaSuccess) {
          error = Zero(scale + lines * stride, spec.size - lines * stride);
        }
      }
      if (error != cudaSuccess) return error;
    }
    return cudaSuccess;
  }
  cudaError_t Zero(std::byte* p, size_t bytes) {
    if (bytes == 0) return cudaSuccess;
    return cudaMemsetAsync(p, 0, bytes, queue_.stream);
  }

  // Kernels read the amax where it leaves from, in the output.
  cudaError_t Compute(const QuantizeOptions& o) {
    const bool find_row = HasRowwise(o.usage) && o.rowwise_amax.empty();
    const bool find_col = HasColumnwise(o.usage) && o.columnwise_amax.empty();
    cudaError_t error = cudaSuccess;
    if (find_row || find_col) {
      error = FindAmax(find_row && o.rht.rowwise, find_col && o.rht.columnwise);
      if (error != cudaSuccess) return error;
    }
    WriteAmaxArgs amax = {};
    amax.propagate = o.non_finite == NonFinite::kPropagate;
    amax.found = memory_.found;
    Add(TensorKind::kRowwiseAmax,
        o.rht.rowwise ? AmaxSource::kRowRht : AmaxSource::kPlain,
        Given(o.rowwise_amax), &amax);
    Add(TensorKind::kColumnwiseAmax,
        o.rht.columnwise ? AmaxSource::kColRht : AmaxSource::kPlain,
        Given(o.columnwise_amax), &amax);
    error = LaunchWriteAmax(amax, queue_);
    if (error != cudaSuccess) return error;
    QuantizeArgs args = {};
    args.x = Input();
    args.row = Destination(TensorKind::kRowwiseData, TensorKind::kRowwiseScale,
                           TensorKind::kRowwiseAmax, o.rht.rowwise);
    args.col =
        Destination(TensorKind::kColumnwiseData, TensorKind::kColumnwiseScale,
                    TensorKind::kColumnwiseAmax, o.rht.columnwise);
    args.propagate = amax.propagate;
    args.found = memory_.found;
    Count(args.row.signs || args.col.signs);
    return LaunchQuantize(args, queue_);
  }

  cudaError_t Compute(const DequantizeOptions& o) {
    const bool col = HasColumnwise(o.usage);
    const auto input = [&](TensorKind rowwise, TensorKind columnwise) {
      return plan_.input(col ? columnwise : rowwise);
    };
    const TensorSpec& data =
        *input(TensorKind::kRowwiseData, TensorKind::kColumnwiseData);
    const TensorSpec& scale =
        *input(TensorKind::kRowwiseScale, TensorKind::kColumnwiseScale);
    const TensorSpec& amax =
        *input(TensorKind::kRowwiseAmax, TensorKind::kColumnwiseAmax);
    const std::byte* const in = memory_.in;
    DequantizeArgs args = {};
    args.data = in + data.offset;
    args.scale = in + scale.offset;
    args.amax = reinterpret_cast<const float*>(in + amax.offset);
    args.signs = Signs(o.inverse_rht);
    args.data_stride = data.shape[1];
    args.scale_stride = scale.shape[1];
    args.columnwise = col;
    args.out = Out(TensorKind::kDequantized);
    args.dtype = o.output;
    args.rows = plan_.rows();
    args.cols = plan_.cols();
    Count(o.inverse_rht);
    return LaunchDequantize(args, queue_);
  }

  cudaError_t Compute(const RhtAmaxOptions& o) {
    const cudaError_t error = FindAmax(o.rowwise_rht, o.columnwise_rht);
    if (error != cudaSuccess) return error;
    WriteAmaxArgs amax = {};
    amax.propagate = o.non_finite == NonFinite::kPropagate;
    amax.found = memory_.found;
    const auto add = [&](TensorKind kind, AmaxSource source) {
      Add(kind, source, std::nullopt, &amax);
    };
    add(TensorKind::kRowwiseAmax, AmaxSource::kPlain);
    add(TensorKind::kColumnwiseAmax, AmaxSource::kPlain);
    add(TensorKind::kRowwiseRhtAmax, AmaxSource::kRowRht);
    add(TensorKind::kColumnwiseRhtAmax, AmaxSource::kColRht);
    return LaunchWriteAmax(amax, queue_);
  }

  cudaError_t Compute(const ApplyRhtOptions& o) {
    ApplyRhtArgs args = {};
    args.x = Input();
    args.out = Out(TensorKind::kRotated);
    args.dtype = o.output;
    args.signs = Signs(true);
    args.inverse = o.inverse;
    args.found = memory_.found;
    Count(true);
    return LaunchApplyRht(args, queue_);
  }

  int rht_launches = 0;

 private:
  std::byte* Out(TensorKind kind) {
    const TensorSpec* spec = plan_.output(kind);
    return spec ? memory_.out + spec->offset : nullptr;
  }
  float* OutFloat(TensorKind kind) {
    return reinterpret_cast<float*>(Out(kind));
  }
  Matrix Input() const {
    return {memory_.in, plan_.tensor().dtype, plan_.rows(), plan_.cols()};
  }
  const float* Signs(bool wanted) const {
    return wanted ? memory_.signs : nullptr;
  }
  // One kernel more that reads the cached rotation, if it does.
  void Count(bool reads_rht) {
    if (reads_rht) ++rht_launches;
  }

  cudaError_t FindAmax(bool row_rht, bool col_rht) {
    Count(row_rht || col_rht);
    return LaunchAmax({Input(), Signs(row_rht), Signs(col_rht), memory_.found},
                      queue_);
  }

  static std::optional<float> Given(const std::vector<float>& v) {
    return v.empty() ? std::nullopt : std::optional<float>(v[0]);
  }

  // Adds an amax to write, if the plan has it.
  void Add(TensorKind kind, AmaxSource source, std::optional<float> given,
           WriteAmaxArgs* args) {
    float* to = OutFloat(kind);
    if (to == nullptr) return;
    args->entries[args->count++] = {to, given ? AmaxSource::kGiven : source,
                                    given.value_or(0)};
  }

  Nvfp4Copy Destination(TensorKind data, TensorKind scale, TensorKind amax,
                        bool rht) {
    const TensorSpec* spec = plan_.output(data);
    if (spec == nullptr) return {};
    Nvfp4Copy copy;
    copy.data = Out(data);
    copy.scale = Out(scale);
    copy.amax = OutFloat(amax);
    copy.signs = Signs(rht);
    copy.data_stride = spec->shape[1];
    copy.scale_stride = plan_.output(scale)->shape[1];
    return copy;
  }

  const Plan& plan_;
  const JobMemory& memory_;
  const Queue& queue_;
};

}  // namespace

cudaError_t QueuePlan(const Plan& plan, const JobMemory& memory,
                      const Queue& queue, int* rht_launches) {
  Planner planner(plan, memory, queue);
  cudaError_t error =
      cudaMemsetAsync(memory.found, 0, sizeof(Found), queue.stream);
  if (error == cudaSuccess) error = planner.ZeroPadding();
  if (error == cudaSuccess) {
    error = std::visit([&](const auto& o) { return planner.Compute(o); },
                       plan.options());
  }
  *rht_launches = planner.rht_launches;
  return error;
}

}  // namespace quantd::cuda
