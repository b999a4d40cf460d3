// quantd._native: the C++ client as an engine of the Python package.
// client/python/quantd/engines/native_engine.py documents it for users.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/python/native/buffers.h"
#include "client/python/native/engine.h"
#include "client/python/native/interrupt.h"
#include "client/python/native/reply.h"
#include "quantd/allocator.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace quantd::python {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr char kForked[] =
    "this process was forked from one that uses the native engine, and threads "
    "do not survive a fork: start processes with \"spawn\" or \"forkserver\", "
    "or connect in the child with engine=\"grpc\"";

[[noreturn]] void Raise(const nb::object& error) {
  PyErr_SetObject(error.type().ptr(), error.ptr());
  throw nb::python_error();
}

[[noreturn]] void Raise(const absl::Status& status) {
  const Failure failure = FailureOf(status);
  const nb::object detail =
      failure.detail.empty()
          ? nb::none()
          : nb::object(nb::bytes(failure.detail.data(), failure.detail.size()));
  Raise(nb::module_::import_("quantd.errors")
            .attr("from_status")(failure.code, failure.message, detail,
                                 "request_id"_a = failure.request_id,
                                 "attempts"_a = failure.attempts));
}

[[noreturn]] void RaiseForked() {
  Raise(nb::module_::import_("quantd.errors").attr("Forked")(kForked));
}

