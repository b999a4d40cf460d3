#include "kernels/cpu/compute.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>
#include <variant>
#include <vector>

#include "kernels/arith/encode.h"
#include "kernels/cpu/nvfp4_args.h"
#include "kernels/cpu/pieces.h"
#include "kernels/cpu/slice.h"
#include "kernels/plan/amax_source.h"
#include "kernels/plan/delayed_scaling.h"
#include "kernels/plan/field_error.h"

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

float AmaxOf(uint32_t bits, bool nan, bool propagate) {
  return Scalar::Float(nan && propagate ? kNanBits : bits);
}

absl::Status Judge(const Maxima& seen, NonFinite policy) {
  if (policy != NonFinite::kReject || (!seen.nan && !seen.inf)) {
    return absl::OkStatus();
  }
  return FieldError("payload", "finite values (non_finite is reject)",
                    seen.nan ? "NaN" : "Inf");
}

class Computer {
 public:
  Computer(CpuDevice* device, const Plan& plan, const JobBases& bases,
           JobReport* report)
      : device_(device),
        tiles_(*device->tiles),
        plan_(plan),
        bases_(bases),
        report_(report) {}

  absl::Status Compute(const QuantizeOptions& o) {
    Rotation(o.rht.rowwise || o.rht.columnwise, o.rht.sign_mask,
             o.rht.dimension);
    task_ = MakeQuantizeTask(plan_, bases_);
    if (absl::Status s = SettleAmaxes(o); !s.ok()) return s;
    const bool plain = IsPlainNvfp4(plan_);
    if (o.usage != Usage::kNone) {
      std::mutex mutex;
      ErrorSums sums[2] = {};
      Over(kCutRows, [&](const Piece& piece) {
        Maxima m;
        const GroupTask& whole = task_.groups[piece.group];
        const auto [params, group] =
            piece.cols == plan_.cols()
                ? Slice{task_.params, whole}
                : SliceOf(task_.params, whole, piece.col, piece.cols);
        if (plain) {
          tiles_.quantize(Nvfp4Args(params, group), piece.first, piece.last,
                          &m);
        } else {
          std::vector<ErrorSums> mine(o.statistics ? 2 : 0);
          tiles_.quantize_lines(params, group, piece.first, piece.last, &m,
                                o.statistics ? &mine[0] : nullptr,
                                o.statistics ? &mine[1] : nullptr);
          if (o.statistics) {
            std::lock_guard lock(mutex);
            for (int i = 0; i < 2; ++i) sums[i].Merge(mine[i]);
          }
        }
        Seen(m, &mutex);
      });
      CountRht(o.rht.rowwise || o.rht.columnwise);
      if (absl::Status s = Judge(seen_, o.non_finite); !s.ok()) return s;
      if (o.statistics && HasRowwise(o.usage)) {
        report_->rowwise = sums[0].Finish();
      }
      if (o.statistics && HasColumnwise(o.usage)) {
        report_->columnwise = sums[1].Finish();
      }
    }
    if (o.dbias) Dbias(o.dbias_dtype);
    if (o.history) History(o);
    return absl::OkStatus();
  }

  absl::Status Compute(const DequantizeOptions& o) {
    Rotation(o.inverse_rht, o.sign_mask, o.rht_dimension);
    const DequantizeTask task = MakeDequantizeTask(plan_, bases_);
    CountRht(o.inverse_rht);
    const bool plain = IsPlainNvfp4(plan_);
    Over(kWholeRows, [&](const Piece& piece) {
      const GroupTask& group = task.groups[piece.group];
      if (!plain) {
        tiles_.dequantize_lines(task.params, group, piece.first, piece.last);
        return;
      }
      const DequantizeArgs args = Nvfp4Args(task.params, group);
      (task.params.columnwise ? tiles_.dequantize_col : tiles_.dequantize_row)(
          args, piece.first, piece.last);
    });
    return absl::OkStatus();
  }

