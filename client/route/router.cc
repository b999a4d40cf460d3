#include "client/route/router.h"

#include <algorithm>
#include <string>
#include <utility>

#include "client/bands/band_calls.h"
#include "client/call/error_details.h"
#include "client/memory/lending.h"
#include "client/tensors/result_builder.h"
#include "proto/limits.h"
#include "proto/memory/ranges.h"
#include "proto/wire.h"
#include "quantd.pb.h"
#include "quantd/field_error.h"

namespace quantd::client {
namespace {

// How often a call lends its memory: once, and again if the server no longer
// knows it.
constexpr int kLendings = 2;

// Whether the server refused the message because of its size.
bool IsTooLarge(const absl::Status& status) {
  const auto error = GetServerError(status);
  const auto violation = GetFieldViolation(status);
  return error && error->reason == ErrorReason::kTooLarge && violation &&
         violation->field == "request";
}

}  // namespace

Router::Router(Endpoint* endpoint, const ClientOptions& options)
    : endpoint_(*endpoint),
      band_bytes_(options.band_bytes),
      stream_from_(options.stream_from) {
  for (auto& bytes : most_in_message_) {
    bytes = wire::kMaxMessageBytes - wire::kMaxRequestHeadBytes;
  }
}

absl::StatusOr<Result> Router::Run(const Call& asked,
                                   const CallProgress& progress,
                                   size_t band_bytes) {
  std::atomic<size_t>& most =
      most_in_message_[wire::Index(wire::MethodOf(asked.plan))];
  RouteFacts facts{.plan = asked.plan,
                   .apart = CheckApart(asked.payload, asked.into).ok(),
                   .has_events = asked.events.any(),
                   .connections = endpoint_.connections(),
                   .stream_from = stream_from_,
                   .band_bytes = band_bytes,
                   .most_in_message = most};
  // Progress that an earlier attempt reported is not reported again.
  size_t told = 0;
  const CallProgress tell = [&](size_t done, size_t all) {
    if (done > told) progress(told = done, all);
  };
  bool of_device = false;
  std::optional<absl::Status> too_large;
  for (int losses = 0;;) {
    Lending lending;
    Call call = asked;
    call.lending = &lending;
    if (losses < kLendings) {
      lending = endpoint_.Lend(call);
    } else if (of_device) {
      lending.status = absl::UnavailableError(
          "GPU memory is no longer shared with the server");
    }
    if (!lending.status.ok()) {
      return Annotate(lending.status, std::string(lending.status.message()), 1);
    }
    of_device = lending.of_device;
    facts.memory = facts.connections == 0 ? CallMemory::kHere
                   : lending.any()        ? CallMemory::kLent
                                          : CallMemory::kTravels;
    const Route route = Choose(call, &facts);
    auto result = Follow(route, call, progress ? tell : progress);
    if (result.ok() && *result) return **std::move(result);
    const absl::Status status = result.status();
    if (status.ok()) {
      facts.has_finite_amax = false;
    } else if (route.way == Way::kLent && wire::IsUnknownName(status)) {
      ++losses;
    } else if (route.way == Way::kStream && facts.has_streams &&
               absl::IsUnimplemented(status)) {
      // The payload was already refused in one message, as too large.
      if (too_large) return *too_large;
      facts.has_streams = false;
    } else if (route.way == Way::kMessage && facts.has_streams &&
               route.bytes > 0 && IsTooLarge(status)) {
      too_large = status;
      facts.most_in_message = most = route.bytes - 1;
    } else {
      return status;
    }
  }
}

std::optional<ServerSettings> Router::SettingsOf(const Call& call) {
  constexpr std::chrono::seconds kFresh{10};
  const auto now = std::chrono::steady_clock::now();
  {
    const std::lock_guard lock(mutex_);
    if (settings_ && now - asked_ < kFresh) return settings_;
  }
  const auto info = Parsed<v1::GetServerInfoReply>(endpoint_.Ask(
      wire::Method::kGetServerInfo, "", call.limit, call.control));
  if (!info.ok()) return std::nullopt;
  const v1::Limits& limits = info->limits();
  ServerSettings settings = {limits.reduce_amax(),
                             limits.amax_estimation_scale()};
  for (const v1::Device& d : info->devices()) {
    if (d.state() != v1::Device::STATE_HEALTHY) continue;
    settings.memory.push_back(d.memory_limit_bytes());
  }
  const std::lock_guard lock(mutex_);
  asked_ = now;
  return settings_ = std::move(settings);
}

Route Router::Choose(const Call& call, RouteFacts* facts) {
  Route route = ChooseRoute(*facts);
  if (!route.asks) return route;
  facts->asked = true;
  facts->servers = SettingsOf(call);
  return ChooseRoute(*facts);
}

absl::StatusOr<std::optional<Result>> Router::Follow(
    const Route& route, const Call& call, const CallProgress& progress) {
  if (!route.bands.empty()) {
    return RunInBands({endpoint_, route.served ? *route.served : call.plan,
                       call, progress, route.bands, route.at_once, route.amax,
                       route.way});
  }
  auto result = endpoint_.Run(call, route.way, {});
  if (result.ok() && progress) progress(route.bytes, route.bytes);
  return result;
}

absl::StatusOr<Result> Router::RunReduced(const Call& call,
                                          Reduction& reduction) {
  const bool once = !call.events.any() &&
                    CheckApart(call.payload, call.into).ok() &&
                    !endpoint_.Lend(call).any();
  if (once) {
    auto result = endpoint_.RunReduced(call, reduction);
    if (result) return *std::move(result);
  }
  return RunInTwo(call, reduction,
                  [&](const Call& part) { return Run(part, {}, 0); });
}

}  // namespace quantd::client
