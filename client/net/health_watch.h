// Watches servers' health with grpc.health.v1.Health/Watch.
#ifndef QUANTD_CLIENT_NET_HEALTH_WATCH_H_
#define QUANTD_CLIENT_NET_HEALTH_WATCH_H_

#include <grpcpp/channel.h>
#include <grpcpp/completion_queue.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_set>

#include "client/net/picker.h"

namespace quantd::client {

// Uses one thread for any number of servers. Thread-safe.
class HealthWatcher {
 public:
  HealthWatcher();
  // Ends all watches; no report comes afterwards.
  ~HealthWatcher();
  HealthWatcher(const HealthWatcher&) = delete;

  class Watch;

  // Called on the watcher's thread without locks. `why` is for people; it is
  // set with kDraining and kDown.
  using Report = std::function<void(Health health, const std::string& why)>;

  // Watches over `channel`, again after failures, until stopped. A server
  // without a health service counts as serving while it answers.
  Watch* Start(std::shared_ptr<grpc::Channel> channel, Report report);
  // Tries at once to reach a server that could not be reached.
  void Hurry(Watch* watch);
  // Does not wait: a report may still be in progress. `watch` becomes invalid.
  void Stop(Watch* watch);

 private:
  void Run();

  std::mutex mutex_;
  std::unordered_set<Watch*> watches_;  // not stopped
  int alive_ = 0;                       // including stopped ones
  bool closing_ = false;
  grpc::CompletionQueue queue_;
  std::thread thread_;  // the last member: it uses all of the above
};

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_NET_HEALTH_WATCH_H_