  absl::Status Compute(const RhtAmaxOptions& o) {
    Rotation(o.rowwise_rht || o.columnwise_rht, o.sign_mask, o.rht_dimension);
    const bool propagate = o.non_finite == NonFinite::kPropagate;
    const bool lines = o.domain == AmaxDomain::kRow;
    for (const TensorSpec& spec : plan_.outputs()) Zero(spec.kind);
    const std::vector<Maxima> found = FindAmaxes(
        o.rowwise_rht, o.columnwise_rht, o.rht_dimension, propagate,
        [&](size_t g, AmaxLinesArgs* args) {
          if (!lines) return;
          args->row_lines = Lines(TensorKind::kRowwiseAmax, false, g);
          args->row_rht_lines = Lines(TensorKind::kRowwiseRhtAmax, false, g);
          args->col_lines = Lines(TensorKind::kColumnwiseAmax, true, g);
          args->col_rht_lines = Lines(TensorKind::kColumnwiseRhtAmax, true, g);
        });
    if (absl::Status s = Judge(seen_, o.non_finite); !s.ok()) return s;
    constexpr TensorKind kKinds[] = {
        TensorKind::kRowwiseAmax, TensorKind::kColumnwiseAmax,
        TensorKind::kRowwiseRhtAmax, TensorKind::kColumnwiseRhtAmax};
    for (TensorKind kind : kKinds) {
      const TensorSpec* spec = plan_.output(kind);
      if (spec == nullptr) continue;
      if (lines) {
        Canonicalise(*spec);
        continue;
      }
      for (size_t g = 0; g < found.size(); ++g) {
        const Maxima& m = found[g];
        const float amax = kind == TensorKind::kRowwiseRhtAmax
                               ? AmaxOf(m.row_rht, m.row_rht_nan, propagate)
                           : kind == TensorKind::kColumnwiseRhtAmax
                               ? AmaxOf(m.col_rht, m.col_rht_nan, propagate)
                               : AmaxOf(m.plain, m.nan, propagate);
        Floats(*spec)[g] = amax;
      }
    }
    return absl::OkStatus();
  }

  absl::Status Compute(const ApplyRhtOptions& o) {
    Rotation(true, o.sign_mask, o.rht_dimension);
    CountRht(true);
    RotateArgs args = {};
    args.x = Input(0);
    args.out = bases_.out + plan_.output(TensorKind::kRotated)->offset;
    args.dtype = o.output;
    args.signs = bases_.signs;
    args.inverse = o.inverse;
    args.dimension = o.rht_dimension;
    std::mutex mutex;
    Over(kWholeRows, [&](const Piece& piece) {
      Maxima m;
      (o.rht_dimension == 16 ? tiles_.rotate : tiles_.rotate_lines)(
          args, piece.first, piece.last, &m);
      Seen(m, &mutex);
    });
    return absl::OkStatus();
  }

  const Maxima& seen() const { return seen_; }

 private:
  // A plan that rotates has a mask.
  void Rotation(bool wanted, const std::optional<SignMask>& mask,
                int dimension) {
    if (!wanted) return;
    signs_ = device_->signs.Get(*mask, dimension);
    bases_.signs = signs_->data();
  }
  void CountRht(bool rotates) {
    if (rotates) ++device_->rht_launches;
  }

  Matrix Input(size_t group) const {
    const Group& g = plan_.groups()[group];
    const DType dtype = plan_.tensor().dtype;
    return {
        bases_.in + static_cast<size_t>(g.row * plan_.cols()) * SizeOf(dtype),
        dtype, g.rows, plan_.cols()};
  }
  float* Floats(const TensorSpec& spec) const {
    return reinterpret_cast<float*>(bases_.out + spec.offset);
  }

  void Seen(const Maxima& m, std::mutex* mutex) {
    if (!m.nan && !m.inf) return;
    std::lock_guard lock(*mutex);
    seen_.nan |= m.nan;
    seen_.inf |= m.inf;
  }

  // Calls fn(piece) over all rows of all groups, on all threads.
  template <typename Fn>
  void Over(Cut cut, Fn fn) {
    const std::vector<Piece> pieces =
        CutPieces(plan_, device_->threads.threads(), cut);
    device_->threads.ParallelFor(static_cast<int64_t>(pieces.size()),
                                 [&](int64_t i) { fn(pieces[i]); });
  }

