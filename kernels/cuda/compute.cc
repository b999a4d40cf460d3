#include "kernels/cuda/compute.h"

#include "kernels/cuda/check.h"
#include "kernels/cuda/launch.h"

namespace quantd::cuda {
namespace {

// Queues the kernels of one job.
class Worker {
 public:
  Worker(const Prepared& tables, const JobMemory& memory, const Queue& queue)
      : plan_(tables.plan()),
        recipe_(tables.recipe()),
        choice_(tables.choice()),
        memory_(memory),
        queue_(queue),
        tables_(tables),
        found_(plan_.grouped() ? tables.found() : &memory.findings->found) {}

  cudaError_t Upload() {
    if (tables_.host_bytes() == 0) return cudaSuccess;
    return cudaMemcpyAsync(tables_.device(), tables_.host(),
                           tables_.host_bytes(), cudaMemcpyHostToDevice,
                           queue_.stream);
  }

  // Queues zeroing of sums, maxima and output bytes that no kernel writes: gaps
  // between tensors and the padding of scales.
  cudaError_t Prepare() {
    ZeroFewRunsArgs few = {};
    const auto zero = [&](void* to, size_t bytes) {
      few.runs[few.count++] = {static_cast<std::byte*>(to), bytes, bytes, 1};
    };
    if (!memory_.findings_hold) {
      zero(memory_.findings, FindingsBytes(recipe_));
    }
    if (plan_.grouped()) {
      zero(found_, plan_.groups().size() * sizeof(Found));
      const ZeroRunsArgs runs = tables_.zero_runs();
      if (runs.piece_count > 0) {
        QUANTD_CUDA_TRY(Queued(LaunchZeroRuns(runs, queue_)));
      }
      return Queued(LaunchZeroFewRuns(few, queue_));
    }
    for (const ZeroRunsArgs::Run& run : tables_.runs()) {
      if (run.width == 0 || run.count == 0) continue;
      if (few.count < ZeroFewRunsArgs::kMax) {
        few.runs[few.count++] = run;
        continue;
      }
      QUANTD_CUDA_TRY(cudaMemset2DAsync(run.to, run.pitch, 0, run.width,
                                        run.count, queue_.stream));
    }
    return few.count > 0 ? Queued(LaunchZeroFewRuns(few, queue_)) : cudaSuccess;
  }

  cudaError_t Compute() {
    QUANTD_CUDA_TRY(FindMaxima());
    QUANTD_CUDA_TRY(WriteAmaxes());
    const bool tensors = recipe_.copies[0].scale != TensorScale::kNone ||
                         recipe_.copies[1].scale != TensorScale::kNone;
    if (tensors) {
      QUANTD_CUDA_TRY(Queued(LaunchTensorScales(
          {tables_.groups(), tables_.encode_params(), tables_.scales()},
          queue_)));
    }
    return Copy();
  }

  // Queues the last step: encoding and dbias, decoding, or a rotation.
  cudaError_t Copy() {
    if (recipe_.rotate) return Rotate(*recipe_.rotate);
    if (choice_.decode != DecodeKernel::kNone) return Decode();
    QUANTD_CUDA_TRY(Encode());
    return SumColumns();
  }

  // Records that the last queued work is a kernel of the job.
  void FollowsKernel() { queue_.follows = true; }

  int rht_launches = 0;

