// The common parts of all attacks: target, duration, and connections that are
// replaced when the server ends them.
#ifndef QUANTD_TESTS_ATTACK_ASSAULT_H_
#define QUANTD_TESTS_ATTACK_ASSAULT_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "tests/attack/http2_peer.h"
#include "tests/attack/socket.h"

namespace quantd::attack {

class Assault {
 public:
  using Clock = Socket::Clock;

  // `largest_request` is the limit that the server reports.
  Assault(Target target, std::chrono::milliseconds time, size_t largest_request)
      : target_(std::move(target)),
        end_(Clock::now() + time),
        largest_request_(largest_request) {}

  const Target& target() const { return target_; }
  size_t largest_request() const { return largest_request_; }
  Clock::time_point end() const { return end_; }
  bool over() const { return Clock::now() >= end_; }
  // Sleeps for `time` or until the attack ends.
  void Sleep(std::chrono::milliseconds time) const;

  // Keeps `count` connections busy, each on its own thread. Each thread runs
  // `life` on new connections, one after the other.
  void OnConnections(int count, const Habits& habits,
                     const std::function<void(Http2Peer&)>& life);
  // Keeps connections busy in the same manner, without HTTP/2.
  void OnBareConnections(int count, const std::function<void(Socket&)>& life);
  // Waits while the connection and the attack last, and reads if the habits
  // allow it.
  void Hold(Http2Peer& peer) const;

  int connections() const { return connections_; }
  int failed_connections() const { return failed_connections_; }

 private:
  void Repeat(int count, const std::function<bool()>& once);

  const Target target_;
  const Clock::time_point end_;
  const size_t largest_request_;
  std::atomic<int> connections_ = 0;
  std::atomic<int> failed_connections_ = 0;
};

}  // namespace quantd::attack

#endif  // QUANTD_TESTS_ATTACK_ASSAULT_H_
