#include "kernels/cpu/compute.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>
#include <variant>
#include <vector>

#include "kernels/arith/encode.h"
#include "kernels/cpu/choice.h"
#include "kernels/cpu/pieces.h"
#include "kernels/cpu/slice.h"
#include "kernels/device/host_output.h"
#include "kernels/device/recipe.h"

namespace quantd::cpu {
namespace {

void Merge(const Maxima& m, Maxima* all) {
  all->plain = std::max(all->plain, m.plain);
  all->row_rht = std::max(all->row_rht, m.row_rht);
  all->col_rht = std::max(all->col_rht, m.col_rht);
  all->nan |= m.nan;
  all->inf |= m.inf;
  all->row_rht_nan |= m.row_rht_nan;
  all->col_rht_nan |= m.col_rht_nan;
}

// The amax of a group for an output. Every NaN becomes the canonical NaN.
float AmaxOf(const Maxima& m, const AmaxOutput& output, bool propagate) {
  const auto amax = [&](uint32_t bits, bool nan) {
    const float max = Scalar::Float(nan && propagate ? kNanBits : bits);
    const float value = max * output.source.factor;
    return std::isnan(value) ? Scalar::Float(kNanBits) : value;
  };
  switch (output.from) {
    case AmaxOutput::From::kRotatedRows:
      return amax(m.row_rht, m.row_rht_nan);
    case AmaxOutput::From::kRotatedColumns:
      return amax(m.col_rht, m.col_rht_nan);
    default:
      return amax(m.plain, m.nan);
  }
}

class Computer {
 public:
  Computer(CpuDevice* device, const Plan& plan, const JobBases& bases,
           JobReport* report, std::atomic<uint64_t>* done)
      : device_(device),
        tiles_(*device->tiles),
        plan_(plan),
        recipe_(MakeRecipe(plan)),
        choice_(ChooseKernels(plan, recipe_)),
        bases_(bases),
        report_(report),
        done_(done) {
    if (recipe_.rotation) {
      signs_ = device_->signs.Get(recipe_.rotation->mask, Dimension());
      bases_.signs = signs_->data();
    }
  }

  absl::Status Compute() {
    if (recipe_.rotate) return Rotate(*recipe_.rotate);
    if (choice_.decode != DecodeKernel::kNone) return Decode();
    const bool quantizes =
        std::holds_alternative<QuantizeOptions>(plan_.options());
    return quantizes ? Quantize() : WriteAmaxes();
  }

  const Maxima& seen() const { return seen_; }

 private:
  absl::Status Quantize() {
    task_ = MakeQuantizeTask(plan_, bases_);
    if (absl::Status s = WriteAmaxes(); !s.ok()) return s;
    WriteTensorScales(plan_, recipe_, task_);
    if (recipe_.copies_wanted()) {
      Encode();
      if (absl::Status s = CheckSeen(); !s.ok()) return s;
    }
    if (choice_.dbias) Dbias(plan_.output(TensorKind::kDbias)->dtype);
    WriteHistory(plan_, recipe_, bases_);
    report_->replaced_globals = WriteGlobalScales(plan_, bases_);
    return absl::OkStatus();
  }

  absl::Status Decode() {
    const DequantizeTask task = MakeDequantizeTask(plan_, bases_);
    CountRht(recipe_.copies_rotate());
    const auto decode = tiles_.*RowOf(choice_.decode).function;
    Over(kWholeRows, [&](const Piece& piece) {
      const GroupTask& group = task.groups[piece.group];
      decode(task.params, group, piece.first, piece.last);
    });
    return absl::OkStatus();
  }

  absl::Status Rotate(const RotateRecipe& recipe) {
    CountRht(true);
    RotateArgs args = {};
    args.x = Input(0);
    args.out = Output(TensorKind::kRotated);
    args.dtype = recipe.output;
    args.signs = bases_.signs;
    args.inverse = recipe.inverse;
    args.dimension = Dimension();
    const auto rotate = tiles_.*RowOf(choice_.rotate).function;
    std::mutex mutex;
    Over(kWholeRows, [&](const Piece& piece) {
      Maxima m;
      rotate(args, piece.first, piece.last, &m);
      Seen(m, &mutex);
    });
    return absl::OkStatus();
  }

