// Makes the calls of one connection of the Python package. Independent of
// Python.
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

struct Answer {
  // The serialized reply without its payload, and without the request's id if
  // that is separate.
  std::string header;
  // The tensors, for methods that return some.
  std::shared_ptr<const Result> result;
  int attempts = 1;
  std::string request_id;
};

// Thread-safe.
//
// In a process forked from the one that opened it, only `forked` and the
// destructor may be used. The destructor then frees nothing: gRPC's threads do
// not exist there, and waiting for them would never end.
class Engine {
 public:
  // Errors are those of CreateClient.
  static absl::StatusOr<std::unique_ptr<Engine>> Open(
      std::string_view target, const ClientOptions& options);
  ~Engine();
  Engine(const Engine&) = delete;

  bool forked() const;
  // Whether this process was forked from one that had opened an engine, so that
  // none can be opened here.
  static bool Inherited();

  // A call in progress, which Close ends and waits for.
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

  // Makes a call, retries included. Its options must not have `cancel`, which
  // the scope provides. The memory of `header`, `payload` and `into` must not
  // change meanwhile.
  absl::StatusOr<Answer> Call(const Scope& scope, wire::Method method,
                              std::string_view header,
                              absl::Span<const Bytes> payload,
                              CallOptions options);

  // Calls Client::TakeHost; CANCELLED once closed.
  absl::StatusOr<HostMemory> TakeHost(size_t bytes);
  // Whether calls accept GPU memory.
  bool takes_device() const;
  // Shares the GPU allocation with this address with the server, for a call
  // that will use it. Up to 32 allocations stay shared until they are freed.
  absl::Status Know(const std::byte* address);

  // Cancels the calls in progress, waits for them, and closes connections.
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
