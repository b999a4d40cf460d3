#include "quantd/distributed.h"

#include <chrono>
#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include "client/call/reduction.h"
#include "fmt/format.h"
#include "kernels/plan/amax_source.h"
#include "kernels/plan/shards.h"
#include "quantd/field_error.h"

namespace quantd {
namespace {

// The matrix form of a tensor, and the units at which it may be cut.
struct Grid {
  int64_t rows = 0;
  int64_t cols = 0;
  CutUnits unit;
};

absl::StatusOr<Grid> GridOf(const TensorDesc& whole,
                            const QuantizeOptions& options) {
  if (!options.rowwise_amax.empty() || !options.columnwise_amax.empty()) {
    return FieldError("given_amax", "none: the shards' amax is reduced",
                      "an amax");
  }
  if (options.fp8.history) {
    return FieldError("history", "none: call UpdateScale after the reduction",
                      "a history");
  }
  if (options.splits) return FieldError("splits", "none", "splits");
  const auto plan = MakeQuantizePlan(whole, options);
  if (!plan.ok()) return plan.status();
  return Grid{plan->rows(), plan->cols(),
              CutUnitsOf(std::get<QuantizeOptions>(plan->options()))};
}

absl::Status CheckCut(std::string_view field, int64_t begin, int64_t size,
                      int64_t whole, int64_t unit) {
  if (begin < 0 || size < 0 || begin > whole || size > whole - begin) {
    return FieldError(field, fmt::format("inside 0 to {}", whole),
                      fmt::format("offset {}, size {}", begin, size));
  }
  const auto legal = [&](int64_t cut) {
    return cut % unit == 0 || cut == whole;
  };
  if (legal(begin) && legal(begin + size)) return absl::OkStatus();
  return FieldError(field, fmt::format("cuts at multiples of {}", unit),
                    fmt::format("offset {}, size {}", begin, size));
}

absl::Status CheckShard(const Grid& grid, const Shard& shard) {
  if (auto s = CheckCut("shard.row", shard.row, shard.rows, grid.rows,
                        grid.unit.rows);
      !s.ok()) {
    return s;
  }
  return CheckCut("shard.column", shard.column, shard.cols, grid.cols,
                  grid.unit.cols);
}

// The grid of `whole`. Returns an error if the shard is not cut at its units.
absl::StatusOr<Grid> GridOfShard(const TensorDesc& whole,
                                 const QuantizeOptions& options,
                                 const Shard& shard) {
  auto grid = GridOf(whole, options);
  if (!grid.ok()) return grid.status();
  if (auto s = CheckShard(*grid, shard); !s.ok()) return s;
  return grid;
}

TensorDesc DescOf(const TensorDesc& whole, const Shard& shard) {
  return {whole.dtype, {shard.rows, shard.cols}};
}

// Whether the copies have a computed amax, on which all shards must agree.
bool Agrees(const QuantizeOptions& o) {
  const FormatSpec& format = *FindFormat(o.format);
  return HasAmax(format) && o.fp8.scale.empty() && o.usage != Usage::kNone;
}

// The maxima of a shard without elements.
CopyAmax Zeros(const QuantizeOptions& o, const Shard& shard) {
  const bool own = HasAmaxOfLines(*FindFormat(o.format), o.form);
  const auto count = [&](int64_t lines) {
    return static_cast<size_t>(own ? lines : 1);
  };
  CopyAmax amax;
  if (HasRowwise(o.usage)) amax.rowwise.resize(count(shard.rows));
  if (HasColumnwise(o.usage)) amax.columnwise.resize(count(shard.cols));
  return amax;
}

bool Empty(const Shard& shard) { return shard.rows == 0 || shard.cols == 0; }

// Sets the position of the shard's elements, for stochastic rounding.
QuantizeOptions PlacedIn(QuantizeOptions o, const Grid& grid,
                         const Shard& shard) {
  if (o.rounding != Rounding::kStochastic) return o;
  // The whole tensor may itself be a shard of a larger one.
  if (o.shard.total_columns == 0) {
    o.shard.total_columns = o.shard.column_offset + grid.cols;
  }
  o.shard.row_offset += shard.row;
  o.shard.column_offset += shard.column;
  return o;
}

QuantizeOptions ShardOptions(const QuantizeOptions& options, const Grid& grid,
                             const Shard& shard, const CopyAmax& amax) {
  QuantizeOptions o = options;
  o.rowwise_amax = amax.rowwise;
  o.columnwise_amax = amax.columnwise;
  if (Estimates(o)) {
    const auto estimate = [&](bool rotated, std::vector<float>* values) {
      if (!rotated) return;
      for (float& a : *values) a *= *o.nvfp4.amax_estimation_scale;
    };
    estimate(o.rht.rowwise, &o.rowwise_amax);
    estimate(o.rht.columnwise, &o.columnwise_amax);
    o.nvfp4.amax_estimation_scale.reset();
  }
  return PlacedIn(std::move(o), grid, shard);
}

// Reduces the contributions of shards for each line of the tensor.
class Lines {
 public:
  explicit Lines(int64_t count) : added_(static_cast<size_t>(count)) {}
  void Add(int64_t first, const std::vector<float>& values) {
    for (size_t i = 0; i < values.size(); ++i) {
      added_[static_cast<size_t>(first) + i].push_back(values[i]);
    }
  }
  void Reduce(const AmaxReduction& reduction) {
    for (std::vector<float>& line : added_) {
      if (!line.empty()) line = {reduction(line)};
    }
  }
  std::vector<float> Of(int64_t first, size_t count) const {
    std::vector<float> values;
    for (size_t i = 0; i < count; ++i) {
      values.push_back(added_[static_cast<size_t>(first) + i][0]);
    }
    return values;
  }

