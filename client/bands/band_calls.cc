#include "client/bands/band_calls.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <deque>
#include <mutex>
#include <optional>

#include "absl/functional/function_ref.h"
#include "client/bands/band_join.h"
#include "client/bands/band_place.h"
#include "client/bands/band_threads.h"
#include "client/tensors/copy_window.h"
#include "fmt/format.h"
#include "kernels/plan/amax_source.h"
#include "kernels/plan/shards.h"

namespace quantd::client {
namespace {

using Bytes = absl::Span<const std::byte>;

// Bands in flight per connection. With two, the next band is sent while the
// server computes the previous one.
constexpr int kUnderWay = 2;

// Reports the progress of a call whose rows are sent `passes` times.
class Teller {
 public:
  Teller(const BandedCall& call, int passes)
      : progress_(call.progress),
        rows_(call.plan.rows() * passes),
        all_(PayloadBytes(call.plan)) {}
  void Add(const Band& band) {
    if (!progress_) return;
    const std::lock_guard lock(mutex_);
    done_ += band.rows;
    const double part = static_cast<double>(done_) / static_cast<double>(rows_);
    progress_(done_ == rows_
                  ? all_
                  : static_cast<size_t>(part * static_cast<double>(all_)),
              all_);
  }

 private:
  const CallProgress& progress_;
  const int64_t rows_;
  const size_t all_;
  std::mutex mutex_;
  int64_t done_ = 0;
};

// The input bytes of one band. They refer to the caller's memory where the band
// is contiguous, and to a copy elsewhere.
class BandPayload {
 public:
  // Returns RESOURCE_EXHAUSTED if a copy cannot be allocated.
  absl::Status Fill(const BandedCall& whole, const BandPlaces& places,
                    const Band& band, const Plan& plan) {
    const absl::Span<const Bytes> payload = whole.call.payload;
    for (size_t i = 0; i < payload.size(); ++i) {
      const TensorSpec& spec = whole.plan.inputs()[i];
      if (places.PartOf(spec) != Part::kStrip) {
        pieces_.push_back(payload[i]);
        continue;
      }
      const Strip strip = places.StripOf(spec, band);
      const size_t size = plan.inputs()[i].size;
      if (strip.count == 1 && strip.bytes == size) {
        pieces_.push_back(payload[i].subspan(strip.at, size));
        continue;
      }
      AlignedBytes own(size);
      if (own.span().size() != size) {
        return absl::ResourceExhaustedError(
            fmt::format("no memory for {} bytes of a band", size));
      }
      std::fill(own.span().begin(), own.span().end(), std::byte{0});
      Gather(strip, payload[i], own.span());
      pieces_.push_back(own.span());
      owned_.push_back(std::move(own));
    }
    return absl::OkStatus();
  }
  absl::Span<const Bytes> pieces() const { return pieces_; }

 private:
  std::vector<Bytes> pieces_;
  std::vector<AlignedBytes> owned_;
};

bool IsFinite(const CopyAmax& amax) {
  const auto finite = [](float a) { return std::isfinite(a); };
  return std::all_of(amax.rowwise.begin(), amax.rowwise.end(), finite) &&
         std::all_of(amax.columnwise.begin(), amax.columnwise.end(), finite);
}

// A barrier of streamed bands. When the last band has reported its maxima,
// every band receives the amax of the whole tensor.
class Meeting {
 public:
  Meeting(const Plan& plan, const std::vector<Band>& bands, Teller* teller,
          Turns* turns)
      : plan_(plan),
        bands_(bands),
        teller_(*teller),
        turns_(*turns),
        whole_(NoMaxima(plan)) {
    for (size_t i = 0; i < bands_.size(); ++i) {
      parts_.emplace_back([this, i](const CopyAmax& found) { Add(i, found); });
    }
  }

  Reduction& PartOf(const Band& band) {
    return parts_[static_cast<size_t>(&band - bands_.data())];
  }
  // True if the amax of the whole is Inf or NaN, which no request can contain.
  bool hopeless() const { return hopeless_; }

 private:
  void Add(size_t i, const CopyAmax& found) {
    turns_.release();
    const std::lock_guard lock(mutex_);
    Raise(absl::MakeSpan(whole_.rowwise), bands_[i].row, found.rowwise);
    Raise(absl::MakeSpan(whole_.columnwise), 0, found.columnwise);
    teller_.Add(bands_[i]);
    if (++told_ < bands_.size()) return;
    SettleAmax(plan_, &whole_);
    hopeless_ = !IsFinite(whole_);
    for (size_t k = 0; k < bands_.size(); ++k) {
      if (hopeless_) {
        parts_[k].Answer(absl::AbortedError("the amax is not finite"));
      } else {
        parts_[k].Answer(AmaxOfBand(plan_, bands_[k], whole_));
      }
    }
  }

  const Plan& plan_;
  const std::vector<Band>& bands_;
  Teller& teller_;
  Turns& turns_;
  std::deque<Reduction> parts_;
  std::mutex mutex_;
  CopyAmax whole_;
  size_t told_ = 0;
  std::atomic<bool> hopeless_ = false;
};

// Runs the calls of all bands and joins their results.
class BandRun {
 public:
  explicit BandRun(const BandedCall& whole)
      : whole_(whole),
        places_(whole.plan),
        teller_(whole, whole.amax == BandAmax::kKnown ? 1 : 2),
        join_(whole.plan, places_, whole.call.into) {}

