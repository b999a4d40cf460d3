#include "kernels/cuda/compute.h"

#include <optional>
#include <variant>

#include "kernels/cuda/check.h"
#include "kernels/cuda/dispatch.h"
#include "kernels/plan/amax_source.h"

namespace quantd::cuda {
namespace {

class Planner {
 public:
  Planner(const Plan& plan, const Route& route, const JobMemory& memory,
          const Queue& queue, const Tables& tables)
      : plan_(plan),
        route_(route),
        memory_(memory),
        queue_(queue),
        tables_(tables),
        out_(memory.payload.out),
        found_(plan.grouped() ? tables.found() : &memory.findings->found) {}

  cudaError_t Upload() {
    if (tables_.host_bytes() == 0) return cudaSuccess;
    return cudaMemcpyAsync(tables_.device(), tables_.host(),
                           tables_.host_bytes(), cudaMemcpyHostToDevice,
                           queue_.stream);
  }

  // Queues zeros for what is added to and for what no kernel writes: gaps
  // between tensors and the padding of scales.
  cudaError_t Prepare() {
    QUANTD_CUDA_TRY(Zero(memory_.findings, FindingsBytes(plan_)));
    if (plan_.grouped()) {
      QUANTD_CUDA_TRY(Zero(found_, plan_.groups().size() * sizeof(Found)));
      const ZeroRunsArgs runs = tables_.zero_runs(out_);
      return runs.piece_count > 0 ? LaunchZeroRuns(runs, queue_) : cudaSuccess;
    }
    for (const ZeroRun& run : tables_.padding()) {
      std::byte* to = out_ + run.offset;
      QUANTD_CUDA_TRY(run.count == 1
                          ? Zero(to, run.width)
                          : cudaMemset2DAsync(to, run.pitch, 0, run.width,
                                              run.count, queue_.stream));
    }
    return cudaSuccess;
  }

  cudaError_t Compute(const QuantizeOptions& o) {
    if (route_.maxima()) QUANTD_CUDA_TRY(FindAmax(o));
    QUANTD_CUDA_TRY(WriteAmaxes(o));
    if (FindFormat(o.format)->scaling == Scaling::kTensor && route_.copies) {
      QUANTD_CUDA_TRY(LaunchTensorScales(
          {tables_.groups(), tables_.encode_params(), tables_.scales()},
          queue_));
    }
    return Copy(o);
  }

  // The last step of Compute.
  cudaError_t Copy(const QuantizeOptions& o) {
    bool summed = false;
    if (route_.copies) {
      QUANTD_CUDA_TRY(route_.tuned_copies ? QuantizeTuned(o)
                                          : Encode(o, &summed));
    }
    if (!o.dbias) return cudaSuccess;
    return LaunchDbias(
        {tables_.groups(), plan_.tensor().dtype, o.dbias_dtype, summed},
        queue_);
  }
  cudaError_t Copy(const RhtAmaxOptions&) { return cudaSuccess; }
  template <typename Options>
  cudaError_t Copy(const Options& o) {
    return Compute(o);
  }

  cudaError_t Compute(const DequantizeOptions& o) {
    Count(o.inverse_rht);
    DecodeArgs args = {};
    args.list = tables_.groups();
    args.only = tables_.first_group();
    args.params = tables_.decode_params();
    args.rotation = o.inverse_rht ? o.rht_dimension : 0;
    return LaunchDecode(args, queue_);
  }

  cudaError_t Compute(const RhtAmaxOptions& o) {
    const bool propagate = o.non_finite == NonFinite::kPropagate;
    if (o.domain == AmaxDomain::kTensor) {
      QUANTD_CUDA_TRY(route_.tuned_amax ? FindTuned(o.sign_mask)
                                        : FindGeneric(GenericAmax(
                                              o.rht_dimension, propagate)));
      WriteAmaxArgs amax = StartAmax(propagate);
      amax.follows = true;
      Add(TensorKind::kRowwiseAmax, FoundAmax::kPlain, 1, &amax);
      Add(TensorKind::kColumnwiseAmax, FoundAmax::kPlain, 1, &amax);
      Add(TensorKind::kRowwiseRhtAmax, FoundAmax::kRowRht, 1, &amax);
      Add(TensorKind::kColumnwiseRhtAmax, FoundAmax::kColRht, 1, &amax);
      return LaunchWriteAmax(amax, queue_);
    }
    SpanAmaxArgs args = GenericAmax(o.rht_dimension, propagate);
    QUANTD_CUDA_TRY(Lines(TensorKind::kRowwiseAmax, &args.rows));
    QUANTD_CUDA_TRY(Lines(TensorKind::kColumnwiseAmax, &args.columns));
    QUANTD_CUDA_TRY(Lines(TensorKind::kRowwiseRhtAmax, &args.rotated_rows));
    QUANTD_CUDA_TRY(
        Lines(TensorKind::kColumnwiseRhtAmax, &args.rotated_columns));
    return FindGeneric(args);
  }