  int Dimension() const {
    return recipe_.rotation ? recipe_.rotation->dimension : kRhtSize;
  }
  absl::Status CheckSeen() const {
    return CheckFinite(recipe_, seen_.nan, seen_.inf);
  }
  void CountRht(bool rotates) {
    if (rotates) ++device_->rht_launches;
  }

  Matrix Input(size_t group) const {
    const Group& g = plan_.groups()[group];
    const DType dtype = plan_.tensor().dtype;
    return {bases_.Input(plan_, plan_.inputs()[0]) +
                static_cast<size_t>(g.row * plan_.cols()) * SizeOf(dtype),
            dtype, g.rows, plan_.cols()};
  }
  std::byte* Output(TensorKind kind) const {
    return bases_.Output(plan_, *plan_.output(kind));
  }

  void Seen(const Maxima& m, std::mutex* mutex) {
    if (!m.nan && !m.inf) return;
    std::lock_guard lock(*mutex);
    seen_.nan |= m.nan;
    seen_.inf |= m.inf;
  }

  // Calls fn(piece) for pieces that cover all rows of all groups, on all
  // threads.
  template <typename Fn>
  void Over(Cut cut, Fn fn) {
    OverJoined(cut, [&](absl::Span<const Piece> pieces) {
      for (const Piece& piece : pieces) fn(piece);
    });
  }
  template <typename Fn>
  void OverJoined(Cut cut, Fn fn) {
    const std::vector<Piece> pieces =
        CutPieces(plan_, device_->threads.threads(), cut);
    const auto joined = JoinPieces(pieces);
    ForEach(joined.size(), [&](int64_t i) { fn(joined[i]); });
  }
  template <typename Fn>
  void ForEach(size_t n, Fn fn) {
    device_->threads.ParallelFor(static_cast<int64_t>(n), [&](int64_t i) {
      fn(i);
      ++*done_;
    });
  }

  // Finds the maxima of every group and, if wanted, of every line.
  std::vector<Maxima> FindMaxima() {
    std::vector<Maxima> found(plan_.groups().size());
    if (choice_.amax == AmaxKernel::kNone) return found;
    const Search& search = recipe_.search;
    CountRht(search.rotates());
    const auto amax = tiles_.*RowOf(choice_.amax).function;
    std::mutex mutex;
    Over(kCutRows, [&](const Piece& piece) {
      Maxima m;
      AmaxArgs args = {};
      args.x = Input(piece.group);
      args.x.data += static_cast<size_t>(piece.col) * SizeOf(args.x.dtype);
      args.x.cols = piece.cols;
      args.rotation = Dimension();
      args.row_signs = search.rotated[0] ? bases_.signs : nullptr;
      args.col_signs = search.rotated[1] ? bases_.signs : nullptr;
      args.propagate = recipe_.propagate;
      SetLines(piece, &args);
      amax(args, piece.first, piece.last, &m);
      std::lock_guard lock(mutex);
      Merge(m, &found[piece.group]);
    });
    for (const Maxima& m : found) {
      seen_.nan |= m.nan;
      seen_.inf |= m.inf;
    }
    return found;
  }

  // Sets where the maxima of a piece's lines are written. The first piece of a
  // line finds zeros there.
  void SetLines(const Piece& piece, AmaxArgs* args) const {
    for (const AmaxOutput& amax : recipe_.amaxes) {
      if (!amax.lines) continue;
      const bool rotated = amax.from != AmaxOutput::From::kPlain;
      uint32_t*& to = amax.columnwise
                          ? (rotated ? args->col_rht_lines : args->col_lines)
                          : (rotated ? args->row_rht_lines : args->row_lines);
      to = reinterpret_cast<uint32_t*>(Output(amax.kind));
      to += amax.columnwise
                ? static_cast<int64_t>(piece.group) * plan_.cols() + piece.col
                : plan_.groups()[piece.group].row;
    }
  }

