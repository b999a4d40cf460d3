#include "client/checkpoint/check/reading.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "client/checkpoint/convert/weight_reader.h"
#include "client/checkpoint/stacked.h"
#include "client/checkpoint/stored.h"
#include "client/checkpoint/weight_values.h"
#include "client/checkpoint/weights.h"
#include "fmt/format.h"

namespace quantd::checkpoint {
namespace {

// The most noise of a right weight, relative to its signal. The coarsest format
// has a thirtieth (15 dB).
constexpr double kMostNoise = 0.1;
// Length of the pieces of a row that are judged separately, so that noise in
// one piece is noticed even if the rest of the row is right.
constexpr size_t kPiece = 128;
constexpr double kMostPieceNoise = 0.5;
// Pieces with less noise than this share of the mean signal are ignored: coarse
// scales round them to zero.
constexpr double kFaint = 0.01;
// The most that the gain of a right weight differs from 1. Clipping to four
// bits reduces it by less.
constexpr double kMostGain = 0.06;

class Differences {
 public:
  explicit Differences(int64_t cols) : cols_(static_cast<size_t>(cols)) {}

  // Adds rows, beginning with row `first`.
  void Add(int64_t first, const std::vector<float>& truth,
           const std::vector<float>& numbers) {
    for (size_t row = 0; row < truth.size(); row += cols_) {
      for (size_t j = 0; j < cols_; j += kPiece) {
        const size_t end = std::min(cols_, j + kPiece);
        Piece p = {first};
        for (size_t k = row + j; k < row + end; ++k) {
          const double x = truth[k];
          const double y = numbers[k];
          p.signal += x * x;
          p.noise += (x - y) * (x - y);
          sum_.product += x * y;
          sum_.power += y * y;
        }
        sum_.signal += p.signal;
        sum_.noise += p.noise;
        ++sum_.pieces;
        if (!(p.noise <= kMostPieceNoise * p.signal)) odd_.push_back(p);
      }
      ++first;
      ++rows_;
    }
  }

  Difference Take() {
    sum_.rows = rows_;
    const double mean =
        sum_.pieces == 0 ? 0 : sum_.signal / static_cast<double>(sum_.pieces);
    int64_t last = -1;
    for (const Piece& p : odd_) {
      // Ignores pieces that are faint in both models.
      if (p.noise <= kFaint * mean) continue;
      ++sum_.wrong;
      sum_.wrong_rows += p.row != last;
      if (last < 0) sum_.first_wrong_row = p.row;
      last = p.row;
    }
    return sum_;
  }

