#include "server/observe/log_sampler.h"

namespace quantd {

bool LogSampler::Admit(LogLevel level, std::string_view event,
                       std::string_view kind, absl::Time now) {
  absl::MutexLock lock(&mutex_);
  Window& window = windows_
                       .try_emplace({std::string(event), std::string(kind)},
                                    Window{now, level, 0})
                       .first->second;
  if (++window.lines <= kLines) return true;
  ++repeated_;
  return false;
}

std::vector<LogSampler::Repeats> LogSampler::Close(absl::Time now) {
  std::vector<Repeats> repeats;
  absl::MutexLock lock(&mutex_);
  absl::erase_if(windows_, [&](const auto& entry) {
    const Window& window = entry.second;
    if (now < window.begin + kWindow) return false;
    if (window.lines > kLines) {
      repeats.push_back({window.level, entry.first.first, entry.first.second,
                         window.lines - kLines});
    }
    return true;
  });
  return repeats;
}

uint64_t LogSampler::repeated() const {
  absl::MutexLock lock(&mutex_);
  return repeated_;
}

}  // namespace quantd
