#include "kernels/cpu/cpu_job.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "kernels/block.h"
#include "kernels/field_error.h"

namespace quantd::cpu {

std::shared_ptr<const Signs> SignCache::Get(const SignMask& mask,
                                            int dimension) {
  constexpr size_t kLimit = 1024;
  std::lock_guard lock(mutex_);
  const Key key = {mask.words, dimension};
  if (const auto it = entries_.find(key); it != entries_.end()) {
    ++hits;
    return it->second;
  }
  ++misses;
  const std::vector<float> matrix = RhtMatrix(mask, dimension);
  auto signs = std::make_shared<Signs>();
  // Column 0 of H is all ones, so column 0 of R is the scaled signs.
  for (int i = 0; i < kRhtSize; ++i) (*signs)[i] = matrix[i * dimension];
  if (entries_.size() >= kLimit) entries_.clear();
  entries_[key] = signs;
  return signs;
}

namespace {

// Fills the parts of the output that no kernel writes: gaps between tensors
// and the padding of scale tensors.
void ZeroPadding(const Plan& plan, std::byte* out) {
  size_t end = 0;
  for (const TensorSpec& spec : plan.outputs()) {
    if (spec.offset > end) std::memset(out + end, 0, spec.offset - end);
    end = spec.offset + spec.size;
    const bool row = spec.kind == TensorKind::kRowwiseScale;
    if ((!row && spec.kind != TensorKind::kColumnwiseScale) || spec.size == 0) {
      continue;
    }
    const int64_t lines = row ? plan.rows() : plan.cols();
    const int64_t used =
        ((row ? plan.cols() : plan.rows()) + kBlock - 1) / kBlock;
    const int64_t stride = spec.shape[1];
    std::byte* scale = out + spec.offset;
    if (used < stride) {
      for (int64_t i = 0; i < lines; ++i) {
        std::memset(scale + i * stride + used, 0, stride - used);
      }
    }
    std::memset(scale + lines * stride, 0, spec.size - lines * stride);
  }
}

class CpuJob : public Job {
 public:
  CpuJob(CpuDevice* device, std::shared_ptr<const Plan> plan, Block in,
         Block out)
      : device_(device),
        plan_(std::move(plan)),
        in_(std::move(in)),
        out_(std::move(out)) {}
  ~CpuJob() override { --device_->live; }

  absl::Span<std::byte> staging() override { return in_.bytes(); }
  void Fed(size_t) override {}

  absl::StatusOr<JobReport> Run() override {
    const auto start = std::chrono::steady_clock::now();
    ++device_->jobs;
    JobReport report;
    if (device_->tiles == nullptr) {
      Copy();
    } else {
      ZeroPadding(*plan_, out_.data());
      Maxima seen;
      const absl::Status status = std::visit(
          [&](const auto& options) { return Compute(options, &seen); },
          plan_->options());
      if (!status.ok()) return status;
      report.saw_nan = seen.nan;
      report.saw_inf = seen.inf;
    }
    in_ = Block();
    report.compute_ns = (std::chrono::steady_clock::now() - start) /
                        std::chrono::nanoseconds(1);
    return report;
  }

  Block TakeOutput() override { return std::move(out_); }

 private:
  void Copy() {
    size_t done = 0;
    while (done < out_.size()) {
      const size_t n = std::min(in_.size(), out_.size() - done);
      if (n == 0) {
        std::memset(out_.data() + done, 0, out_.size() - done);
        return;
      }
      std::memcpy(out_.data() + done, in_.data(), n);
      done += n;
    }
  }

  std::byte* Out(TensorKind kind) {
    const TensorSpec* spec = plan_->output(kind);
    return spec ? out_.data() + spec->offset : nullptr;
  }
  void Put(TensorKind kind, float value) {
    if (std::byte* p = Out(kind)) std::memcpy(p, &value, sizeof(value));
  }
  Matrix Input() const {
    return {in_.data(), plan_->tensor().dtype, plan_->rows(), plan_->cols()};
  }

  // Calls fn(first row, last row) over all rows, on all threads.
  void OverRows(const std::function<void(int64_t, int64_t)>& fn) {
    const int64_t rows = plan_->rows();
    if (rows == 0 || plan_->cols() == 0) return;
    // Pieces of about 512 KiB of fp32: large enough to be worth a wake-up.
    const int64_t tiles =
        std::max<int64_t>(1, (int64_t{1} << 17) / (kTileRows * plan_->cols()));
    const int64_t piece = tiles * kTileRows;
    device_->threads.ParallelFor((rows + piece - 1) / piece, [&](int64_t i) {
      fn(i * piece, std::min(rows, (i + 1) * piece));
    });
  }

