// The calls of one connection of the Python package. Knows nothing of Python.
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
  // The serialized reply without its payload; without the request's id where
  // that is beside it.
  std::string header;
  // The tensors of methods that give some.
  std::shared_ptr<const Result> result;
  int attempts = 1;
  std::string request_id;
};

// Thread-safe.
//
// A process that was forked from the one that opened it may use nothing here
// but `forked` and the destructor, which leaves all as it is: the threads of
// gRPC are gone there, and a wait for one would never end.
class Engine {
 public:
  // Errors are those of CreateClient.
  static absl::StatusOr<std::unique_ptr<Engine>> Open(
      std::string_view target, const ClientOptions& options);
  ~Engine();
  Engine(const Engine&) = delete;

  bool forked() const;
  // Whether this process was forked from one that had opened an engine, so that
  // none can be opened any more.
  static bool Inherited();

  // A call under way, which Close ends and waits for.
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

  // Makes a call, retries included; its options say no `cancel`, which is the
  // scope's. The memory of `header`, `payload` and `into` must stay as it is
  // meanwhile.
  absl::StatusOr<Answer> Call(const Scope& scope, wire::Method method,
                              std::string_view header,
                              absl::Span<const Bytes> payload,
                              CallOptions options);

  // Calls Client::TakeHost; CANCELLED once closed.
  absl::StatusOr<HostMemory> TakeHost(size_t bytes);
  // Whether calls take memory of a GPU.
  bool takes_device() const;
  // Lets the server know the allocation of a GPU's that has this address, which
  // a call will use. What it knows it keeps knowing, up to 32 of them, as long
  // as they are not freed.
  absl::Status Know(const std::byte* address);

  // Cancels the calls under way, waits for them, and lets go of connections.
  // Later calls are CANCELLED.
  void Close();
  bool closed() const;

 private:
  struct State;
  explicit Engine(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace quantd::python

#endif  // QUANTD_CLIENT_PYTHON_NATIVE_ENGINE_H_
