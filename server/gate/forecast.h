// How long work that comes now would take, by what was done lately.
//
// Work is bytes of requests. Not thread-safe: the ledger's lock guards it.
#ifndef QUANTD_SERVER_GATE_FORECAST_H_
#define QUANTD_SERVER_GATE_FORECAST_H_

#include "absl/time/time.h"

namespace quantd {

class Forecast {
 public:
  // Who ends later than in this part of his time is as good as late: the answer
  // has a way to go.
  static constexpr double kPunctual = 0.9;
  // What a call costs beside its bytes.
  static constexpr double kOfCall = 32 << 10;

  // A message is here; its job is over, well or not.
  void Begins(double work, absl::Time now);
  void Ends(double work, bool served, absl::Time now);
  // Of what has begun and is not over.
  double backlog() const { return backlog_; }
  // What is left of that, by what is done a second: half of it at least, or
  // what stands still would be taken for done.
  double Left(absl::Time now) const;

  // How long so much work takes; nothing is known at first: then none.
  absl::Duration TimeFor(double work) const;
  bool known() const { return rate_ > 0; }
  double rate() const { return rate_; }  // bytes a second

  // The part of the time until a deadline that what is foreseen may take. What
  // is foreseen is never what happens: it is as much as lets few be late, and
  // is learned of those who were nearly refused because of it.
  double part() const { return part_; }
  void Learn(bool late);

 private:
  double rate_ = 0;
  double part_ = 0.8;
  double backlog_ = 0;
  int begun_ = 0;
  absl::Time busy_since_ = absl::InfinitePast();
  // Since the last sample.
  absl::Duration busy_ = absl::ZeroDuration();
  double served_ = 0;
  int calls_ = 0;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_GATE_FORECAST_H_