 private:
  std::byte* Out(TensorKind kind) {
    const TensorSpec* spec = plan_.output(kind);
    return spec ? memory_.payload.Output(plan_, *spec) : nullptr;
  }
  Matrix Input() const {
    return {memory_.payload.Input(plan_, plan_.inputs().front()),
            plan_.tensor().dtype, plan_.rows(), plan_.cols()};
  }
  const float* Signs(bool wanted) const {
    return wanted ? memory_.payload.signs : nullptr;
  }
  // Fills in the signs of a rotation of dimension 16, which are a kernel
  // argument.
  void FillSigns(float (&signs)[kRhtSize]) const {
    const SignMask m =
        recipe_.rotation ? recipe_.rotation->mask : kDefaultSignMask;
    for (int i = 0; i < kRhtSize; ++i) {
      signs[i] = m.negative(i) ? -0.25f : 0.25f;
    }
  }
  int Dimension() const {
    return recipe_.rotation ? recipe_.rotation->dimension : kRhtSize;
  }
  // Counts a kernel if it reads the signs.
  void Count(bool reads_rht) {
    if (reads_rht) ++rht_launches;
  }
  // Records that the next work follows a kernel. Returns the launcher's result.
  cudaError_t Queued(cudaError_t error) {
    queue_.follows = true;
    return error;
  }
  cudaError_t Zero(void* p, size_t bytes) {
    if (bytes == 0) return cudaSuccess;
    queue_.follows = false;
    return cudaMemsetAsync(p, 0, bytes, queue_.stream);
  }

  // --- amax ---

  cudaError_t FindMaxima() {
    if (choice_.amax == AmaxKernel::kNone) return cudaSuccess;
    Count(recipe_.search.rotates());
    if (choice_.searches_groups()) return FindInGroups();
    AmaxArgs args = {};
    args.x = Input();
    args.row_signs = Signs(recipe_.search.rotated[0]);
    args.col_signs = Signs(recipe_.search.rotated[1]);
    args.found = found_;
    FillSigns(args.signs);
    return Queued(Launch(choice_.amax, args, queue_));
  }

  cudaError_t FindInGroups() {
    SpanAmaxArgs args = {};
    args.list = tables_.groups();
    args.dtype = plan_.tensor().dtype;
    args.row_signs = Signs(recipe_.search.rotated[0]);
    args.col_signs = Signs(recipe_.search.rotated[1]);
    args.rotation = Dimension();
    args.found = found_;
    args.seen = &memory_.findings->found.seen;
    args.propagate = recipe_.propagate;
    for (const AmaxOutput& amax : recipe_.amaxes) {
      if (!amax.lines) continue;
      const bool rotated = amax.from != AmaxOutput::From::kPlain;
      uint32_t** const to =
          amax.columnwise ? (rotated ? &args.rotated_columns : &args.columns)
                          : (rotated ? &args.rotated_rows : &args.rows);
      *to = reinterpret_cast<uint32_t*>(Out(amax.kind));
      QUANTD_CUDA_TRY(Zero(*to, plan_.output(amax.kind)->size));
    }
    return Queued(Launch(choice_.amax, args, queue_));
  }

  // Queues the kernel that writes the groups' amaxes and the encoders' code
  // tables.
  cudaError_t WriteAmaxes() {
    using From = AmaxOutput::From;
    WriteAmaxArgs args = {};
    args.propagate = recipe_.propagate;
    args.groups = static_cast<int64_t>(plan_.groups().size());
    args.found = found_;
    for (const AmaxOutput& amax : recipe_.amaxes) {
      if (amax.lines) continue;
      const AmaxSource& source = amax.source;
      auto* const to = reinterpret_cast<float*>(Out(amax.kind));
      WriteAmaxArgs::Entry entry = {to, FoundAmax::kPlain, source.factor};
      if (amax.from == From::kRotatedRows) entry.source = FoundAmax::kRowRht;
      if (amax.from == From::kRotatedColumns) entry.source = FoundAmax::kColRht;
      if (amax.from == From::kGiven) {
        if (memory_.has_given_amaxes) continue;
        // (Row-scaled groups with a single row in total have a single amax, but
        // the kernel would write one for each group.)
        if (source.given.size() > 1 || plan_.groups().size() > 1) {
          QUANTD_CUDA_TRY(cudaMemcpyAsync(
              to, tables_.given_amax(amax.columnwise),
              plan_.output(amax.kind)->size, cudaMemcpyDefault, queue_.stream));
          queue_.follows = false;
          continue;
        }
        entry = {to, FoundAmax::kGiven, source.values()[0]};
      }
      args.entries[args.count++] = entry;
    }
    args.table = tables_.code_table();
    args.tables = tables_.code_tables();
    args.amaxes[0] = tables_.first_group().rowwise.amax;
    args.amaxes[1] = tables_.first_group().columnwise.amax;
    args.range = tables_.encode_params().range;
    return args.count > 0 || args.table != CodeTable::kNone
               ? Queued(LaunchWriteAmax(args, queue_))
               : cudaSuccess;
  }

