#include "client/bands/band_calls.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <deque>
#include <mutex>
#include <optional>

#include "absl/cleanup/cleanup.h"
#include "client/bands/band_join.h"
#include "client/bands/band_place.h"
#include "client/bands/band_threads.h"
#include "client/bands/turns.h"
#include "client/tensors/result_builder.h"
#include "fmt/format.h"
#include "kernels/plan/amax_source.h"
#include "kernels/plan/shards.h"

namespace quantd::client {
namespace {

using Bytes = absl::Span<const std::byte>;

// Of bands of which one is sent: while a server works on it the next follows,
// or each connection would lie still as long.
constexpr int kUnderWay = 2;

size_t PayloadBytes(const WholeCall& call) {
  size_t all = 0;
  for (const Bytes& piece : call.payload) all += piece.size();
  return all;
}

// Tells how much is done, of rows that are gone through once or twice.
class Teller {
 public:
  Teller(const WholeCall& call, int passes)
      : progress_(call.progress),
        rows_(call.plan.rows() * passes),
        all_(PayloadBytes(call)) {}
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

// The payload of one band: the caller's memory where it lies together there.
class BandPayload {
 public:
  // RESOURCE_EXHAUSTED where there is no memory.
  absl::Status Fill(const WholeCall& call, const BandPlaces& places,
                    const Band& band, const Plan& plan) {
    for (size_t i = 0; i < call.payload.size(); ++i) {
      const TensorSpec& spec = call.plan.inputs()[i];
      if (places.PartOf(spec) != Part::kStrip) {
        pieces_.push_back(call.payload[i]);
        continue;
      }
      const Strip strip = places.StripOf(spec, band);
      const size_t size = plan.inputs()[i].size;
      if (strip.count == 1 && strip.bytes == size) {
        pieces_.push_back(call.payload[i].subspan(strip.at, size));
        continue;
      }
      AlignedBytes own(size);
      if (own.span().size() != size) {
        return absl::ResourceExhaustedError(
            fmt::format("no memory for {} bytes of a band", size));
      }
      std::fill(own.span().begin(), own.span().end(), std::byte{0});
      Gather(strip, call.payload[i], own.span());
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

// Finds the amax of the whole. `sent`: how many calls it took.
absl::StatusOr<CopyAmax> FindAmax(const WholeCall& call,
                                  const BandPlaces& places,
                                  const std::vector<Band>& bands, int at_once,
                                  Teller* teller, int* sent) {
  const auto& options = std::get<QuantizeOptions>(call.plan.options());
  CopyAmax whole = NoMaxima(call.plan);
  std::mutex mutex;
  const auto status = ForEachBand(
      call.control, bands, at_once,
      [&](const Band& band, CallControl& control) -> absl::Status {
        const auto plan = AmaxPlanOf(call.plan, band);
        if (!plan.ok()) return plan.status();
        BandPayload payload;
        if (auto s = payload.Fill(call, places, band, *plan); !s.ok()) return s;
        const auto found = call.endpoint.Run(*plan, payload.pieces(), {}, {},
                                             call.limit, control);
        if (!found.ok()) return found.status();
        {
          const std::lock_guard lock(mutex);
          *sent += found->attempts();
          if (HasRowwise(options.usage)) {
            Raise(absl::MakeSpan(whole.rowwise), band.row,
                  found->amaxes(AmaxKindOf(options, false)));
          }
          if (HasColumnwise(options.usage)) {
            Raise(absl::MakeSpan(whole.columnwise), 0,
                  found->amaxes(AmaxKindOf(options, true)));
          }
        }
        teller->Add(band);
        return absl::OkStatus();
      });
  if (!status.ok()) return status;
  Settle(call.plan, &whole);
  return whole;
}

bool IsFinite(const CopyAmax& amax) {
  const auto finite = [](float a) { return std::isfinite(a); };
  return std::all_of(amax.rowwise.begin(), amax.rowwise.end(), finite) &&
         std::all_of(amax.columnwise.begin(), amax.columnwise.end(), finite);
}

// Where the streams of bands meet: when the last has told its maxima, all are
// answered.
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
  // An amax that no request can give came out.
  bool hopeless() const { return hopeless_; }

 private:
  void Add(size_t i, const CopyAmax& found) {
    turns_.Give();
    const std::lock_guard lock(mutex_);
    Raise(absl::MakeSpan(whole_.rowwise), bands_[i].row, found.rowwise);
    Raise(absl::MakeSpan(whole_.columnwise), 0, found.columnwise);
    teller_.Add(bands_[i]);
    if (++told_ < bands_.size()) return;
    Settle(plan_, &whole_);
    hopeless_ = !IsFinite(whole_);
    for (size_t k = 0; k < bands_.size(); ++k) {
      if (hopeless_) {
        parts_[k].Answer(absl::AbortedError("an amax that cannot be given"));
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

absl::StatusOr<Result> RunWhole(const WholeCall& call) {
  auto result = call.endpoint.Run(call.plan, call.payload, call.into,
                                  call.events, call.limit, call.control);
  if (result.ok() && call.progress) {
    const size_t all = PayloadBytes(call);
    call.progress(all, all);
  }
  return result;
}

// The plan of a call as its server completes it; nothing: that is not known, or
// no plan, and the server says so best.
std::optional<Plan> AsServed(const WholeCall& call) {
  QuantizeOptions o = std::get<QuantizeOptions>(call.plan.options());
  if (o.amax_estimation_scale || !MayEstimate(o)) return call.plan;
  o.amax_estimation_scale =
      call.endpoint.DefaultEstimate(call.limit, call.control);
  if (!o.amax_estimation_scale) return std::nullopt;
  absl::StatusOr<Plan> plan = MakeQuantizePlan(call.plan.tensor(), o);
  if (!plan.ok()) return std::nullopt;
  return *std::move(plan);
}

// Whether all bands, of which none is larger than the first, have room at once.
bool MayMeet(const WholeCall& call, const std::vector<Band>& bands) {
  if (bands.empty()) return false;
  const auto part = ReducingPlan(call.plan, bands.front());
  if (!part.ok()) return false;
  const size_t held =
      part->input_bytes() + part->output_bytes() + part->scratch_bytes();
  return bands.size() <=
         call.endpoint.MostReducedAtOnce(held, call.limit, call.control);
}

// What does not travel, by all devices that share it.
absl::StatusOr<Result> RunOverDevices(const WholeCall& call) {
  if (CutOverDevices(call.plan, 2).empty()) return RunWhole(call);
  const int devices =
      call.endpoint.Devices(call.payload, call.into, call.limit, call.control);
  const std::vector<Band> bands = CutOverDevices(call.plan, devices);
  if (bands.empty() || !LiesInRuns(call.plan, bands.front(), call.into)) {
    return RunWhole(call);
  }
  return RunInBands(call, bands, devices);
}

}  // namespace

absl::StatusOr<Result> RunCall(const WholeCall& call, size_t band_bytes) {
  const std::vector<Band> bands = CutIntoBands(call.plan, band_bytes);
  // What one band writes another may have yet to read.
  const bool apart = CheckApart(call.payload, call.into).ok();
  if (bands.empty() || call.events.any() || !apart) return RunWhole(call);
  const int connections = call.endpoint.Connections(call.payload, call.into);
  if (connections == 0) return RunOverDevices(call);
  if (!NeedsAmax(call.plan)) {
    const std::vector<Band> few =
        CutToFlow(call.plan, bands.size(), connections, kFlowingBand);
    return RunInBands(call, few.empty() ? bands : few, connections);
  }
  const std::optional<Plan> plan = AsServed(call);
  if (!plan) return RunWhole(call);
  const WholeCall served = {call.endpoint, *plan,        call.payload,
                            call.into,     call.events,  call.limit,
                            call.control,  call.progress};
  const std::vector<Band> meeting = CutToMeet(*plan, band_bytes);
  return MayMeet(served, meeting) ? RunMeeting(served, meeting, connections)
                                  : RunInBands(served, bands, connections);
}

absl::StatusOr<Result> RunMeeting(const WholeCall& call,
                                  const std::vector<Band>& bands, int at_once) {
  const BandPlaces places(call.plan);
  Teller teller(call, 2);
  Turns turns(at_once);
  Meeting meeting(call.plan, bands, &teller, &turns);
  BandJoin join(call.plan, places, call.into);
  if (auto s = join.Begin(); !s.ok()) return s;
  const auto run = [&](const Band& band, CallControl& control) -> absl::Status {
    const auto plan = ReducingPlan(call.plan, band);
    if (!plan.ok()) return plan.status();
    BandPayload payload;
    if (auto s = payload.Fill(call, places, band, *plan); !s.ok()) return s;
    const auto into = join.PlacesOf(band, *plan);
    const auto result =
        call.endpoint.RunReduced(*plan, payload.pieces(), into, {}, call.limit,
                                 control, meeting.PartOf(band));
    if (!result.ok()) return result.status();
    if (auto s = join.Add(band, *plan, *result); !s.ok()) return s;
    teller.Add(band);
    return absl::OkStatus();
  };
  const auto status = ForEachInTurn(call.control, bands,
                                    static_cast<int>(bands.size()), turns, run,
                                    /*meet=*/true);
  if (meeting.hopeless()) return RunWhole(call);
  if (!status.ok()) return status;
  return join.Take(0);
}

absl::StatusOr<Result> RunInBands(const WholeCall& call,
                                  const std::vector<Band>& bands, int at_once) {
  const BandPlaces places(call.plan);
  const bool needs_amax = NeedsAmax(call.plan);
  Teller teller(call, needs_amax ? 2 : 1);
  CopyAmax amax;
  int sent = 0;
  if (needs_amax) {
    auto found = FindAmax(call, places, bands, at_once, &teller, &sent);
    if (!found.ok()) return found.status();
    if (!IsFinite(*found)) return RunWhole(call);
    amax = *std::move(found);
  }
  BandJoin join(call.plan, places, call.into);
  if (auto s = join.Begin(); !s.ok()) return s;
  Turns turns(at_once);
  const auto status = ForEachInTurn(
      call.control, bands, at_once * kUnderWay, turns,
      [&](const Band& band, CallControl& control) -> absl::Status {
        Turn turn(&turns);
        control.SetOnSent([&turn] { turn.Give(); });
        const absl::Cleanup unset = [&] { control.SetOnSent(nullptr); };
        const auto plan =
            PlanOfBand(call.plan, band, needs_amax ? &amax : nullptr);
        if (!plan.ok()) return plan.status();
        BandPayload payload;
        if (auto s = payload.Fill(call, places, band, *plan); !s.ok()) return s;
        const auto into = join.PlacesOf(band, *plan);
        const auto result = call.endpoint.Run(*plan, payload.pieces(), into, {},
                                              call.limit, control);
        if (!result.ok()) return result.status();
        if (auto s = join.Add(band, *plan, *result); !s.ok()) return s;
        teller.Add(band);
        return absl::OkStatus();
      });
  if (!status.ok()) return status;
  return join.Take(sent);
}

}  // namespace quantd::client
