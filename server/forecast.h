// When work that comes now would be done, by what was done lately; and when
// those who are refused shall come again.
//
// Whoever is refused is promised a time, each so much later than the one before
// as his work takes; those of one share follow each other, so that nobody's
// refusals put off another's return for long. Who comes back at his time goes
// before those who come anew, whose share of the server shrinks by as much as
// promises are kept: so a time that was told is right while everybody comes
// back, and costs nothing where nobody does.
//
// Work is bytes of requests. Not thread-safe: the ledger's lock guards it.
#ifndef QUANTD_SERVER_FORECAST_H_
#define QUANTD_SERVER_FORECAST_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"

namespace quantd {

class Forecast {
 public:
  // What a call costs beside its bytes.
  static constexpr double kOfCall = 32 << 10;
  // Promises reach no further.
  static constexpr absl::Duration kHorizon = absl::Seconds(30);
  static constexpr size_t kMostPromises = 16384;

  // A message is here; its job is over, well or not.
  void Begins(double work, absl::Time now);
  void Ends(double work, bool served, absl::Time now);
  // Of what has begun and is not over.
  double backlog() const { return backlog_; }

  // How long so much work takes; nothing is known at first: then none.
  absl::Duration TimeFor(double work) const;
  bool known() const { return rate_ > 0; }
  double rate() const { return rate_; }  // bytes a second

  // Of promises, what is to be expected until then.
  double Expected(absl::Time now, absl::Time until) const;
  // Whether the share was promised this time. It is kept then.
  bool Redeem(const std::string& share, absl::Time now);
  // When work of that share shall come again, not before `earliest`.
  absl::Duration Promise(const std::string& share, double work,
                         absl::Duration earliest, absl::Time now);
  size_t promises() const { return promises_.size(); }
  double kept() const { return kept_; }

 private:
  struct Share {
    absl::Time next = absl::InfinitePast();  // not before that
    size_t promises = 0;
  };
  struct Given {
    double work;
    std::string share;
  };
  using Promises = std::multimap<absl::Time, Given>;

  void CloseSample();
  void Expire(absl::Time now);
  void Drop(Promises::iterator promise);

  double rate_ = 0;
  double backlog_ = 0;
  int begun_ = 0;
  absl::Time busy_since_ = absl::InfinitePast();
  // Since the last sample.
  absl::Duration busy_ = absl::ZeroDuration();
  double served_ = 0;
  int calls_ = 0;

  Promises promises_;
  // Of those that have promises.
  absl::flat_hash_map<std::string, Share> shares_;
  double kept_ = 0.5;  // part of the promises that were, lately
};

}  // namespace quantd

#endif  // QUANTD_SERVER_FORECAST_H_