  // --- copies ---

  cudaError_t Encode() {
    if (choice_.encode == EncodeKernel::kNone) return cudaSuccess;
    EncodeArgs args = {};
    args.list = tables_.groups();
    args.params = tables_.encode_params();
    args.rotation = recipe_.copies_rotate() ? Dimension() : 0;
    args.seen = &memory_.findings->found.seen;
    args.sums = recipe_.statistics ? memory_.findings->sums : nullptr;
    args.first = tables_.first_group();
    args.tables = tables_.code_tables();
    args.dbias = choice_.dbias == DbiasKernel::kEncoder;
    FillSigns(args.signs);
    Count(recipe_.copies_rotate());
    args.known_amax = KnownAmax();
    QUANTD_CUDA_TRY(Queued(Launch(choice_.encode, args, queue_)));
    return choice_.errors == ErrorsKernel::kNone
               ? cudaSuccess
               : Queued(Launch(choice_.errors, args, queue_));
  }

  // The given amax of the rowwise copy, if there is exactly one; else a
  // negative number.
  float KnownAmax() const {
    if (plan_.grouped()) return -1.0f;
    for (const AmaxOutput& amax : recipe_.amaxes) {
      if (!amax.columnwise && !amax.lines &&
          amax.from == AmaxOutput::From::kGiven) {
        return amax.source.values()[0];
      }
    }
    return -1.0f;
  }

  cudaError_t SumColumns() {
    if (choice_.dbias == DbiasKernel::kNone) return cudaSuccess;
    if (choice_.dbias == DbiasKernel::kChunks) {
      QUANTD_CUDA_TRY(Queued(
          LaunchSumChunks(tables_.groups(), plan_.tensor().dtype, queue_)));
    }
    return Queued(LaunchSumGroups(
        tables_.groups(), plan_.output(TensorKind::kDbias)->dtype, queue_));
  }

  cudaError_t Decode() {
    Count(recipe_.copies_rotate());
    DecodeArgs args = {};
    args.list = tables_.groups();
    args.only = tables_.first_group();
    args.params = tables_.decode_params();
    args.rotation = recipe_.copies_rotate() ? Dimension() : 0;
    FillSigns(args.signs);
    return Queued(Launch(choice_.decode, args, queue_));
  }

  cudaError_t Rotate(const RotateRecipe& rotate) {
    Count(true);
    RotateArgs args = {};
    args.x = Input();
    args.out = Out(TensorKind::kRotated);
    args.dtype = rotate.output;
    args.signs = memory_.payload.signs;
    args.dimension = Dimension();
    args.inverse = rotate.inverse;
    args.found = found_;
    FillSigns(args.sixteen);
    return Queued(Launch(choice_.rotate, args, queue_));
  }

  const Plan& plan_;
  const Recipe& recipe_;
  const KernelChoice& choice_;
  const JobMemory& memory_;
  Queue queue_;
  const Prepared& tables_;
  Found* const found_;
};

}  // namespace

cudaError_t QueueWork(Prepared* prepared, const JobMemory& memory,
                      const Queue& queue, int* rht_launches) {
  prepared->Fill(memory.payload);
  Worker worker(*prepared, memory, queue);
  cudaError_t error = worker.Upload();
  if (error == cudaSuccess) error = worker.Prepare();
  if (error == cudaSuccess) error = worker.Compute();
  *rht_launches = worker.rht_launches;
  return error;
}

cudaError_t QueueAgain(const Prepared& prepared, const JobMemory& memory,
                       const Queue& queue, Part part) {
  Worker worker(prepared, memory, queue);
  if (part == Part::kCopies) {
    worker.FollowsKernel();
    return worker.Copy();
  }
  QUANTD_CUDA_TRY(worker.Prepare());
  return worker.Compute();
}

}  // namespace quantd::cuda
