#include "client/checkpoint/advise/advise.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <mutex>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "client/checkpoint/architecture.h"
#include "client/checkpoint/convert/weight_encoder.h"
#include "client/checkpoint/plan.h"
#include "client/checkpoint/weights.h"
#include "client/files/quantized_file.h"
#include "fmt/format.h"

namespace quantd::checkpoint {
namespace {

struct Unit {
  const char* name;
  double bytes;
};
// The units of quantd's settings: K, KB and KiB all mean 1024 bytes.
constexpr Unit kUnits[] = {{"B", 1},        {"K", 0x1p10}, {"KB", 0x1p10},
                           {"KiB", 0x1p10}, {"M", 0x1p20}, {"MB", 0x1p20},
                           {"MiB", 0x1p20}, {"G", 0x1p30}, {"GB", 0x1p30},
                           {"GiB", 0x1p30}, {"T", 0x1p40}, {"TB", 0x1p40},
                           {"TiB", 0x1p40}};

// The SQNR in dB assumed for weights that stay bf16: bf16's own accuracy.
constexpr double kBf16Db = 54;

uint64_t BytesOf(const FusedWeights& group) {
  uint64_t bytes = 0;
  for (const Weight& w : group.weights) {
    for (const Weight::Output& o : w.outputs) bytes += o.size;
  }
  return bytes;
}

// The relative error of the group in that format, times the group's size.
// Decibels would favour bf16 for small weights over 8 bits for large ones.
double ErrorOf(const AdvisedGroup& group, const Candidate& c) {
  return static_cast<double>(group.candidates.back().bytes) *
         std::pow(10, -std::min(c.sqnr_db, kBf16Db) / 10);
}

// Weights that must share one format, and the size and SQNR in each format.
struct Together {
  AdvisedGroup advised;
  uint64_t bytes_in = 0;
  // The weights in each plan; parallel to plans_.
  std::vector<std::vector<const FusedWeights*>> parts;
};

class Advisor {
 public:
  Advisor(const Model& model, Service* service)
      : model_(model), service_(*service) {}

  absl::Status FindGroups(const Selection& selection) {
    const auto architecture = Architecture::Of(model_, selection.fuse);
    if (!architecture.ok()) return architecture.status();
    Selection s = selection;
    for (const WeightFormat format : kCandidates) {
      s.format = format;
      auto plan = MakeConversionPlan(model_, s);
      // The first format is required: its plan defines the groups.
      if (!plan.ok() && format == kCandidates[0]) return plan.status();
      if (!plan.ok()) {
        if (FindLayout(s.dialect, format) != nullptr) {
          notes_.push_back(fmt::format("{} is not a candidate: {}",
                                       Name(format),
                                       std::string(plan.status().message())));
        }
        continue;
      }
      plans_.push_back(*std::move(plan));
      formats_.push_back(format);
    }
    std::map<std::string, size_t> places;
    for (size_t p = 0; p < plans_.size(); ++p) {
      for (const FusedWeights& group : plans_[p].groups) {
        const Weight& first = group.weights.front();
        // Weights with a rule already have their format.
        if (first.layout->format != formats_[p]) continue;
        std::string key = architecture->FusionKey(first.module, first.cols);
        if (key.empty()) key = first.module;
        const auto [place, fresh] = places.emplace(key, together_.size());
        if (fresh && p > 0) {
          places.erase(place);
          continue;
        }
        if (fresh) together_.emplace_back().parts.resize(plans_.size());
        Together& t = together_[place->second];
        t.parts[p].push_back(&group);
        if (p > 0) continue;
        for (const Weight& w : group.weights) {
          t.advised.modules.push_back(w.module);
          // A stored 8-bit weight becomes bf16 unless it is quantized.
          t.bytes_in +=
              w.stored ? SizeOfShape("BF16", {w.rows, w.cols}) : w.size_bytes();
        }
      }
    }
    return absl::OkStatus();
  }