  // Maxima of every group; `set_lines` says which lines are wanted, too.
  template <typename SetLines>
  std::vector<Maxima> FindAmaxes(bool row_rht, bool col_rht, int dimension,
                                 bool propagate, SetLines set_lines) {
    CountRht(row_rht || col_rht);
    std::vector<Maxima> found(plan_.groups().size());
    std::mutex mutex;
    Over(kCutRows, [&](const Piece& piece) {
      Maxima m;
      AmaxLinesArgs args = {};
      args.x = Input(piece.group);
      args.x.data += static_cast<size_t>(piece.col) * SizeOf(args.x.dtype);
      args.x.cols = piece.cols;
      args.rotation = dimension;
      args.row_signs = row_rht ? bases_.signs : nullptr;
      args.col_signs = col_rht ? bases_.signs : nullptr;
      args.propagate = propagate;
      set_lines(piece.group, &args);
      if (args.col_lines) args.col_lines += piece.col;
      if (args.col_rht_lines) args.col_rht_lines += piece.col;
      const bool rotates = args.row_signs || args.col_signs;
      if ((dimension == 16 || !rotates) && !args.row_lines &&
          !args.row_rht_lines && !args.col_lines && !args.col_rht_lines) {
        tiles_.amax({args.x, args.row_signs, args.col_signs}, piece.first,
                    piece.last, &m);
      } else {
        tiles_.amax_lines(args, piece.first, piece.last, &m);
      }
      std::lock_guard lock(mutex);
      Merge(m, &found[piece.group]);
    });
    for (const Maxima& m : found) {
      seen_.nan |= m.nan;
      seen_.inf |= m.inf;
    }
    return found;
  }

  void Zero(TensorKind kind) {
    const TensorSpec* spec = plan_.output(kind);
    if (spec && spec->size > 0) {
      std::memset(bases_.out + spec->offset, 0, spec->size);
    }
  }
  // Where a group's line maxima go; nullptr when nobody wants them. To be
  // zeroed before the first of them.
  uint32_t* Lines(TensorKind kind, bool columnwise, size_t group) {
    const TensorSpec* spec = plan_.output(kind);
    if (spec == nullptr) return nullptr;
    const int64_t at = columnwise ? static_cast<int64_t>(group) * plan_.cols()
                                  : plan_.groups()[group].row;
    return reinterpret_cast<uint32_t*>(bases_.out + spec->offset) + at;
  }
  void Canonicalise(const TensorSpec& spec) {
    float* v = Floats(spec);
    for (size_t i = 0; i < spec.size / sizeof(float); ++i) {
      if (std::isnan(v[i])) v[i] = Scalar::Float(kNanBits);
    }
  }

  // Amaxes, and the scales that follow from them alone.
  absl::Status SettleAmaxes(const QuantizeOptions& o) {
    using Kind = AmaxSource::Kind;
    const FormatSpec& format = *FindFormat(o.format);
    const bool propagate = o.non_finite == NonFinite::kPropagate;
    const AmaxSource row = SourceOfAmax(o, false);
    const AmaxSource col = SourceOfAmax(o, true);
    std::vector<Maxima> found(plan_.groups().size());
    if (row.kind == Kind::kLines) Zero(TensorKind::kRowwiseAmax);
    if (col.kind == Kind::kLines) Zero(TensorKind::kColumnwiseAmax);
    if (row.computed() || col.computed() || o.amax || o.usage == Usage::kNone) {
      found = FindAmaxes(
          row.kind == Kind::kRotated, col.kind == Kind::kRotated,
          o.rht.dimension, propagate, [&](size_t g, AmaxLinesArgs* args) {
            if (row.kind == Kind::kLines) {
              args->row_lines = Lines(TensorKind::kRowwiseAmax, false, g);
            }
            if (col.kind == Kind::kLines) {
              args->col_lines = Lines(TensorKind::kColumnwiseAmax, true, g);
            }
          });
      if (absl::Status s = Judge(seen_, o.non_finite); !s.ok()) return s;
    }
    Settle(row, TensorKind::kRowwiseAmax, &Maxima::row_rht,
           &Maxima::row_rht_nan, propagate, found);
    Settle(col, TensorKind::kColumnwiseAmax, &Maxima::col_rht,
           &Maxima::col_rht_nan, propagate, found);
    for (size_t g = 0; g < task_.groups.size(); ++g) {
      GroupTask& group = task_.groups[g];
      plain_.push_back(AmaxOf(found[g].plain, found[g].nan, propagate));
      if (group.amax) *group.amax = plain_[g];
      for (CopyTask* copy : {&group.rowwise, &group.columnwise}) {
        if (!copy->data || format.scaling != Scaling::kTensor) continue;
        *copy->tensor_scale = o.scale.empty()
                                  ? Fp8Scale<Scalar>(task_.params, *copy->amax)
                                  : o.scale[g];
        const float inverse = 1.0f / *copy->tensor_scale;
        std::memcpy(copy->scale, &inverse, sizeof(inverse));
      }
    }
    return absl::OkStatus();
  }