  absl::StatusOr<std::optional<Result>> Run();

 private:
  using Ask = absl::FunctionRef<absl::StatusOr<Result>(const Call& part)>;

  // Makes the call of one band through `ask`.
  absl::StatusOr<Result> CallBand(const Band& band, CallControl& control,
                                  const absl::StatusOr<Plan>& plan,
                                  absl::Span<const Destination> into, Ask ask) {
    if (!plan.ok()) return plan.status();
    BandPayload payload;
    if (auto s = payload.Fill(whole_, places_, band, *plan); !s.ok()) return s;
    return ask({*plan, payload.pieces(), into, {}, whole_.call.limit, control});
  }
  // Makes the call of one band through `ask`, and adds its result to the whole.
  absl::Status Join(const Band& band, CallControl& control,
                    const absl::StatusOr<Plan>& plan, Ask ask) {
    if (!plan.ok()) return plan.status();
    const auto result =
        CallBand(band, control, plan, join_.PlacesOf(band, *plan), ask);
    if (!result.ok()) return result.status();
    if (auto s = join_.Add(band, *plan, *result); !s.ok()) return s;
    teller_.Add(band);
    return absl::OkStatus();
  }
  // Calls `work` for all bands, with at most `at_once * kUnderWay` in progress.
  template <typename Work>
  absl::Status InTurn(Work work) {
    Turns turns(std::max(whole_.at_once, 1));
    return ForEachBand(whole_.call.control, whole_.bands,
                       whole_.at_once * kUnderWay, turns,
                       [&](const Band& band, CallControl& control) {
                         Turn turn(&turns);
                         return work(band, control, [&turn] { turn.Give(); });
                       });
  }

  absl::Status Meet(bool* finite);
  // Finds the amax of the whole tensor. Increases `*sent` by the number of
  // requests sent.
  absl::StatusOr<CopyAmax> Search(int* sent);
  absl::Status SendAll(const CopyAmax* amax);

  const BandedCall& whole_;
  const BandPlaces places_;
  Teller teller_;
  BandJoin join_;
};

absl::StatusOr<CopyAmax> BandRun::Search(int* sent) {
  const auto& options = std::get<QuantizeOptions>(whole_.plan.options());
  CopyAmax all = NoMaxima(whole_.plan);
  std::mutex mutex;
  const auto status = InTurn([&](const Band& band, CallControl& control,
                                 const OnSent& on_sent) -> absl::Status {
    const auto found =
        CallBand(band, control, AmaxPlanOf(whole_.plan, band), {},
                 [&](const Call& part) {
                   return whole_.endpoint.Run(part, whole_.way, on_sent);
                 });
    if (!found.ok()) return found.status();
    {
      const std::lock_guard lock(mutex);
      *sent += found->attempts();
      const CopyAmax maxima = MaximaOf(options, *found);
      Raise(absl::MakeSpan(all.rowwise), band.row, maxima.rowwise);
      Raise(absl::MakeSpan(all.columnwise), 0, maxima.columnwise);
    }
    teller_.Add(band);
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  SettleAmax(whole_.plan, &all);
  return all;
}

absl::Status BandRun::Meet(bool* finite) {
  Turns turns(std::max(whole_.at_once, 1));
  Meeting meeting(whole_.plan, whole_.bands, &teller_, &turns);
  const auto status = ForEachBand(
      whole_.call.control, whole_.bands, static_cast<int>(whole_.bands.size()),
      turns,
      [&](const Band& band, CallControl& control) {
        return Join(band, control, ReducingPlan(whole_.plan, band),
                    [&](const Call& part) {
                      Reduction& reduction = meeting.PartOf(band);
                      auto once = whole_.endpoint.RunReduced(part, reduction);
                      if (once) return *std::move(once);
                      return RunInTwo(part, reduction, [&](const Call& c) {
                        return whole_.endpoint.Run(c, whole_.way, {});
                      });
                    });
      },
      /*meet=*/true);
  *finite = !meeting.hopeless();
  return status;
}

absl::Status BandRun::SendAll(const CopyAmax* amax) {
  return InTurn(
      [&](const Band& band, CallControl& control, const OnSent& on_sent) {
        return Join(band, control, PlanOfBand(whole_.plan, band, amax),
                    [&](const Call& part) {
                      return whole_.endpoint.Run(part, whole_.way, on_sent);
                    });
      });
}

absl::StatusOr<std::optional<Result>> BandRun::Run() {
  std::optional<CopyAmax> amax;
  int sent = 0;
  if (whole_.amax == BandAmax::kSearch) {
    auto found = Search(&sent);
    if (!found.ok()) return found.status();
    if (!IsFinite(*found)) return std::nullopt;
    amax = *std::move(found);
  }
  if (auto s = join_.Begin(); !s.ok()) return s;
  bool finite = true;
  const absl::Status status = whole_.amax == BandAmax::kMeet
                                  ? Meet(&finite)
                                  : SendAll(amax ? &*amax : nullptr);
  if (!finite) return std::nullopt;
  if (!status.ok()) return status;
  return join_.Take(sent);
}

}  // namespace

absl::StatusOr<std::optional<Result>> RunInBands(const BandedCall& call) {
  return BandRun(call).Run();
}

}  // namespace quantd::client
