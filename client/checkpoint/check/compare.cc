#include "client/checkpoint/check/compare.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "client/checkpoint/anatomy/storage.h"
#include "client/checkpoint/architecture.h"
#include "client/checkpoint/check/reading.h"
#include "client/checkpoint/stored.h"
#include "client/checkpoint/weight_values.h"
#include "client/files/quantized_file.h"
#include "fmt/format.h"

namespace quantd::checkpoint {
namespace {

// A row whose error for each number is below this share of the tensor's largest
// number is not judged. The smallest step of FP8, and of the block scales of
// NVFP4, is 4e-6 of the largest number that shares the scale.
constexpr double kFaint = 2e-5;

// Codes are judged in rows with about this many numbers, which takes a second.
constexpr double kMostJudged = 1 << 24;

// A tensor to compare by its values, under the name that both models use.
struct Entry {
  std::string kind;
  const ModelTensor* tensor = nullptr;  // an unquantized tensor
  // Set instead if the weight is quantized or is one expert of a stack.
  const OriginalWeight* weight = nullptr;

  const StoredWeight* stored() const {
    return weight != nullptr ? weight->stored : nullptr;
  }
};

using Entries = std::map<std::string, Entry>;

struct Side {
  const Model& model;
  Originals weights;
  RowSample sample;
  Entries entries;
  // Tensors to compare byte by byte: integers and tensors of unknown formats.
  std::map<std::string, const ModelTensor*> others;
};

absl::StatusOr<Side> SideOf(const Model& model) {
  auto weights = Originals::Of(model);
  if (!weights.ok()) return weights.status();
  Side side = {
      model, *std::move(weights), RowSample(model, kMostJudged), {}, {}};
  const auto parts = side.weights.stored().tensors();
  for (const StoredWeight& w : side.weights.stored().weights) {
    for (int64_t e = 0; e < w.experts; ++e) {
      const std::string name = w.name_of(e);
      side.entries[name] = {w.kind(), nullptr, side.weights.Find(name)};
    }
  }
  for (const ModelTensor& t : model.tensors()) {
    if (parts.count(&t) > 0) continue;
    const DType type = FromSafetensorsName(t.stored.dtype);
    if (IsFloat(type)) {
      side.entries[std::string(ModuleOf(t.name()))] = {std::string(Name(type)),
                                                       &t, nullptr};
    } else {
      side.others[t.name()] = &t;
    }
  }
  return side;
}

// Splits a stack of experts into one entry for each expert if the other model
// stores them separately.
void Unstack(const Side& other, Side* side) {
  for (const Originals::Stack& stack : side->weights.stacks()) {
    const std::string module(ModuleOf(stack.tensor->name()));
    if (other.entries.count(module) > 0) continue;
    for (const auto* names : {&stack.whole, &stack.split}) {
      if (names->empty() || other.entries.count(names->front()) == 0) continue;
      const std::string kind = side->entries[module].kind;
      side->entries.erase(module);
      for (const std::string& name : *names) {
        side->entries[name] = {kind, nullptr, side->weights.Find(name)};
      }
      break;
    }
  }
}

OriginalValues ValuesOf(const Model& model, const Entry& entry) {
  return entry.tensor != nullptr ? OriginalValues(model, *entry.tensor)
                                 : OriginalValues(model, *entry.weight);
}

// The type of an entry that is not quantized.
const std::string& TypeOf(const Entry& entry) {
  return (entry.tensor ? entry.tensor : entry.weight->plain.source)
      ->stored.dtype;
}

class Sums {
 public:
  explicit Sums(TensorDifference* d) : d_(*d) {}

  // Adds whole rows.
  void Add(const std::vector<float>& a, const std::vector<float>& b) {
    const auto cols = static_cast<size_t>(std::max<int64_t>(1, d_.cols));
    for (size_t row = 0; row < a.size(); row += cols) {
      AddRow(a.data() + row, b.data() + row, std::min(cols, a.size() - row));
    }
  }

  void Finish() {
    const double xx = d_.signal;
    const auto count = static_cast<double>(d_.rows * d_.cols);
    d_.sqnr_db = Decibel(xx, d_.noise);
    d_.cosine = xx == 0 && yy_ == 0 ? 1 : xy_ / std::sqrt(xx * yy_);
    d_.rms = count == 0 ? 0 : std::sqrt(xx / count);
    const double faint = kFaint * d_.amax * kFaint * d_.amax * d_.cols;
    for (size_t i = 0; i < rows_.size(); ++i) {
      const auto& [signal, noise] = rows_[i];
      if (!(noise > faint)) continue;
      const double db = Decibel(signal, noise);
      if (d_.worst_row >= 0 && d_.worst_row_db <= db) continue;
      d_.worst_row = static_cast<int64_t>(i);
      d_.worst_row_db = db;
    }
  }

