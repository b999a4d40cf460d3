// Lets the connections of a host in one by one.
//
// A host of which a connection had to be ended may come back at once, and each
// time what it brings before it is ended again costs others their time. So its
// new connections wait here, unread, for a turn: the host's first has it at
// once, then one each kEach. Who hangs up loses its place, and so does who says
// more than the beginning of a connection before it is answered; beyond kMost
// of a host the next is hung up on.
//
// Threads: of one thread.
#ifndef QUANTD_SERVER_TURNSTILE_H_
#define QUANTD_SERVER_TURNSTILE_H_

#include <cstddef>
#include <deque>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"

namespace quantd {

class Turnstile {
 public:
  static constexpr absl::Duration kEach = absl::Milliseconds(250);
  static constexpr size_t kMost = 64;

  struct Guest {
    int fd;         // a connected socket
    int listening;  // the one that it came by
  };

  Turnstile() = default;
  Turnstile(const Turnstile&) = delete;
  ~Turnstile();  // closes those who wait

  // Takes the guest's descriptor. False: too many wait already, and it is
  // closed.
  bool Enter(const std::string& host, Guest guest);
  // Those whose turn it is; their descriptors are the caller's.
  std::vector<Guest> Next(absl::Time now);
  bool empty() const { return lines_.empty(); }

 private:
  struct Line {
    std::deque<Guest> guests;
    absl::Time next = absl::InfinitePast();
  };
  // Of hosts that have somebody waiting, or had a turn less than kEach ago.
  absl::flat_hash_map<std::string, Line> lines_;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_TURNSTILE_H_
