// The native engine: makes the calls of one connection of the Python package.
// Does not depend on Python.
#ifndef QUANTD_CLIENT_PYTHON_NATIVE_ENGINE_H_
#define QUANTD_CLIENT_PYTHON_NATIVE_ENGINE_H_

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/python/native/request.h"
#include "proto/methods.h"
#include "quantd/buffers.h"
#include "quantd/call_options.h"
#include "quantd/cancellation.h"
#include "quantd/result.h"

namespace quantd::python {

// The outcome of a successful call.
struct Answer {
  // The serialized reply without its payload, and without the request id if
  // `request_id` has it.
  std::string header;
  // The output tensors. nullptr for methods that return none.
  std::shared_ptr<const Result> result;
  int attempts = 1;
  std::string request_id;
};

// Makes calls. Thread-safe.
//
// In a process forked from the one that opened the engine, only `forked` and
// the destructor may be used. There the destructor frees nothing: gRPC's
// threads do not exist, and waiting for them would never end.
class Engine {
 public:
  // Returns the errors of CreateClient.
  static absl::StatusOr<std::unique_ptr<Engine>> Open(
      std::string_view target, const ClientOptions& options);
  ~Engine();
  Engine(const Engine&) = delete;

  bool forked() const;
  // Whether this process was forked from one that had opened an engine. If so,
  // no engine can be opened here.
  static bool Inherited();

  // A call in progress. Close cancels it and waits for it.
  class Scope {
   public:
    Scope(Engine* engine, const CancellationToken& stop);
    ~Scope();
    Scope(const Scope&) = delete;

   private:
    friend class Engine;
    Engine* const engine_;
    const CancellationToken stop_;
  };

  // Makes a call with its retries. The token of `scope` replaces
  // `options.cancel`. During the call, `header` and `payload` must not change,
  // and nothing else may use the buffers in `options.into`.
  absl::StatusOr<Answer> Call(const Scope& scope, wire::Method method,
                              std::string_view header,
                              absl::Span<const Bytes> payload,
                              CallOptions options);

  // Calls Client::TakeHost. Returns CANCELLED if the engine is closed.
  absl::StatusOr<HostMemory> TakeHost(size_t bytes);
  // Whether calls accept GPU memory.
  bool takes_device() const;
  // Shares the GPU allocation that contains `address` with the server, for a
  // call that will use it. The 32 most recent allocations stay shared.
  absl::Status Know(const std::byte* address);

  // Cancels the calls in progress, waits for them, and closes the connections.
  // Later calls return CANCELLED.
  void Close();
  bool closed() const;

 private:
  struct State;
  explicit Engine(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace quantd::python

#endif  // QUANTD_CLIENT_PYTHON_NATIVE_ENGINE_H_