  void Settle(const AmaxSource& source, TensorKind kind, uint32_t Maxima::*rht,
              bool Maxima::*rht_nan, bool propagate,
              const std::vector<Maxima>& found) {
    using Kind = AmaxSource::Kind;
    if (source.kind == Kind::kNone) return;
    const TensorSpec& spec = *plan_.output(kind);
    float* const amax = Floats(spec);
    if (source.kind == Kind::kLines) return Canonicalise(spec);
    if (source.kind == Kind::kGiven) {
      const std::vector<float> values = source.values();
      std::copy(values.begin(), values.end(), amax);
      return;
    }
    for (size_t g = 0; g < found.size(); ++g) {
      const Maxima& m = found[g];
      amax[g] = source.kind == Kind::kRotated
                    ? AmaxOf(m.*rht, m.*rht_nan, propagate)
                    : AmaxOf(m.plain, m.nan, propagate) * source.factor;
    }
    Canonicalise(spec);
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
    device_->threads.ParallelFor(
        static_cast<int64_t>(task_.groups.size()), [&](int64_t g) {
          const GroupTask& group = task_.groups[g];
          tiles_.sum_chunks(group.partial, CeilDiv(group.rows, kTileRows),
                            plan_.cols(), dtype, group.dbias);
        });
  }

  void History(const QuantizeOptions& o) {
    std::vector<float> amaxes;
    for (size_t g = 0; g < task_.groups.size(); ++g) {
      const GroupTask& group = task_.groups[g];
      const CopyTask& copy =
          group.rowwise.data ? group.rowwise : group.columnwise;
      amaxes.push_back(copy.amax ? *copy.amax : plain_[g]);
    }
    const GroupUpdates updates = UpdateScales(
        o.history->amax, amaxes, o.history->rule, o.history->margin,
        LimitsOf(FindFormat(o.format)->element).max, o.scale);
    std::copy(updates.history.begin(), updates.history.end(),
              Floats(*plan_.output(TensorKind::kAmaxHistory)));
    std::copy(updates.scales.begin(), updates.scales.end(),
              Floats(*plan_.output(TensorKind::kNextScale)));
  }

  CpuDevice* const device_;
  const TileKernels& tiles_;
  const Plan& plan_;
  JobBases bases_;
  JobReport* const report_;
  QuantizeTask task_;
  std::shared_ptr<const Signs> signs_;
  Maxima seen_;               // nan and inf
  std::vector<float> plain_;  // the groups' amaxes, where they were looked for
};

}  // namespace

absl::Status Compute(CpuDevice* device, const Plan& plan, JobBases bases,
                     JobReport* report) {
  Computer computer(device, plan, bases, report);
  const absl::Status status =
      std::visit([&](const auto& options) { return computer.Compute(options); },
                 plan.options());
  report->saw_nan = computer.seen().nan;
  report->saw_inf = computer.seen().inf;
  return status;
}

}  // namespace quantd::cpu