 private:
  static double Decibel(double signal, double noise) {
    return noise == 0 ? std::numeric_limits<double>::infinity()
                      : 10 * std::log10(signal / noise);
  }

  void AddRow(const float* a, const float* b, size_t count) {
    double signal = 0;
    double noise = 0;
    for (size_t i = 0; i < count; ++i) {
      if (!std::isfinite(a[i]) || !std::isfinite(b[i])) {
        d_.not_finite += a[i] != b[i];
        continue;
      }
      const double x = a[i];
      const double y = b[i];
      signal += x * x;
      yy_ += y * y;
      xy_ += x * y;
      noise += (x - y) * (x - y);
      d_.max_error = std::max(d_.max_error, std::abs(x - y));
      d_.amax = std::max(d_.amax, std::abs(x));
      d_.amax_b = std::max(d_.amax_b, std::abs(y));
      d_.lost += x != 0 && y == 0;
    }
    d_.signal += signal;
    d_.noise += noise;
    rows_.push_back({signal, noise});
  }

  struct Row {
    double signal = 0;
    double noise = 0;
  };
  TensorDifference& d_;
  double yy_ = 0;
  double xy_ = 0;
  std::vector<Row> rows_;
};

// The number of elements of `size` bytes that differ.
absl::StatusOr<uint64_t> Differing(const Model& a, const ModelTensor& ta,
                                   const Model& b, const ModelTensor& tb,
                                   size_t size) {
  constexpr size_t kSome = size_t{1} << 20;
  std::vector<std::byte> x(kSome);
  std::vector<std::byte> y(kSome);
  uint64_t count = 0;
  for (size_t done = 0; done < ta.stored.size; done += kSome) {
    const size_t some = std::min(kSome, ta.stored.size - done);
    const auto into = [&](std::vector<std::byte>& v) {
      return absl::MakeSpan(v).first(some);
    };
    if (auto s = a.Read(ta, done, into(x)); !s.ok()) return s;
    if (auto s = b.Read(tb, done, into(y)); !s.ok()) return s;
    for (size_t i = 0; i < some; i += size) {
      count += !std::equal(x.begin() + static_cast<ptrdiff_t>(i),
                           x.begin() + static_cast<ptrdiff_t>(i + size),
                           y.begin() + static_cast<ptrdiff_t>(i));
    }
  }
  return count;
}

absl::Status CompareBytes(const Model& a, const Entry& ea, const Model& b,
                          const Entry& eb, TensorDifference* d) {
  const StoredWeight* wa = ea.stored();
  const StoredWeight* wb = eb.stored();
  // The parts of a stack are compared once, for its first expert.
  if (!wa || !wb || ea.weight->expert > 0 || wa->layout != wb->layout) {
    return absl::OkStatus();
  }
  d->same_layout = true;
  for (const PartSource source : {PartSource::kCodes, PartSource::kScales}) {
    const ModelTensor& ta = *wa->part(source);
    const ModelTensor& tb = *wb->part(source);
    const bool codes = source == PartSource::kCodes;
    const auto size =
        static_cast<size_t>(safetensors::BitsOf(ta.stored.dtype) / 8);
    (codes ? d->code_bytes : d->scales) = ta.stored.size / size;
    if (ta.stored.dtype != tb.stored.dtype ||
        ta.stored.size != tb.stored.size) {
      (codes ? d->differing_code_bytes : d->differing_scales) =
          ta.stored.size / size;
      continue;
    }
    const auto count = Differing(a, ta, b, tb, size);
    if (!count.ok()) return count.status();
    (codes ? d->differing_code_bytes : d->differing_scales) = *count;
  }
  return absl::OkStatus();
}

absl::StatusOr<TensorDifference> CompareOne(const std::string& name,
                                            const Side& a, const Entry& ea,
                                            const Side& b, const Entry& eb) {
  TensorDifference d;
  d.name = name;
  d.kind_a = ea.kind;
  d.kind_b = eb.kind;
  if (ea.stored() != nullptr) d.format_a = ea.stored()->layout->format;
  if (eb.stored() != nullptr) d.format_b = eb.stored()->layout->format;
  OriginalValues va = ValuesOf(a.model, ea);
  OriginalValues vb = ValuesOf(b.model, eb);
  d.rows = va.rows();
  d.cols = va.cols();
  Sums sums(&d);
  std::vector<float> x;
  std::vector<float> y;
  const int64_t most =
      std::max<int64_t>(1, (1 << 20) / std::max<int64_t>(1, va.cols()));
  for (int64_t row = 0; row < va.rows(); row += most) {
    const int64_t count = std::min(most, va.rows() - row);
    if (auto s = va.Read(row, count, &x); !s.ok()) return s;
    if (auto s = vb.Read(row, count, &y); !s.ok()) return s;
    sums.Add(x, y);
    if (!d.format_a && !d.format_b) {
      d.altered += Altered(x, TypeOf(ea), y, TypeOf(eb));
    }
  }
  sums.Finish();
  // Codes can be compared with the nearest ones only if the original's numbers
  // are known.
  const OriginalWeight* truth =
      d.format_b && !d.format_a
          ? a.weights.Find(*eb.stored(), eb.weight->expert)
          : nullptr;
  if (truth != nullptr) {
    const auto read = DifferenceBy(b.model, *eb.stored(), eb.weight->expert,
                                   a.weights, *truth, b.sample, {});
    if (!read.ok()) return read.status();
    d.wrong = read->rounding->wrong;
  }
  if (auto s = CompareBytes(a.model, ea, b.model, eb, &d); !s.ok()) return s;
  return d;
}

// Compares byte by byte. The values of integers and unknown formats cannot be
// compared otherwise.
absl::Status CompareOther(const Model& a, const ModelTensor& ta, const Model& b,
                          const ModelTensor& tb, ModelDifference* out) {
  const bool alike =
      ta.stored.dtype == tb.stored.dtype && ta.stored.shape == tb.stored.shape;
  absl::StatusOr<uint64_t> differing = 0;
  if (alike) differing = Differing(a, ta, b, tb, 1);
  if (!differing.ok()) return differing.status();
  if (alike && *differing == 0) {
    TensorDifference d;
    d.name = ta.name();
    d.kind_a = d.kind_b = ta.stored.dtype;
    d.sqnr_db = std::numeric_limits<double>::infinity();
    d.cosine = 1;
    out->tensors.push_back(std::move(d));
    return absl::OkStatus();
  }
  out->not_compared.push_back(
      {ta.name(),
       alike ? fmt::format("{} of {} bytes differ, and values of type {} "
                           "cannot be compared",
                           *differing, ta.stored.size, ta.stored.dtype)
             : fmt::format("the types ({} and {}) or the shapes differ",
                           ta.stored.dtype, tb.stored.dtype)});
  return absl::OkStatus();
}

}  // namespace

void CompareValues(const std::vector<float>& a, const std::vector<float>& b,
                   TensorDifference* difference) {
  Sums sums(difference);
  sums.Add(a, b);
  sums.Finish();
}

absl::StatusOr<ModelDifference> CompareModels(
    const Model& a, const Model& b,
    const std::function<void(const TensorDifference&)>& tell) {
  auto side_a = SideOf(a);
  if (!side_a.ok()) return side_a.status();
  auto side_b = SideOf(b);
  if (!side_b.ok()) return side_b.status();
  Unstack(*side_b, &*side_a);
  Unstack(*side_a, &*side_b);
  const Entries& in_a = side_a->entries;
  const Entries& in_b = side_b->entries;
  ModelDifference out;
  // Skips scales of inputs and of the KV cache, which belong to a format: a
  // model without them does not lack a weight.
  const auto add_to = [](const std::string& name,
                         std::vector<std::string>* only) {
    if (!IsSpareBeside(SplitModule(name).leaf) && !IsCacheScale(name)) {
      only->push_back(name);
    }
  };
  for (const auto& [name, entry] : in_a) {
    const auto found = in_b.find(name);
    if (found == in_b.end()) {
      add_to(name, &out.only_a);
      continue;
    }
    const OriginalValues va = ValuesOf(a, entry);
    const OriginalValues vb = ValuesOf(b, found->second);
    if (va.rows() != vb.rows() || va.cols() != vb.cols()) {
      out.not_compared.push_back(
          {name, fmt::format("the shapes differ: {} x {} and {} x {}",
                             va.rows(), va.cols(), vb.rows(), vb.cols())});
      continue;
    }
    auto one = CompareOne(name, *side_a, entry, *side_b, found->second);
    if (!one.ok()) return one.status();
    if (tell) tell(*one);
    out.tensors.push_back(*std::move(one));
  }
  for (const auto& [name, entry] : in_b) {
    if (in_a.count(name) == 0) add_to(name, &out.only_b);
  }
  for (const auto& [name, tensor] : side_a->others) {
    const auto found = side_b->others.find(name);
    if (found == side_b->others.end()) {
      add_to(name, &out.only_a);
    } else if (auto s = CompareOther(a, *tensor, b, *found->second, &out);
               !s.ok()) {
      return s;
    }
  }
  for (const auto& [name, tensor] : side_b->others) {
    if (side_a->others.count(name) == 0) add_to(name, &out.only_b);
  }
  std::ranges::sort(out.tensors, [](const auto& x, const auto& y) {
    return x.name < y.name;
  });
  return out;
}

size_t TensorsAdded(const ModelDifference& difference) {
  return static_cast<size_t>(std::ranges::count_if(
      difference.only_b,
      [](const std::string& name) { return !name.starts_with("lm_head"); }));
}

}  // namespace quantd::checkpoint
