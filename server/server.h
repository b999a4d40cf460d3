// The server: opens the devices, binds the address, serves, and stops without
// losing an accepted call.
//
// Threads: Start and Drain block; everything else may be used from any thread.
#ifndef QUANTD_SERVER_SERVER_H_
#define QUANTD_SERVER_SERVER_H_

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <atomic>
#include <deque>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/calls/call_environment.h"
#include "server/observe/http_listener.h"

namespace quantd {

class Server {
 public:
  // Returns once it serves. INVALID_ARGUMENT if Validate or ServerCredentials
  // refuse the options, NOT_FOUND for a missing device, UNAVAILABLE if the
  // address cannot be used.
  static absl::StatusOr<std::unique_ptr<Server>> Start(
      const ServerOptions& options);
  // Starts with the caller's devices instead of options.devices. Each pool must
  // have room for what DivideBudget gives a device.
  static absl::StatusOr<std::unique_ptr<Server>> StartWith(
      const ServerOptions& options,
      std::vector<std::unique_ptr<Backend>> backends);
  // Drains without delay unless it was drained before.
  ~Server();

  // The address that clients dial: "127.0.0.1:50151".
  const std::string& address() const { return address_; }
  // The address of the metrics; empty without options.metrics_address.
  std::string metrics_address() const {
    return http_ ? http_->address() : std::string();
  }
  const MemoryShares& shares() const { return env_.shares; }
  void LogDevices() const;
  ServerCredentials& credentials() const { return *env_.credentials; }
  const Gate& gate() const { return *env_.gate; }
  const CallRegistry& calls() const { return env_.registry; }
  const Acceptor& connections() const { return *env_.acceptor; }
  const QueueThreads& queue_threads() const { return env_.queue_threads; }
  // Null without options.memory_socket.
  const MemoryDoor* memory_door() const { return env_.door.get(); }

  // Stops the server: health says NOT_SERVING; after `delay` new calls are
  // refused; accepted calls finish, or are cancelled after
  // options.drain_timeout; then the server shuts down. Returns whether no
  // accepted call was cancelled and all memory came back. Peers that do not
  // take what they are sent are cut off. A device whose jobs do not end is not
  // waited for, and gRPC only for a short time: see `stuck`.
  bool Drain(absl::Duration delay);
  // After Drain: a job, a self-test or gRPC hangs, and the destructor would
  // wait for it. The process must exit without destroying the server.
  bool stuck() const { return stuck_; }
  // Whether the server has been without a device for options.most_without, so
  // that the process should be restarted.
  bool wants_restart() const { return wants_restart_; }

 private:
  Server(const ServerOptions& options,
         std::vector<std::unique_ptr<Backend>> backends, MemoryShares shares,
         int fallback, std::unique_ptr<ServerCredentials> credentials);
  absl::Status Listen();
  void AddQueues(grpc::ServerBuilder& builder);
  void ArmCalls();
  absl::Status ListenForMetrics();
  absl::Status ListenForMemory();
  HttpReply AnswerHttp(std::string_view path) const;
  bool EndGrpc();
  bool AwaitCalls();
  void FinishDrain(bool finished);

  std::string address_;
  std::atomic<bool> wants_restart_{false};
  // Outlives calls and queues.
  CallEnvironment env_;
  GateThread gate_thread_;
  std::vector<std::unique_ptr<grpc::ServerCompletionQueue>> queues_;
  std::vector<std::unique_ptr<grpc::ServerCompletionQueue>> stream_queues_;
  std::deque<QueueUsers> streams_;  // users of stream_queues_
  std::unique_ptr<grpc::Server> grpc_;
  std::future<void> grpc_end_;
  bool drained_ = false;
  bool drained_well_ = false;
  bool stuck_ = false;
  // Last, so that it is destroyed first: it reads everything else.
  std::unique_ptr<HttpListener> http_;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_SERVER_H_