 private:
  std::vector<std::vector<float>> added_;
};

// Replaces each shard's contribution by the reduced amax.
void ReduceAll(const Grid& grid, bool by_line, const AmaxReduction& reduction,
               absl::Span<const PlacedShard> shards,
               std::vector<CopyAmax>* amaxes) {
  Lines rows(by_line ? grid.rows : 1);
  Lines cols(by_line ? grid.cols : 1);
  const auto row = [&](size_t i) { return by_line ? shards[i].shard.row : 0; };
  const auto column = [&](size_t i) {
    return by_line ? shards[i].shard.column : 0;
  };
  for (size_t i = 0; i < shards.size(); ++i) {
    rows.Add(row(i), (*amaxes)[i].rowwise);
    cols.Add(column(i), (*amaxes)[i].columnwise);
  }
  rows.Reduce(reduction);
  cols.Reduce(reduction);
  for (size_t i = 0; i < shards.size(); ++i) {
    CopyAmax& a = (*amaxes)[i];
    a.rowwise = rows.Of(row(i), a.rowwise.size());
    a.columnwise = cols.Of(column(i), a.columnwise.size());
  }
}

// Waits for every call, because their threads read the caller's memory.
absl::StatusOr<std::vector<Result>> WaitForAll(
    std::vector<std::future<absl::StatusOr<Result>>> futures) {
  std::vector<Result> results;
  absl::Status status;
  for (auto& future : futures) {
    auto result = future.get();
    status.Update(result.status());
    if (result.ok()) results.push_back(*std::move(result));
  }
  if (!status.ok()) return status;
  return results;
}

}  // namespace

float LargestAmax(absl::Span<const float> amaxes) {
  float largest = 0;
  for (const float a : amaxes) largest = LargerAmax(largest, a);
  return largest;
}

absl::StatusOr<CopyAmax> ShardAmax(Client& client, const TensorDesc& whole,
                                   const Shard& shard,
                                   const QuantizeOptions& options,
                                   const CallOptions& call) {
  const auto grid = GridOfShard(whole, options, shard);
  if (!grid.ok()) return grid.status();
  if (!Agrees(options)) return CopyAmax();
  if (Empty(shard)) return Zeros(options, shard);
  const auto result = client.RhtAmax(DescOf(whole, shard), shard.input,
                                     AmaxOptionsOf(options), call);
  if (!result.ok()) return result.status();
  return client::MaximaOf(options, *result);
}

absl::StatusOr<Result> QuantizeShard(Client& client, const TensorDesc& whole,
                                     const Shard& shard,
                                     const QuantizeOptions& options,
                                     const CopyAmax& amax,
                                     const CallOptions& call) {
  const auto grid = GridOfShard(whole, options, shard);
  if (!grid.ok()) return grid.status();
  return client.Quantize(DescOf(whole, shard), shard.input,
                         ShardOptions(options, *grid, shard, amax), call);
}

// State shared by a session and its call.
struct ShardSession::State {
  Client* client;
  TensorDesc whole;
  Shard shard;
  QuantizeOptions options;
  CallOptions call;
  // Converts the reduced amax to the amax to quantize with: estimates it if the
  // options say so.
  std::function<CopyAmax(const CopyAmax&)> given;

  // Null if there are no maxima to find; then Finish makes the only call.
  std::unique_ptr<client::Reduction> reduction;
  CancellationToken stop;
  std::optional<CancellationToken::Registration> callers;
  std::future<absl::StatusOr<Result>> result;

  std::mutex mutex;
  std::condition_variable changed;
  std::optional<absl::StatusOr<CopyAmax>> maxima;
  bool finished = false;