  // Measures every format of a group before the next group, so that each group
  // is read from disk once.
  absl::Status Measure(const Pace& pace,
                       absl::FunctionRef<void(size_t)> progress) {
    std::mutex mutex;
    const auto tell = [&](size_t bytes) {
      const std::lock_guard lock(mutex);
      progress(bytes);
    };
    return ForEachUnit(together_.size(), pace.at_once, pace.piece_bytes,
                       &service_, [&](size_t i, absl::Span<std::byte> room) {
                         return MeasureOne(&together_[i], room, tell);
                       });
  }

  std::vector<AdvisedGroup> groups() const {
    std::vector<AdvisedGroup> groups;
    for (const Together& t : together_) groups.push_back(t.advised);
    return groups;
  }
  // Output bytes of all tensors outside the groups.
  uint64_t others() const {
    uint64_t bytes = plans_.front().bytes_out;
    for (const Together& t : together_) {
      for (const FusedWeights* part : t.parts.front()) bytes -= BytesOf(*part);
    }
    return bytes;
  }
  const std::vector<std::string>& notes() const { return notes_; }
  uint64_t bytes_in() const { return plans_.front().bytes_in; }

 private:
  absl::Status MeasureOne(Together* t, absl::Span<std::byte> room,
                          absl::FunctionRef<void(size_t)> progress) {
    const Encoder encoder = {model_, service_, nullptr, /*statistics=*/true};
    for (size_t p = 0; p < plans_.size(); ++p) {
      Candidate c;
      c.format = formats_[p];
      double signal = 0;
      double noise = 0;
      size_t weights = 0;
      for (const FusedWeights* part : t->parts[p]) {
        const auto made = encoder.Encode(*part, room, progress);
        if (!made.ok()) return made.status();
        if (!made->statistics) {
          return absl::InternalError("the reply has no error statistics");
        }
        signal += made->statistics->signal;
        noise += made->statistics->noise;
        weights += part->weights.size();
        c.bytes += BytesOf(*part);
      }
      // Skips a format that not all weights of the group can have.
      if (weights < t->advised.modules.size()) continue;
      c.sqnr_db = noise == 0 ? std::numeric_limits<double>::infinity()
                             : 10 * std::log10(signal / noise);
      t->advised.candidates.push_back(c);
    }
    t->advised.candidates.push_back({WeightFormat::kBf16, t->bytes_in,
                                     std::numeric_limits<double>::infinity()});
    std::ranges::stable_sort(
        t->advised.candidates,
        [](const auto& x, const auto& y) { return x.bytes < y.bytes; });
    return absl::OkStatus();
  }