  absl::Status WriteAmaxes() {
    for (const AmaxOutput& amax : recipe_.amaxes) {
      const TensorSpec& spec = *plan_.output(amax.kind);
      if (amax.lines && spec.size > 0) {
        std::memset(Output(amax.kind), 0, spec.size);
      }
    }
    const std::vector<Maxima> found = FindMaxima();
    if (absl::Status s = CheckSeen(); !s.ok()) return s;
    for (const AmaxOutput& amax : recipe_.amaxes) {
      const TensorSpec& spec = *plan_.output(amax.kind);
      auto* const to = reinterpret_cast<float*>(Output(amax.kind));
      if (amax.from == AmaxOutput::From::kGiven) {
        WriteGivenAmax(plan_, amax, bases_);
      } else if (amax.lines) {
        for (size_t i = 0; i < spec.size / sizeof(float); ++i) {
          if (std::isnan(to[i])) to[i] = Scalar::Float(kNanBits);
        }
      } else {
        for (size_t g = 0; g < found.size(); ++g) {
          to[g] = AmaxOf(found[g], amax, recipe_.propagate);
        }
      }
    }
    return absl::OkStatus();
  }

  // Encodes every copy that is wanted.
  void Encode() {
    const bool statistics = recipe_.statistics;
    std::mutex mutex;
    ErrorSums sums[2] = {};
    OverJoined(kCutRows, [&](absl::Span<const Piece> pieces) {
      Maxima m;
      std::vector<ErrorSums> mine(statistics ? 2 : 0);
      const auto quantize = [&](const EncodeParams& params,
                                const GroupTask& group, const Piece& piece) {
        tiles_.quantize(params, choice_.encode, group, piece.first, piece.last,
                        &m, statistics ? &mine[0] : nullptr,
                        statistics ? &mine[1] : nullptr);
      };
      for (const Piece& piece : pieces) {
        const GroupTask& whole = task_.groups[piece.group];
        if (piece.cols == plan_.cols()) {
          quantize(task_.params, whole, piece);
          continue;
        }
        const auto [params, group] =
            SliceOf(task_.params, whole, piece.col, piece.cols);
        quantize(params, group, piece);
      }
      if (statistics) {
        std::lock_guard lock(mutex);
        for (int i = 0; i < 2; ++i) sums[i].Merge(mine[i]);
      }
      Seen(m, &mutex);
    });
    CountRht(recipe_.copies_rotate());
    if (!statistics) return;
    if (recipe_.copies[0].wanted) report_->rowwise = sums[0].Finish();
    if (recipe_.copies[1].wanted) report_->columnwise = sums[1].Finish();
  }

  void Dbias(DType dtype) {
    Over(kWholeRows, [&](const Piece& piece) {
      const GroupTask& group = task_.groups[piece.group];
      const Matrix x = Input(piece.group);
      for (int64_t row = piece.first; row < piece.last; row += kTileRows) {
        tiles_.sum_chunk(x, row, std::min(row + kTileRows, piece.last),
                         group.partial + row / kTileRows * plan_.cols());
      }
    });
    ForEach(task_.groups.size(), [&](int64_t g) {
      const GroupTask& group = task_.groups[g];
      tiles_.sum_chunks(group.partial, CeilDiv(group.rows, kTileRows),
                        plan_.cols(), dtype, group.dbias);
    });
  }

  CpuDevice* const device_;
  const TileKernels& tiles_;
  const Plan& plan_;
  const Recipe recipe_;
  const KernelChoice choice_;
  JobBases bases_;
  JobReport* const report_;
  std::atomic<uint64_t>* const done_;
  QuantizeTask task_;
  std::shared_ptr<const Signs> signs_;
  Maxima seen_;  // nan and inf
};

}  // namespace

absl::Status Compute(CpuDevice* device, const Plan& plan, JobBases bases,
                     JobReport* report, std::atomic<uint64_t>* pieces) {
  Computer computer(device, plan, bases, report, pieces);
  const absl::Status status = computer.Compute();
  report->saw_nan = computer.seen().nan;
  report->saw_inf = computer.seen().inf;
  return status;
}

}  // namespace quantd::cpu
