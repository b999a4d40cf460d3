#include "client/checkpoint/check/compare.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "client/checkpoint/architecture.h"
#include "client/checkpoint/stored.h"
#include "client/checkpoint/weight_values.h"
#include "client/files/quantized_file.h"
#include "fmt/format.h"

namespace quantd::checkpoint {
namespace {

// A tensor of numbers under the name that both models have for it.
struct Entry {
  std::string kind;
  const ModelTensor* tensor = nullptr;   // as it is
  const StoredWeight* weight = nullptr;  // or quantized
  int64_t expert = 0;

  WeightValues Values(const Model& model) const {
    return weight ? WeightValues(model, *weight, expert)
                  : WeightValues(model, *tensor);
  }
};

std::map<std::string, Entry> EntriesOf(const Model& model,
                                       const StoredModel& stored) {
  std::map<std::string, Entry> entries;
  std::set<const ModelTensor*> parts;
  for (const StoredWeight& w : stored.weights) {
    parts.insert(w.parts.begin(), w.parts.end());
    for (int64_t e = 0; e < w.experts; ++e) {
      const std::string name =
          w.experts == 1 ? w.module : fmt::format("{}.{}", w.module, e);
      entries[name] = {fmt::format("{} by {}", Name(w.layout->format),
                                   Name(w.layout->dialect)),
                       nullptr, &w, e};
    }
  }
  for (const ModelTensor& t : model.tensors()) {
    const DType type = FromSafetensorsName(t.stored.dtype);
    if (parts.count(&t) > 0 || !IsFloat(type)) continue;
    entries[std::string(ModuleOf(t.name()))] = {std::string(Name(type)), &t,
                                                nullptr, 0};
  }
  return entries;
}

class Sums {
 public:
  void Add(const std::vector<float>& a, const std::vector<float>& b) {
    for (size_t i = 0; i < a.size(); ++i) {
      if (!std::isfinite(a[i]) || !std::isfinite(b[i])) {
        ++not_finite_;
        continue;
      }
      const double x = a[i];
      const double y = b[i];
      xx_ += x * x;
      yy_ += y * y;
      xy_ += x * y;
      noise_ += (x - y) * (x - y);
      most_ = std::max(most_, std::abs(x - y));
      amax_ = std::max(amax_, std::abs(x));
      amax_b_ = std::max(amax_b_, std::abs(y));
      lost_ += x != 0 && y == 0;
    }
    count_ += a.size();
  }
  void Settle(TensorDifference* d) const {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    d->sqnr_db = noise_ == 0 ? kInfinity : 10 * std::log10(xx_ / noise_);
    d->cosine = xx_ == 0 && yy_ == 0 ? 1 : xy_ / std::sqrt(xx_ * yy_);
    d->max_error = most_;
    d->not_finite = not_finite_;
    d->amax = amax_;
    d->amax_b = amax_b_;
    d->rms = count_ == 0 ? 0 : std::sqrt(xx_ / static_cast<double>(count_));
    d->lost = lost_;
  }

 private:
  double xx_ = 0;
  double yy_ = 0;
  double xy_ = 0;
  double noise_ = 0;
  double most_ = 0;
  double amax_ = 0;
  double amax_b_ = 0;
  uint64_t lost_ = 0;
  uint64_t count_ = 0;
  uint64_t not_finite_ = 0;
};

// Elements of `size` bytes that differ.
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
  if (!ea.weight || !eb.weight || ea.expert > 0 ||
      ea.weight->layout != eb.weight->layout) {
    return absl::OkStatus();
  }
  d->same_layout = true;
  for (const PartSource source : {PartSource::kCodes, PartSource::kScales}) {
    const ModelTensor& ta = *ea.weight->part(source);
    const ModelTensor& tb = *eb.weight->part(source);
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
                                            const Model& a, const Entry& ea,
                                            const Model& b, const Entry& eb) {
  TensorDifference d;
  d.name = name;
  d.kind_a = ea.kind;
  d.kind_b = eb.kind;
  d.quantized_b = eb.weight != nullptr;
  WeightValues va = ea.Values(a);
  WeightValues vb = eb.Values(b);
  d.rows = va.rows();
  d.cols = va.cols();
  if (va.rows() != vb.rows() || va.cols() != vb.cols()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {} x {} in the one, {} x {} in the other", name,
                    va.rows(), va.cols(), vb.rows(), vb.cols()));
  }
  Sums sums;
  std::vector<float> x;
  std::vector<float> y;
  const int64_t most =
      std::max<int64_t>(1, (1 << 20) / std::max<int64_t>(1, va.cols()));
  for (int64_t row = 0; row < va.rows(); row += most) {
    const int64_t count = std::min(most, va.rows() - row);
    if (auto s = va.Read(row, count, &x); !s.ok()) return s;
    if (auto s = vb.Read(row, count, &y); !s.ok()) return s;
    sums.Add(x, y);
  }
  sums.Settle(&d);
  if (auto s = CompareBytes(a, ea, b, eb, &d); !s.ok()) return s;
  return d;
}

}  // namespace

absl::StatusOr<ModelDifference> CompareModels(
    const Model& a, const Model& b,
    const std::function<void(const TensorDifference&)>& tell) {
  const auto stored_a = FindStored(a);
  if (!stored_a.ok()) return stored_a.status();
  const auto stored_b = FindStored(b);
  if (!stored_b.ok()) return stored_b.status();
  const auto in_a = EntriesOf(a, *stored_a);
  const auto in_b = EntriesOf(b, *stored_b);
  ModelDifference out;
  for (const auto& [name, entry] : in_a) {
    const auto found = in_b.find(name);
    if (found == in_b.end()) {
      out.only_a.push_back(name);
      continue;
    }
    auto one = CompareOne(name, a, entry, b, found->second);
    if (!one.ok()) return one.status();
    if (tell) tell(*one);
    out.tensors.push_back(*std::move(one));
  }
  for (const auto& [name, entry] : in_b) {
    if (in_a.count(name) == 0) out.only_b.push_back(name);
  }
  return out;
}

}  // namespace quantd::checkpoint