  const Model& model_;
  Service& service_;
  std::vector<ConversionPlan> plans_;
  std::vector<WeightFormat> formats_;  // parallel to plans_
  std::vector<std::string> notes_;
  std::vector<Together> together_;
};

// Replaces a group's chosen candidate by a larger one.
struct Step {
  size_t group = 0;
  size_t to = 0;
  uint64_t bytes = 0;
  double rate = 0;  // error removed per added byte
};

// The step with the best rate that adds at most `room` bytes to the group. Its
// rate is 0 if no step fits.
Step NextStep(const std::vector<AdvisedGroup>& groups, size_t group,
              uint64_t room) {
  const AdvisedGroup& g = groups[group];
  const Candidate& now = g.candidates[g.chosen];
  Step best = {group, g.chosen, 0, 0};
  for (size_t i = g.chosen + 1; i < g.candidates.size(); ++i) {
    const Candidate& c = g.candidates[i];
    const double gain = ErrorOf(g, now) - ErrorOf(g, c);
    if (gain <= 0) continue;
    const uint64_t more = c.bytes - now.bytes;
    if (more > room) continue;
    const double rate = more == 0 ? std::numeric_limits<double>::infinity()
                                  : gain / static_cast<double>(more);
    if (rate <= best.rate) continue;
    best = {group, i, more, rate};
  }
  return best;
}

absl::Status FitInto(uint64_t most, uint64_t others,
                     std::vector<AdvisedGroup>* groups) {
  uint64_t bytes = others;
  for (const AdvisedGroup& g : *groups) bytes += g.candidates.front().bytes;
  if (bytes > most) {
    return absl::InvalidArgumentError(
        fmt::format("--target: {} bytes are too few; the smallest possible "
                    "model has {} bytes",
                    most, bytes));
  }
  const auto less = [](const Step& x, const Step& y) {
    return x.rate != y.rate ? x.rate < y.rate : x.group > y.group;
  };
  std::vector<Step> steps;
  const auto push = [&](size_t group) {
    const Step step = NextStep(*groups, group, most - bytes);
    if (step.rate <= 0) return;
    steps.push_back(step);
    std::push_heap(steps.begin(), steps.end(), less);
  };
  for (size_t i = 0; i < groups->size(); ++i) push(i);
  while (!steps.empty()) {
    std::pop_heap(steps.begin(), steps.end(), less);
    const Step step = steps.back();
    steps.pop_back();
    // If the step no longer fits, push() finds a smaller one.
    if (step.bytes <= most - bytes) {
      bytes += step.bytes;
      (*groups)[step.group].chosen = step.to;
    }
    push(step.group);
  }
  return absl::OkStatus();
}

// A --rule pattern for that module. Characters with a meaning in rules become
// '?', which matches any one character.
std::string PatternOf(const std::string& module) {
  std::string out = module;
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 || c == '#' || c == '*') c = '?';
  }
  if (out.starts_with("re:")) out[0] = '?';
  return out;
}

}  // namespace

absl::StatusOr<Target> ParseTarget(const std::string& text) {
  const absl::Status bad = absl::InvalidArgumentError(fmt::format(
      "--target {}: expected the lowest SQNR of each weight, like 25dB, or the "
      "largest size of the model, like 4.5GiB or 800MB",
      text));
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  const auto unit = absl::StripLeadingAsciiWhitespace(end);
  if (end == text.c_str() || !std::isfinite(number) || number <= 0) return bad;
  if (absl::EqualsIgnoreCase(unit, "dB")) return Target(LeastDb{number});
  for (const Unit& u : kUnits) {
    if (!absl::EqualsIgnoreCase(unit, u.name) || number * u.bytes >= 0x1p62)
      continue;
    return Target(MostBytes{static_cast<uint64_t>(number * u.bytes)});
  }
  return bad;
}

absl::Status Choose(const Target& target, uint64_t others,
                    std::vector<AdvisedGroup>* groups) {
  for (AdvisedGroup& g : *groups) g.chosen = 0;
  if (const auto* most = std::get_if<MostBytes>(&target)) {
    return FitInto(most->bytes, others, groups);
  }
  const double least = std::get<LeastDb>(target).db;
  for (AdvisedGroup& g : *groups) {
    while (g.candidates[g.chosen].sqnr_db < least) ++g.chosen;
  }
  return absl::OkStatus();
}

absl::StatusOr<Advice> Advise(const Model& model, const Selection& selection,
                              const Target& target, const Pace& pace,
                              Service* service,
                              absl::FunctionRef<void(size_t)> progress) {
  Advisor advisor(model, service);
  if (auto s = advisor.FindGroups(selection); !s.ok()) return s;
  if (auto s = advisor.Measure(pace, progress); !s.ok()) return s;
  Advice advice;
  advice.groups = advisor.groups();
  advice.notes = advisor.notes();
  advice.bytes_in = advisor.bytes_in();
  advice.bytes_out = advisor.others();
  if (auto s = Choose(target, advice.bytes_out, &advice.groups); !s.ok()) {
    return s;
  }
  for (const AdvisedGroup& g : advice.groups) {
    const Candidate& c = g.candidates[g.chosen];
    advice.bytes_out += c.bytes;
    for (const std::string& module : g.modules) {
      advice.rules.push_back(
          fmt::format("{}={}", PatternOf(module), Name(c.format)));
    }
  }
  return advice;
}

}  // namespace quantd::checkpoint
