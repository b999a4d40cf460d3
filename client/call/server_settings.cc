#include "client/call/server_settings.h"

namespace quantd::client {

std::optional<ServerSettings> KnownSettings::Learn(
    absl::FunctionRef<absl::StatusOr<ServerInfo>()> ask) {
  constexpr std::chrono::seconds kFresh{10};
  const auto now = std::chrono::steady_clock::now();
  {
    const std::lock_guard lock(mutex_);
    if (known_ && now - asked_ < kFresh) return known_;
  }
  const auto info = ask();
  if (!info.ok()) return std::nullopt;
  const std::lock_guard lock(mutex_);
  asked_ = now;
  known_ = {info->reduces_amax, info->amax_estimation_scale, {}};
  for (const DeviceInfo& d : info->devices) {
    if (d.healthy) known_->memory.push_back(d.memory_limit_bytes);
  }
  return known_;
}

}  // namespace quantd::client
