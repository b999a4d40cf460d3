#include "server/net/turnstile.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace quantd {
namespace {

// Has hung up, or does not wait to be answered.
bool IsGone(int fd, const Turnstile::Pace& pace) {
  pollfd polled = {fd, POLLRDHUP, 0};
  int said = 0;
  return poll(&polled, 1, 0) > 0 ||
         (ioctl(fd, FIONREAD, &said) == 0 && said > pace.most_said);
}

}  // namespace

Turnstile::~Turnstile() {
  for (const auto& [host, line] : lines_) {
    for (const Guest& guest : line.guests) close(guest.fd);
  }
}

bool Turnstile::Enter(const std::string& host, const Pace& pace, Guest guest) {
  Line& line = lines_[host];
  line.pace = pace;
  if (line.guests.size() >= pace.most) {
    std::erase_if(line.guests, [&](const Guest& waiting) {
      return IsGone(waiting.fd, pace) && close(waiting.fd) == 0;
    });
  }
  if (line.guests.size() >= pace.most) {
    close(guest.fd);
    return false;
  }
  line.guests.push_back(guest);
  return true;
}

std::vector<Turnstile::Guest> Turnstile::Next(absl::Time now) {
  std::vector<Guest> in;
  absl::erase_if(lines_, [&](auto& entry) {
    Line& line = entry.second;
    const absl::Duration ahead = line.pace.each * (line.pace.at_once - 1);
    while (!line.guests.empty() && line.used_until <= now + ahead) {
      const Guest guest = line.guests.front();
      line.guests.pop_front();
      if (IsGone(guest.fd, line.pace)) {
        close(guest.fd);
        continue;
      }
      in.push_back(guest);
      line.used_until = std::max(line.used_until, now) + line.pace.each;
    }
    return line.guests.empty() && line.used_until <= now;
  });
  return in;
}

void ChurnWatch::Left(const std::string& host, absl::Time now) {
  absl::Time& until = until_[host];
  until = std::min(std::max(until, now) + kEach, now + kRemembered);
}

bool ChurnWatch::Churns(const std::string& host, absl::Time now) const {
  const auto found = until_.find(host);
  return found != until_.end() && found->second - now > kMany * kEach;
}

void ChurnWatch::Tidy(absl::Time now) {
  absl::erase_if(until_,
                 [&](const auto& entry) { return entry.second <= now; });
}

}  // namespace quantd
