// Lets the connections of a host in one by one.
//
// Every connection costs a handshake, and what it brings before it is judged:
// of a host that dials and leaves and dials again, or that stalls, the time of
// all others. So its new connections wait here, unread, for a turn: some at
// once, then one each so often. Who hangs up loses its place.
//
// Threads: of one thread.
#ifndef QUANTD_SERVER_NET_TURNSTILE_H_
#define QUANTD_SERVER_NET_TURNSTILE_H_

#include <cstddef>
#include <deque>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"

namespace quantd {

class Turnstile {
 public:
  struct Pace {
    absl::Duration each;  // from one turn to the next
    int at_once;          // turns of a host that had none for long
    size_t most;          // wait at once; the next is hung up on
    int most_said;        // who says more before its turn loses its place
  };
  // Of any host: six hundred handshakes at once would be felt by all.
  static constexpr Pace kUsual = {absl::Milliseconds(5), 64, 1024, 1 << 20};
  // Of a host that churns. Some clients send a window of their first request
  // before they are answered.
  static constexpr Pace kChurning = {absl::Milliseconds(20), 16, 256, 1 << 20};
  // Of a host that is distrusted.
  static constexpr Pace kDistrusted = {absl::Milliseconds(50), 16, 64, 1 << 20};
  // Of a host that brought more than is lawful. Who has been promised nothing
  // has little to say: the beginning of a connection, or of a handshake.
  static constexpr Pace kOutlawed = {absl::Milliseconds(250), 1, 64, 16 << 10};

  struct Guest {
    int fd;         // a connected socket
    int listening;  // the one that it came by
  };

  Turnstile() = default;
  Turnstile(const Turnstile&) = delete;
  ~Turnstile();  // closes those who wait

  // Takes the guest's descriptor. All who wait of the host go by `pace` from
  // now on. False: too many wait already, and the descriptor is closed.
  bool Enter(const std::string& host, const Pace& pace, Guest guest);
  // Those whose turn it is; their descriptors are the caller's.
  std::vector<Guest> Next(absl::Time now);
  bool empty() const { return lines_.empty(); }

 private:
  struct Line {
    std::deque<Guest> guests;
    Pace pace = kOutlawed;
    // When the turns that were had would have been over, had each come when
    // the one before it was.
    absl::Time used_until = absl::InfinitePast();
  };
  // Of hosts that have somebody waiting, or turns that are not over.
  absl::flat_hash_map<std::string, Line> lines_;
};

// Which hosts have connections that come and go, and never take a whole reply.
//
// Threads: of one at a time.
class ChurnWatch {
 public:
  static constexpr int kMany = 64;  // at once; then one each kEach
  static constexpr absl::Duration kEach = absl::Milliseconds(100);
  static constexpr absl::Duration kRemembered = absl::Seconds(10);

  // Such a connection of the host has ended.
  void Left(const std::string& host, absl::Time now);
  bool Churns(const std::string& host, absl::Time now) const;
  // Forgets those of whom nothing is left to be said. To be called at times.
  void Tidy(absl::Time now);

 private:
  // When those that left would have, had each waited kEach for the next.
  absl::flat_hash_map<std::string, absl::Time> until_;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_NET_TURNSTILE_H_