  // Signs for a rotation, or none.
  const float* CachedSigns(bool wanted, const SignMask& mask, int dimension) {
    if (!wanted) return nullptr;
    if (!signs_) signs_ = device_->signs.Get(mask, dimension);
    ++device_->rht_launches;
    return signs_->data();
  }

  Maxima Reduce(const AmaxArgs& args) {
    std::mutex mutex;
    Maxima all;
    OverRows([&](int64_t first, int64_t last) {
      Maxima m;
      device_->tiles->amax(args, first, last, &m);
      std::lock_guard lock(mutex);
      Merge(m, &all);
    });
    return all;
  }

  static void Merge(const Maxima& m, Maxima* all) {
    all->plain = std::max(all->plain, m.plain);
    all->row_rht = std::max(all->row_rht, m.row_rht);
    all->col_rht = std::max(all->col_rht, m.col_rht);
    all->nan |= m.nan;
    all->inf |= m.inf;
    all->row_rht_nan |= m.row_rht_nan;
    all->col_rht_nan |= m.col_rht_nan;
  }

  static float Amax(uint32_t bits, bool nan, NonFinite policy) {
    return Scalar::Float(nan && policy == NonFinite::kPropagate ? kNanBits
                                                                : bits);
  }

  static float First(const std::vector<float>& v) {
    return v.empty() ? 0.0f : v[0];
  }

  static absl::Status Judge(const Maxima& seen, NonFinite policy) {
    if (policy != NonFinite::kReject || (!seen.nan && !seen.inf)) {
      return absl::OkStatus();
    }
    return FieldError("payload", "finite values (non_finite is reject)",
                      seen.nan ? "NaN" : "Inf");
  }

  Nvfp4Copy Destination(TensorKind data, TensorKind scale, float amax,
                        const float* signs) {
    Nvfp4Copy copy;
    const TensorSpec* spec = plan_->output(data);
    if (spec == nullptr) return copy;
    const Nvfp4Encode global = MakeNvfp4Encode(amax);
    copy.data = out_.data() + spec->offset;
    copy.data_stride = spec->shape[1];
    copy.scale = Out(scale);
    copy.scale_stride = plan_->output(scale)->shape[1];
    copy.s_dec = global.s_dec;
    copy.s_inv6 = global.s_inv6;
    copy.signs = signs;
    return copy;
  }

  absl::Status Compute(const QuantizeOptions& o, Maxima* seen) {
    const bool row = HasRowwise(o.usage);
    const bool col = HasColumnwise(o.usage);
    const bool find_row = row && o.rowwise_amax.empty();
    const bool find_col = col && o.columnwise_amax.empty();
    float row_amax = First(o.rowwise_amax);
    float col_amax = First(o.columnwise_amax);
    if (find_row || find_col) {
      AmaxArgs args = {};
      args.x = Input();
      args.row_signs = CachedSigns(find_row && o.rht.rowwise, *o.rht.sign_mask,
                                   o.rht.dimension);
      args.col_signs = CachedSigns(find_col && o.rht.columnwise,
                                   *o.rht.sign_mask, o.rht.dimension);
      const Maxima m = Reduce(args);
      if (absl::Status s = Judge(m, o.non_finite); !s.ok()) return s;
      if (find_row) {
        row_amax = o.rht.rowwise ? Amax(m.row_rht, m.row_rht_nan, o.non_finite)
                                 : Amax(m.plain, m.nan, o.non_finite);
      }
      if (find_col) {
        col_amax = o.rht.columnwise
                       ? Amax(m.col_rht, m.col_rht_nan, o.non_finite)
                       : Amax(m.plain, m.nan, o.non_finite);
      }
    }
    Put(TensorKind::kRowwiseAmax, row_amax);
    Put(TensorKind::kColumnwiseAmax, col_amax);
    QuantizeArgs args = {};
    args.x = Input();
    args.propagate = o.non_finite == NonFinite::kPropagate;
    args.row = Destination(
        TensorKind::kRowwiseData, TensorKind::kRowwiseScale, row_amax,
        CachedSigns(o.rht.rowwise, *o.rht.sign_mask, o.rht.dimension));
    args.col = Destination(
        TensorKind::kColumnwiseData, TensorKind::kColumnwiseScale, col_amax,
        CachedSigns(o.rht.columnwise, *o.rht.sign_mask, o.rht.dimension));
    std::mutex mutex;
    OverRows([&](int64_t first, int64_t last) {
      Maxima m;
      device_->tiles->quantize(args, first, last, &m);
      if (!m.nan && !m.inf) return;
      std::lock_guard lock(mutex);
      Merge(m, seen);
    });
    return Judge(*seen, o.non_finite);
  }