  void Tell(absl::StatusOr<CopyAmax> found) {
    const std::lock_guard lock(mutex);
    if (!maxima) maxima = std::move(found);
    changed.notify_all();
  }
};

ShardSession::ShardSession(std::unique_ptr<State> state)
    : state_(std::move(state)) {}
ShardSession::ShardSession(ShardSession&&) noexcept = default;
ShardSession& ShardSession::operator=(ShardSession&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}

ShardSession::~ShardSession() {
  if (state_ == nullptr || !state_->result.valid()) return;
  state_->stop.Cancel();
  state_->result.wait();
}

absl::StatusOr<ShardSession> ShardSession::Begin(Client& client,
                                                 const TensorDesc& whole,
                                                 const Shard& shard,
                                                 const QuantizeOptions& options,
                                                 const CallOptions& call) {
  const auto grid = GridOfShard(whole, options, shard);
  if (!grid.ok()) return grid.status();
  auto state = std::make_unique<State>();
  state->client = &client;
  state->whole = whole;
  state->shard = shard;
  state->options = options;
  state->call = call;
  state->given = [options, shard, grid = *grid](const CopyAmax& reduced) {
    const QuantizeOptions o = ShardOptions(options, grid, shard, reduced);
    return CopyAmax{o.rowwise_amax, o.columnwise_amax};
  };
  if (!Agrees(options) || Empty(shard)) {
    state->maxima = Agrees(options) ? Zeros(options, shard) : CopyAmax();
    return ShardSession(std::move(state));
  }
  // Estimates are applied when all maxima are known.
  QuantizeOptions found = options;
  if (MayEstimate(found) && !found.nvfp4.amax_estimation_scale) {
    found.nvfp4.amax_estimation_scale = 0;
  }
  auto plan = MakeQuantizePlan(DescOf(whole, shard),
                               PlacedIn(std::move(found), *grid, shard));
  if (!plan.ok()) return plan.status();
  State* const shared = state.get();
  state->reduction = std::make_unique<client::Reduction>(
      [shared](const CopyAmax& maxima) { shared->Tell(maxima); });
  CallOptions stoppable = call;
  stoppable.cancel = state->stop;
  if (call.cancel) {
    state->callers.emplace(*call.cancel, [shared] { shared->stop.Cancel(); });
  }
  state->result = client.RunReducedAsync(
      *std::move(plan), shard.input, stoppable, state->reduction.get(),
      [shared](const absl::Status& status) {
        // Maxima that were reported before are kept.
        shared->Tell(status.ok()
                         ? absl::InternalError("the call reported no maxima")
                         : status);
      });
  // A result this early means that the call failed or was never started.
  if (state->result.wait_for(std::chrono::seconds(0)) ==
      std::future_status::ready) {
    return state->result.get().status();
  }
  return ShardSession(std::move(state));
}

absl::StatusOr<CopyAmax> ShardSession::Maxima() {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return state_->maxima.has_value(); });
  return *state_->maxima;
}

absl::StatusOr<Result> ShardSession::Finish(const CopyAmax& reduced) {
  const auto maxima = Maxima();
  if (!maxima.ok()) return maxima.status();
  if (state_->finished) {
    return absl::FailedPreconditionError("the session has been finished");
  }
  state_->finished = true;
  if (state_->reduction == nullptr) {
    return QuantizeShard(*state_->client, state_->whole, state_->shard,
                         state_->options, reduced, state_->call);
  }
  state_->reduction->Answer(state_->given(reduced));
  return state_->result.get();
}

absl::StatusOr<std::vector<Result>> QuantizeShards(
    const TensorDesc& whole, absl::Span<const PlacedShard> shards,
    const QuantizeOptions& options, const AmaxReduction& reduction,
    const CallOptions& call_of_all) {
  // Shards do not report progress: each would report as if it were the whole.
  CallOptions call = call_of_all;
  call.progress = nullptr;
  const auto grid = GridOf(whole, options);
  if (!grid.ok()) return grid.status();
  for (const PlacedShard& p : shards) {
    if (auto s = CheckShard(*grid, p.shard); !s.ok()) return s;
  }
  std::vector<CopyAmax> amaxes(shards.size());
  if (Agrees(options)) {
    std::vector<std::future<absl::StatusOr<Result>>> futures;
    std::vector<size_t> asked;
    for (size_t i = 0; i < shards.size(); ++i) {
      amaxes[i] = Zeros(options, shards[i].shard);
      if (Empty(shards[i].shard)) continue;
      asked.push_back(i);
      futures.push_back(shards[i].client->RhtAmaxAsync(
          DescOf(whole, shards[i].shard), shards[i].shard.input,
          AmaxOptionsOf(options), call));
    }
    const auto results = WaitForAll(std::move(futures));
    if (!results.ok()) return results.status();
    for (size_t i = 0; i < asked.size(); ++i) {
      amaxes[asked[i]] = client::MaximaOf(options, (*results)[i]);
    }
    ReduceAll(*grid, HasAmaxOfLines(*FindFormat(options.format), options.form),
              reduction, shards, &amaxes);
  }
  std::vector<std::future<absl::StatusOr<Result>>> futures;
  for (size_t i = 0; i < shards.size(); ++i) {
    futures.push_back(shards[i].client->QuantizeAsync(
        DescOf(whole, shards[i].shard), shards[i].shard.input,
        ShardOptions(options, *grid, shards[i].shard, amaxes[i]), call));
  }
  return WaitForAll(std::move(futures));
}

}  // namespace quantd
