// When those who were refused may come again: a time of its own for each.
//
// Who is told the same time as all others comes back with them, and is refused
// with them. So the server keeps the times that it has given, and gives the
// next one when the work of those before it will be done. Each share has a line
// of its own that goes as fast as its part of the server, so that nobody pushes
// the times of others far away, however often he is refused. Who brings his
// ticket at his time goes before those who have none.
//
// A time that nobody keeps holds nothing: what a share is expected to bring is
// what it was given times the part of its times that it has kept of late.
//
// Not thread-safe: the ledger's lock guards it.
#ifndef QUANTD_SERVER_GATE_APPOINTMENTS_H_
#define QUANTD_SERVER_GATE_APPOINTMENTS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/node_hash_map.h"
#include "absl/time/time.h"

namespace quantd {

class Appointments {
 public:
  // None is given for later, nor more than so many at once in all and to one
  // share: as many as are done until then, a thousand a second and more. Who
  // gets none is told the farthest time, and all who are told it come at once.
  static constexpr absl::Duration kFarthest = absl::Seconds(30);
  static constexpr size_t kMost = 65536;
  static constexpr size_t kMostOfShare = kMost / 2;

  struct Given {
    absl::Time time;
    uint64_t ticket = 0;  // none: whoever comes then comes like any other
  };

  // The same as who is refused is told it.
  struct Turn {
    absl::Duration delay;
    uint64_t ticket = 0;
  };

  Appointments();
  // For one that will bring `work`, not before `earliest`. `rate`: of work
  // that is done a second.
  Given Give(const std::string& share, double work, double rate,
             absl::Time earliest, absl::Time now);
  // Whether it is his time, or near enough. The ticket is used up.
  bool Keep(const std::string& share, uint64_t ticket, absl::Time now);
  // The same of one who says that he comes again, and has no ticket.
  bool KeepAny(const std::string& share, absl::Time now);
  // Work that is still expected of those whose time has come or will within
  // so long.
  double Expected(absl::Duration within, absl::Time now);
  size_t size() const { return by_time_.size(); }

 private:
  struct Share {
    absl::Time next = absl::InfinitePast();  // when its line has gone
    size_t given = 0;
    double kept = 1;  // the part that it keeps
  };
  struct Entry {
    double work;
    const std::string* name;
    Share* share;
  };
  using Times = std::map<std::pair<absl::Time, uint64_t>, Entry>;

  void Expire(absl::Time now);
  // Shares that have times and keep some, looked up now and then.
  void CountLines(absl::Time now);
  void Take(Times::iterator at, bool kept);

  Times by_time_;
  absl::flat_hash_map<uint64_t, absl::Time> by_ticket_;
  absl::node_hash_map<std::string, Share> shares_;
  int lines_ = 0;
  absl::Time counted_ = absl::InfinitePast();
  uint64_t next_ticket_;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_GATE_APPOINTMENTS_H_