 private:
  struct Piece {
    int64_t row = 0;
    double signal = 0;
    double noise = 0;
  };
  size_t cols_;
  int64_t rows_ = 0;
  Difference sum_;
  std::vector<Piece> odd_;
};

// Whether `a` differs more from the original than `b`.
bool IsWorse(const Difference& a, const Difference& b) {
  const bool wrong = !a.rounding->wrong.empty();
  if (a.is_the_original() && b.is_the_original() &&
      wrong != !b.rounding->wrong.empty()) {
    return wrong;
  }
  if (a.is_the_original() != b.is_the_original()) return !a.is_the_original();
  return !(a.ratio() <= b.ratio());
}

}  // namespace

double Difference::ratio() const {
  if (signal == 0) return noise == 0 ? 0 : 1;
  return std::sqrt(noise / signal);
}

bool Difference::is_multiple() const {
  return signal > 0 && power > 0 &&
         product * product >= (1 - kMostNoise / 2) * signal * power;
}

bool Difference::is_the_original() const {
  // A gain that is off is accepted if all numbers are rounded correctly,
  // because a single large number may dominate the gain.
  return noise <= kMostNoise * signal && wrong == 0 &&
         (std::abs(gain() - 1) <= kMostGain ||
          (rounding && rounding->in_cells));
}

absl::StatusOr<Difference> DifferenceBy(const Model& model,
                                        const StoredWeight& w, int64_t expert,
                                        const Originals& originals,
                                        const OriginalWeight& original,
                                        const RowSample& sample,
                                        const Reading& reading) {
  WeightValues values(model, w, expert);
  if (reading.halves_swapped) values.SwapHalves();
  if (reading.order_swapped) values.SwapOrder();
  // Rows that are read at once if the tensor is transposed, which costs little
  // more than reading one.
  constexpr int64_t kAcross = 32;
  const auto runs =
      sample.Of(w.rows, w.cols, original.plain.transposed ? kAcross : 1);
  OriginalValues truth(originals.model(), original);
  Rounding rounding(values);
  Differences out(std::max<int64_t>(1, w.cols));
  std::vector<float> x;
  std::vector<float> y;
  for (const RowSample::Run& run : runs) {
    if (auto s = truth.Read(run.begin, run.count, &x); !s.ok()) return s;
    if (auto s = values.Read(run.begin, run.count, &y); !s.ok()) return s;
    out.Add(run.begin, x, y);
    rounding.Add(run.begin, run.count, x);
  }
  Difference d = out.Take();
  // The rounding is not judged after repair fitted the scales.
  d.rounding = IsFitted(model, w) ? Rounding::Verdict{false, false, ""}
                                  : rounding.Judge();
  return d;
}

absl::StatusOr<Readings> FindReading(const Model& model, const StoredWeight& w,
                                     const Originals& originals,
                                     const RowSample& sample) {
  Readings out;
  const bool four = IsFourBits(*w.layout);
  const BlockShape block = BlockOf(*w.layout);
  // Swapping the order is possible only if both orders have the same size.
  const bool orders = w.experts == 1 && block.rows == 1 && block.cols > 0 &&
                      w.rows % 128 == 0 && w.cols / block.cols % 4 == 0;
  for (const bool order : {false, true}) {
    for (const bool halves : {false, true}) {
      if ((order && !orders) || (halves && !four)) continue;
      Reading reading = {halves, order, {}};
      std::string worst;
      size_t compared = 0;
      for (int64_t e = 0; e < w.experts; ++e) {
        const OriginalWeight* original = originals.Find(w, e);
        if (original == nullptr) continue;
        const auto d =
            DifferenceBy(model, w, e, originals, *original, sample, reading);
        if (!d.ok()) return d.status();
        if (!order && !halves &&
            (!d->is_the_original() || !d->rounding->wrong.empty())) {
          ++out.wrongs;
        }
        if (compared++ == 0 || IsWorse(*d, reading.difference)) {
          reading.difference = *d;
          worst = w.name_of(e);
        }
        // A single expert that does not match rules out the reading.
        if ((order || halves) && !d->is_the_original()) break;
      }
      if (compared == 0) return out;
      if (!order && !halves) {
        out.own = reading.difference;
        out.compared = compared;
        out.wrong = worst;
      }
      if (!reading.difference.is_the_original()) continue;
      out.right = reading;
      return out;
    }
  }
  return out;
}

absl::StatusOr<Difference> Compare(const Model& model,
                                   const ModelTensor& tensor,
                                   const Model& original,
                                   const ModelTensor& truth,
                                   const RowSample& sample) {
  WeightValues values(model, tensor);
  WeightValues originals(original, truth);
  Differences out(std::max<int64_t>(1, values.cols()));
  uint64_t altered = 0;
  std::vector<float> x;
  std::vector<float> y;
  for (const RowSample::Run& run : sample.Of(values.rows(), values.cols())) {
    if (auto s = originals.Read(run.begin, run.count, &x); !s.ok()) return s;
    if (auto s = values.Read(run.begin, run.count, &y); !s.ok()) return s;
    out.Add(run.begin, x, y);
    altered += Altered(x, truth.stored.dtype, y, tensor.stored.dtype);
  }
  Difference d = out.Take();
  d.altered = altered;
  return d;
}

absl::StatusOr<Originals> Originals::Of(const Model& model) {
  Originals out;
  out.model_ = &model;
  auto stored = FindStored(model);
  if (!stored.ok()) return stored.status();
  // A shared_ptr, because weights point into it even after `out` is moved.
  out.stored_ = std::make_shared<const StoredModel>(*std::move(stored));
  for (const StoredWeight& w : out.stored_->weights) {
    for (int64_t e = 0; e < w.experts; ++e) {
      out.weights_[w.name_of(e)] = {
          &w, e, w.layout->stacked ? Weight{} : WeightOf(w), w.rows, w.cols};
    }
  }
  for (const ModelTensor& t : model.tensors()) {
    Stack stack = {&t, {}, {}};
    // Adds experts of a stack under both names: whole, and with gate and up
    // split.
    for (const bool whole : {false, true}) {
      if (whole && !IsStacked(t)) break;
      auto weights = WeightsOf(model, t, whole);
      if (!weights.ok()) continue;
      int64_t expert = 0;
      for (Weight& w : *weights) {
        const std::string name =
            whole ? fmt::format("{}.{}", w.module, expert++) : w.module;
        (whole ? stack.whole : stack.split).push_back(name);
        const int64_t rows = w.rows;
        const int64_t cols = w.cols;
        out.weights_[name] = {nullptr, 0, std::move(w), rows, cols};
      }
    }
    if (IsStacked(t)) out.stacks_.push_back(std::move(stack));
  }
  return out;
}

const OriginalWeight* Originals::Find(const std::string& name) const {
  const auto found = weights_.find(name);
  return found == weights_.end() ? nullptr : &found->second;
}

const OriginalWeight* Originals::Find(const StoredWeight& w,
                                      int64_t expert) const {
  const OriginalWeight* found = Find(w.name_of(expert));
  const bool same =
      found != nullptr && found->rows == w.rows && found->cols == w.cols;
  return same ? found : nullptr;
}

OriginalValues::OriginalValues(const Model& model, const OriginalWeight& weight)
    : model_(model), weight_(&weight), rows_(weight.rows), cols_(weight.cols) {
  if (weight.stored != nullptr) {
    values_ =
        std::make_unique<WeightValues>(model, *weight.stored, weight.expert);
    // Decodes blocks of zeros as a conversion does.
    values_->MendZeros();
  }
}

OriginalValues::OriginalValues(const Model& model, const ModelTensor& tensor)
    : model_(model), values_(std::make_unique<WeightValues>(model, tensor)) {
  rows_ = values_->rows();
  cols_ = values_->cols();
}

absl::Status OriginalValues::Read(int64_t row, int64_t count,
                                  std::vector<float>* out) {
  if (values_) return values_->Read(row, count, out);
  const Weight& w = weight_->plain;
  const std::string& dtype = w.source->stored.dtype;
  const auto size = static_cast<size_t>(count * w.cols);
  std::vector<std::byte> bytes(
      size * static_cast<size_t>(safetensors::BitsOf(dtype) / 8));
  if (auto s = ReadRows(model_, w, row, count, absl::MakeSpan(bytes));
      !s.ok()) {
    return s;
  }
  out->resize(size);
  Decode(dtype, bytes, absl::MakeSpan(*out));
  return absl::OkStatus();
}

}  // namespace quantd::checkpoint
