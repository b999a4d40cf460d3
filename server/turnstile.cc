#include "server/turnstile.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <utility>

namespace quantd {
namespace {

// Who has been promised nothing yet has little to say: the beginning of a
// connection, or of a handshake.
constexpr int kMostSaid = 16 << 10;

// Has hung up, or does not wait to be answered.
bool IsGone(int fd) {
  pollfd polled = {fd, POLLRDHUP, 0};
  int said = 0;
  return poll(&polled, 1, 0) > 0 ||
         (ioctl(fd, FIONREAD, &said) == 0 && said > kMostSaid);
}

}  // namespace

Turnstile::~Turnstile() {
  for (const auto& [host, line] : lines_) {
    for (const Guest& guest : line.guests) close(guest.fd);
  }
}

bool Turnstile::Enter(const std::string& host, Guest guest) {
  Line& line = lines_[host];
  if (line.guests.size() >= kMost) {
    std::erase_if(line.guests, [](const Guest& waiting) {
      return IsGone(waiting.fd) && close(waiting.fd) == 0;
    });
  }
  if (line.guests.size() >= kMost) {
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
    if (now < line.next) return false;
    while (!line.guests.empty()) {
      const Guest guest = line.guests.front();
      line.guests.pop_front();
      if (IsGone(guest.fd)) {
        close(guest.fd);
        continue;
      }
      in.push_back(guest);
      line.next = now + kEach;
      return false;
    }
    return true;
  });
  return in;
}

}  // namespace quantd