void CheckSignals() {
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

// Whether this is the thread on which Python runs signal handlers.
bool OnMainThread() {
  static const unsigned long main = nb::cast<unsigned long>(
      nb::module_::import_("threading").attr("main_thread")().attr("ident"));
  return PyThread_get_thread_ident() == main;
}

milliseconds Milliseconds(double seconds) {
  // Times above a month become a month, which is as good as no limit. The
  // result is at least 1, because 0 stands for the connection's default.
  return milliseconds(static_cast<int64_t>(
      std::clamp(std::ceil(seconds * 1e3), 1.0, 30.0 * 24 * 3600 * 1000)));
}

// The buffers of one call.
struct Memory {
  std::list<Borrowed> borrowed;
  std::vector<Bytes> payload;
  std::vector<Destination> into;
  nb::dict targets;  // buffers for outputs, by TensorKind

  Memory(const nb::sequence& buffers, const nb::dict& destinations)
      : targets(destinations) {
    for (const nb::handle buffer : buffers) {
      payload.push_back(borrowed.emplace_back(buffer, false).bytes());
    }
    for (const auto& [kind, buffer] : destinations) {
      into.push_back({static_cast<TensorKind>(nb::cast<int32_t>(kind)),
                      borrowed.emplace_back(buffer, true).bytes()});
    }
  }
};

nb::object View(const nb::object& object) {
  return nb::steal(PyMemoryView_FromObject(object.ptr()));
}

// Returns the fields of quantd.engines.engine.Reply, in order. An output in GPU
// memory is given as the number of its TensorKind.
nb::tuple ToPython(const Answer& answer, const nb::dict& targets) {
  nb::list parts;
  if (answer.result != nullptr) {
    for (const TensorSpec& spec : answer.result->parts()) {
      const nb::int_ kind(static_cast<int>(spec.kind));
      const bool placed = targets.contains(kind);
      if (placed && nb::isinstance<nb::tuple>(nb::object(targets[kind]))) {
        parts.append(kind);
      } else if (placed) {
        const nb::object view = View(targets[kind]);
        parts.append(spec.size == 0 ? view : view.attr("cast")("B"));
      } else {
        parts.append(View(
            nb::cast(Part{answer.result, answer.result->bytes(spec.kind)})));
      }
    }
  }
  const std::string way = answer.result == nullptr
                              ? ""
                              : std::string(Name(answer.result->transport()));
  const int bands = answer.result == nullptr ? 1 : answer.result->bands();
  const bool streamed = answer.result != nullptr && answer.result->streamed();
  return nb::make_tuple(nb::bytes(answer.header.data(), answer.header.size()),
                        parts, answer.attempts, way, bands, streamed,
                        answer.request_id);
}

// Reports a call's progress to a Python function, on any thread of the client.
// An exception in the function cancels the call. Create, use and destroy it
// with the GIL held.
class Teller {
 public:
  explicit Teller(nb::object function) : function_(std::move(function)) {}

  CallProgress OrNone(const CancellationToken& stop) {
    if (function_.is_none()) return {};
    return [this, stop](size_t done, size_t all) {
      const nb::gil_scoped_acquire hold;
      if (raised_) return;
      try {
        function_(done, all);
      } catch (nb::python_error& error) {
        raised_ = std::make_unique<nb::python_error>(error);
        stop.Cancel();
      }
    };
  }
  void Raise() {
    if (raised_) throw nb::python_error(*raised_);
  }

 private:
  const nb::object function_;
  std::unique_ptr<nb::python_error> raised_;
};

std::string Optional(const std::optional<std::string>& text) {
  return text.value_or("");
}

CallPriority PriorityByName(const std::string& name) {
  if (name == "high") return CallPriority::kHigh;
  if (name == "low") return CallPriority::kLow;
  if (name == "normal") return CallPriority::kNormal;
  throw nb::value_error("unknown priority");
}

// Makes a call. `timeout` is in seconds; None means the connection's default.
nb::tuple Call(Engine& engine, const std::string& method,
               const nb::bytes& header, const nb::sequence& payload,
               const nb::dict& into, std::optional<double> timeout,
               const CancellationToken* cancel, const nb::object& progress,
               const std::optional<std::string>& traceparent,
               const std::string& priority) {
  if (engine.forked()) RaiseForked();
  const auto known = MethodByName(method);
  if (!known) throw nb::value_error("unknown method");
  const std::string_view head(header.c_str(), header.size());
  const Memory memory(payload, into);
  Teller teller(progress);
  const Clock::time_point start = Clock::now();
  for (;;) {
    milliseconds left{0};
    if (timeout) {
      const std::chrono::duration<double> spent = Clock::now() - start;
      if (*timeout - spent.count() <= 0) {
        Raise(absl::DeadlineExceededError("the call has no time left"));
      }
      left = Milliseconds(*timeout - spent.count());
    }
    const CancellationToken stop;
    std::optional<CancellationToken::Registration> link;
    if (cancel != nullptr) link.emplace(*cancel, [&] { stop.Cancel(); });
    std::optional<InterruptWatch> watch;
    if (OnMainThread()) {
      watch.emplace(stop);
      CheckSignals();  // handles signals that came before the watch
    }
    absl::StatusOr<Answer> answer;
    const CallOptions options{.deadline = left,
                              .into = memory.into,
                              .priority = PriorityByName(priority),
                              .progress = teller.OrNone(stop),
                              .traceparent = Optional(traceparent)};
    {
      const Engine::Scope scope(&engine, stop);
      const nb::gil_scoped_release release;
      absl::Status lent;
      for (const Borrowed& b : memory.borrowed) {
        if (!b.on_device() || b.bytes().empty()) continue;
        lent.Update(engine.Know(b.bytes().data()));
      }
      answer = lent.ok()
                   ? engine.Call(scope, *known, head, memory.payload, options)
                   : absl::StatusOr<Answer>(lent);
    }
    const bool interrupted = watch && watch->interrupted();
    watch.reset();
    teller.Raise();
    if (interrupted) {
      CheckSignals();
      // The signal's handler returned without an exception, so the call is
      // repeated.
      if (absl::IsCancelled(answer.status()) && !engine.closed() &&
          (cancel == nullptr || !cancel->cancelled())) {
        continue;
      }
    }
    if (!answer.ok()) Raise(answer.status());
    return ToPython(*answer, memory.targets);
  }
}

// Opens an engine. `settings` is a quantd.engines.engine.Settings.
std::unique_ptr<Engine> Open(const nb::object& settings) {
  if (Engine::Inherited()) RaiseForked();
  const auto text = [](const nb::object& from, const char* name) {
    return Optional(
        nb::cast<std::optional<std::string>>(nb::object(from.attr(name))));
  };
  const auto time = [](const nb::object& from, const char* name) {
    return Milliseconds(nb::cast<double>(nb::object(from.attr(name))));
  };
  ClientOptions options;
  options.channels = nb::cast<int>(nb::object(settings.attr("channels")));
  options.band_bytes =
      nb::cast<size_t>(nb::object(settings.attr("band_bytes")));
  options.stream_from =
      nb::cast<std::optional<size_t>>(nb::object(settings.attr("stream_from")))
          .value_or(options.stream_from);
  options.deadline = time(settings, "deadline");
  options.dead_peer_timeout = time(settings, "dead_peer_timeout");
  options.busy_poll = std::chrono::microseconds(std::llround(
      1e6 * nb::cast<double>(nb::object(settings.attr("busy_poll")))));
  const nb::object retry = settings.attr("retry");
  options.retry.max_attempts =
      nb::cast<int>(nb::object(retry.attr("max_attempts")));
  options.retry.initial_backoff = time(retry, "initial_backoff");
  options.retry.max_backoff = time(retry, "max_backoff");
  options.retry.multiplier =
      nb::cast<double>(nb::object(retry.attr("multiplier")));
  Credentials& credentials = options.credentials;
  options.memory_socket = text(settings, "memory_socket");
  credentials.token = text(settings, "token");
  credentials.token_file = text(settings, "token_file");
  if (const nb::object tls = settings.attr("tls"); !tls.is_none()) {
    credentials.tls = true;
    credentials.ca_file = text(tls, "ca");
    credentials.certificate_file = text(tls, "cert");
    credentials.key_file = text(tls, "key");
    credentials.server_name = text(tls, "server_name");
  }
  const auto target =
      nb::cast<std::string>(nb::object(settings.attr("target")));
  absl::StatusOr<std::unique_ptr<Engine>> engine;
  {
    const nb::gil_scoped_release release;
    engine = Engine::Open(target, options);
  }
  if (!engine.ok()) Raise(engine.status());
  return *std::move(engine);
}

HostMemory TakeHost(Engine& engine, size_t bytes) {
  if (engine.forked()) RaiseForked();
  absl::StatusOr<HostMemory> memory;
  {
    const nb::gil_scoped_release release;
    memory = engine.TakeHost(bytes);
  }
  if (!memory.ok()) Raise(memory.status());
  return *std::move(memory);
}

void Close(Engine& engine) {
  if (engine.forked()) return;
  const nb::gil_scoped_release release;
  engine.Close();
}

}  // namespace

NB_MODULE(_native, module) {
  // Objects that exist when the interpreter ends are not leaks.
  nb::set_leak_warnings(false);
  BindPart(module);
  BindMemory(module);
  nb::class_<CancellationToken>(module, "Token", "Cancels calls.")
      .def(nb::init<>())
      .def("cancel", &CancellationToken::Cancel,
           nb::call_guard<nb::gil_scoped_release>());
  nb::class_<Engine>(module, "Engine", "Makes the calls of one connection.")
      .def(nb::new_(&Open), "settings"_a)
      .def("call", &Call, "method"_a, "header"_a, "payload"_a, "into"_a,
           "timeout"_a.none(), "cancel"_a.none(),
           "progress"_a.none() = nb::none(),
           "traceparent"_a.none() = nb::none(), "priority"_a = "normal")
      .def("memory", &TakeHost, "bytes"_a)
      .def_prop_ro("takes_device", &Engine::takes_device)
      .def("close", &Close);
  module.def("tune_allocator", &TuneAllocatorForBulkTransfers);
}

}  // namespace quantd::python