  absl::Status Compute(const DequantizeOptions& o, Maxima*) {
    const bool col = HasColumnwise(o.usage);
    const auto input = [&](TensorKind rowwise, TensorKind columnwise) {
      return plan_->input(col ? columnwise : rowwise);
    };
    const TensorSpec& data =
        *input(TensorKind::kRowwiseData, TensorKind::kColumnwiseData);
    const TensorSpec& scale =
        *input(TensorKind::kRowwiseScale, TensorKind::kColumnwiseScale);
    const TensorSpec& amax =
        *input(TensorKind::kRowwiseAmax, TensorKind::kColumnwiseAmax);
    float a;
    std::memcpy(&a, in_.data() + amax.offset, sizeof(a));
    const Nvfp4Decode global = MakeNvfp4Decode(a);
    DequantizeArgs args = {};
    args.data = in_.data() + data.offset;
    args.scale = in_.data() + scale.offset;
    args.data_stride = data.shape[1];
    args.scale_stride = scale.shape[1];
    args.amax = global.amax;
    args.k = global.k;
    args.signs = CachedSigns(o.inverse_rht, *o.sign_mask, o.rht_dimension);
    args.out = Out(TensorKind::kDequantized);
    args.dtype = o.output;
    args.rows = plan_->rows();
    args.cols = plan_->cols();
    const auto run =
        col ? device_->tiles->dequantize_col : device_->tiles->dequantize_row;
    OverRows([&](int64_t first, int64_t last) { run(args, first, last); });
    return absl::OkStatus();
  }

  absl::Status Compute(const RhtAmaxOptions& o, Maxima* seen) {
    AmaxArgs args = {};
    args.x = Input();
    args.row_signs = CachedSigns(o.rowwise_rht, *o.sign_mask, o.rht_dimension);
    args.col_signs =
        CachedSigns(o.columnwise_rht, *o.sign_mask, o.rht_dimension);
    *seen = Reduce(args);
    if (absl::Status s = Judge(*seen, o.non_finite); !s.ok()) return s;
    const float plain = Amax(seen->plain, seen->nan, o.non_finite);
    Put(TensorKind::kRowwiseAmax, plain);
    Put(TensorKind::kColumnwiseAmax, plain);
    Put(TensorKind::kRowwiseRhtAmax,
        Amax(seen->row_rht, seen->row_rht_nan, o.non_finite));
    Put(TensorKind::kColumnwiseRhtAmax,
        Amax(seen->col_rht, seen->col_rht_nan, o.non_finite));
    return absl::OkStatus();
  }

  absl::Status Compute(const ApplyRhtOptions& o, Maxima* seen) {
    RotateArgs args = {};
    args.x = Input();
    args.out = Out(TensorKind::kRotated);
    args.dtype = o.output;
    args.signs = CachedSigns(true, *o.sign_mask, o.rht_dimension);
    args.inverse = o.inverse;
    std::mutex mutex;
    OverRows([&](int64_t first, int64_t last) {
      Maxima m;
      device_->tiles->rotate(args, first, last, &m);
      std::lock_guard lock(mutex);
      Merge(m, seen);
    });
    return absl::OkStatus();
  }

  CpuDevice* const device_;
  const std::shared_ptr<const Plan> plan_;
  Block in_;
  Block out_;
  std::shared_ptr<const Signs> signs_;
};

}  // namespace

std::unique_ptr<Job> MakeCpuJob(CpuDevice* device,
                                std::shared_ptr<const Plan> plan, Block in,
                                Block out) {
  return std::make_unique<CpuJob>(device, std::move(plan), std::move(in),
                                  std::move(out));
}

}  // namespace quantd::cpu