  cudaError_t Compute(const ApplyRhtOptions& o) {
    ApplyRhtArgs args = {};
    args.x = Input();
    args.out = Out(TensorKind::kRotated);
    args.dtype = o.output;
    args.signs = memory_.payload.signs;
    args.dimension = o.rht_dimension;
    args.inverse = o.inverse;
    args.found = found_;
    Count(true);
    return LaunchApplyRht(args, queue_);
  }

  int rht_launches = 0;

 private:
  std::byte* Out(TensorKind kind) {
    const TensorSpec* spec = plan_.output(kind);
    return spec ? out_ + spec->offset : nullptr;
  }
  float* OutFloat(TensorKind kind) {
    return reinterpret_cast<float*>(Out(kind));
  }
  Matrix Input() const {
    return {memory_.payload.in, plan_.tensor().dtype, plan_.rows(),
            plan_.cols()};
  }
  const float* Signs(bool wanted) const {
    return wanted ? memory_.payload.signs : nullptr;
  }
  // Of a rotation of dimension 16: kernels that are made for it take the signs
  // with their arguments.
  static void FillSigns(const std::optional<SignMask>& mask,
                        float (&signs)[kRhtSize]) {
    const SignMask m = mask.value_or(kDefaultSignMask);
    for (int i = 0; i < kRhtSize; ++i) {
      signs[i] = m.negative(i) ? -0.25f : 0.25f;
    }
  }
  // One kernel more that uses a rotation, if it does.
  void Count(bool reads_rht) {
    if (reads_rht) ++rht_launches;
  }
  cudaError_t Zero(void* p, size_t bytes) {
    if (bytes == 0) return cudaSuccess;
    return cudaMemsetAsync(p, 0, bytes, queue_.stream);
  }

  // --- amax ---

  cudaError_t FindTuned(const std::optional<SignMask>& mask) {
    Count(route_.rotated[0] || route_.rotated[1]);
    AmaxArgs args = {};
    args.x = Input();
    args.row_signs = Signs(route_.rotated[0]);
    args.col_signs = Signs(route_.rotated[1]);
    args.found = found_;
    FillSigns(mask, args.signs);
    return LaunchAmax(args, queue_);
  }
  cudaError_t FindGeneric(const SpanAmaxArgs& args) {
    Count(args.row_signs || args.col_signs);
    return LaunchSpanAmax(args, queue_);
  }
  SpanAmaxArgs GenericAmax(int dimension, bool propagate) const {
    SpanAmaxArgs args = {};
    args.list = tables_.groups();
    args.dtype = plan_.tensor().dtype;
    args.row_signs = Signs(route_.rotated[0]);
    args.col_signs = Signs(route_.rotated[1]);
    args.rotation = dimension;
    args.found = found_;
    args.seen = &memory_.findings->found.seen;
    args.propagate = propagate;
    return args;
  }
  // An output of maxima of lines, if the plan has it: zeros to begin with.
  cudaError_t Lines(TensorKind kind, uint32_t** to) {
    const TensorSpec* spec = plan_.output(kind);
    if (spec == nullptr) return cudaSuccess;
    *to = reinterpret_cast<uint32_t*>(Out(kind));
    return Zero(*to, spec->size);
  }
  cudaError_t FindAmax(const QuantizeOptions& o) {
    if (route_.tuned_amax) return FindTuned(o.rht.sign_mask);
    SpanAmaxArgs args =
        GenericAmax(o.rht.dimension, o.non_finite == NonFinite::kPropagate);
    if (route_.lines[0]) {
      QUANTD_CUDA_TRY(Lines(TensorKind::kRowwiseAmax, &args.rows));
    }
    if (route_.lines[1]) {
      QUANTD_CUDA_TRY(Lines(TensorKind::kColumnwiseAmax, &args.columns));
    }
    return FindGeneric(args);
  }

