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
  // Ends all watches. No report is made afterwards.
  ~HealthWatcher();
  HealthWatcher(const HealthWatcher&) = delete;

  class Watch;

  // Receives a server's health, on the watcher's thread and without locks held.
  // `why` explains kDraining and kDown in messages; it is empty otherwise.
  using Report = std::function<void(Health health, const std::string& why)>;

  // Watches the server of `channel` until Stop, with new attempts after
  // failures. A server without a health service counts as serving while it
  // answers.
  Watch* Start(std::shared_ptr<grpc::Channel> channel, Report report);
  // Ends the current pause: tries at once to reach a server that is down.
  void Hurry(Watch* watch);
  // Ends a watch without waiting: one report may still be running. `watch`
  // becomes invalid.
  void Stop(Watch* watch);

 private:
  void Run();

  std::mutex mutex_;
  std::unordered_set<Watch*> watches_;  // watches that were not stopped
  int alive_ = 0;                       // all watches not yet deleted
  bool closing_ = false;
  grpc::CompletionQueue queue_;
  std::thread thread_;  // last, because it uses the members above
};

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_NET_HEALTH_WATCH_H_