  WriteAmaxArgs StartAmax(bool propagate) const {
    WriteAmaxArgs args = {};
    args.propagate = propagate;
    args.groups = static_cast<int64_t>(plan_.groups().size());
    args.found = found_;
    return args;
  }
  // Adds an amax to write, if the plan has it.
  void Add(TensorKind kind, FoundAmax source, float number,
           WriteAmaxArgs* args) {
    float* to = OutFloat(kind);
    if (to != nullptr) args->entries[args->count++] = {to, source, number};
  }
  // Everything that is an amax, where it leaves from; kernels read it there.
  cudaError_t WriteAmaxes(const QuantizeOptions& o) {
    WriteAmaxArgs args = StartAmax(o.non_finite == NonFinite::kPropagate);
    args.follows = route_.maxima();
    for (bool columnwise : {false, true}) {
      const TensorKind kind =
          columnwise ? TensorKind::kColumnwiseAmax : TensorKind::kRowwiseAmax;
      const TensorSpec* spec = plan_.output(kind);
      if (spec == nullptr || route_.lines[columnwise]) continue;
      const AmaxSource source = SourceOfAmax(o, columnwise);
      if (source.kind == AmaxSource::Kind::kRotated) {
        Add(kind, columnwise ? FoundAmax::kColRht : FoundAmax::kRowRht, 1,
            &args);
      } else if (source.kind == AmaxSource::Kind::kPlain) {
        Add(kind, FoundAmax::kPlain, source.factor, &args);
      } else if (source.given.size() == 1 && plan_.groups().size() == 1) {
        // (One row of all groups together has one amax, too.)
        Add(kind, FoundAmax::kGiven, source.values()[0], &args);
      } else {
        QUANTD_CUDA_TRY(
            cudaMemcpyAsync(Out(kind), tables_.given_amax(columnwise),
                            spec->size, cudaMemcpyHostToDevice, queue_.stream));
        args.follows = false;
      }
    }
    Add(TensorKind::kAmax, FoundAmax::kPlain, 1, &args);
    // For the host, which makes the next scale of it.
    Add(TensorKind::kNextScale, FoundAmax::kPlain, 1, &args);
    return args.count > 0 ? LaunchWriteAmax(args, queue_) : cudaSuccess;
  }

  // --- copies ---

  // `summed`: whether the chunk sums of dbias were made on the way.
  cudaError_t Encode(const QuantizeOptions& o, bool* summed) {
    EncodeArgs args = {};
    args.list = tables_.groups();
    args.params = tables_.encode_params();
    const bool rotates = o.rht.rowwise || o.rht.columnwise;
    args.rotation = rotates ? o.rht.dimension : 0;
    args.seen = &memory_.findings->found.seen;
    args.sums = o.statistics ? memory_.findings->sums : nullptr;
    args.first = tables_.first_group();
    args.dbias = o.dbias;
    FillSigns(o.rht.sign_mask, args.signs);
    *summed = SumsChunks(args);
    Count(rotates);
    return LaunchEncode(args, queue_);
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
  cudaError_t QuantizeTuned(const QuantizeOptions& o) {
    QuantizeArgs args = {};
    args.x = Input();
    args.row = Destination(TensorKind::kRowwiseData, TensorKind::kRowwiseScale,
                           TensorKind::kRowwiseAmax, o.rht.rowwise);
    args.col =
        Destination(TensorKind::kColumnwiseData, TensorKind::kColumnwiseScale,
                    TensorKind::kColumnwiseAmax, o.rht.columnwise);
    args.propagate = o.non_finite == NonFinite::kPropagate;
    args.found = found_;
    Count(args.row.signs || args.col.signs);
    return LaunchQuantize(args, queue_);
  }

  const Plan& plan_;
  const Route& route_;
  const JobMemory& memory_;
  const Queue& queue_;
  const Tables& tables_;
  std::byte* const out_;
  Found* const found_;
};

}  // namespace

cudaError_t QueuePlan(const Plan& plan, const Route& route,
                      const JobMemory& memory, const Queue& queue,
                      Tables* tables, int* rht_launches) {
  tables->Fill(memory.payload);
  Planner planner(plan, route, memory, queue, *tables);
  cudaError_t error = planner.Upload();
  if (error == cudaSuccess) error = planner.Prepare();
  if (error == cudaSuccess) {
    error = std::visit([&](const auto& o) { return planner.Compute(o); },
                       plan.options());
  }
  *rht_launches = planner.rht_launches;
  return error;
}

cudaError_t QueueAgain(const Plan& plan, const Route& route,
                       const JobMemory& memory, const Queue& queue,
                       const Tables& tables, Part part) {
  Planner planner(plan, route, memory, queue, tables);
  if (part == Part::kCopies) {
    return std::visit([&](const auto& o) { return planner.Copy(o); },
                      plan.options());
  }
  QUANTD_CUDA_TRY(planner.Prepare());
  return std::visit([&](const auto& o) { return planner.Compute(o); },
                    plan.options());
}

}  // namespace quantd::cuda
