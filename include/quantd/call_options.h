// Options of a Client, and of a single call.
#ifndef QUANTD_CALL_OPTIONS_H_
#define QUANTD_CALL_OPTIONS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "quantd/buffers.h"
#include "quantd/cancellation.h"
#include "quantd/credentials.h"
#include "quantd/format.h"

namespace quantd {

// How calls are retried when a server is unavailable or busy. Retries end at
// the call's deadline. The random backoff before a retry grows, and is never
// shorter than the delay that the server asked for. No attempt copies the
// input.
struct RetryPolicy {
  // The largest number of attempts, over all servers, while servers are
  // unreachable or draining. 1 turns off all retries, including those after
  // "busy" and at other servers. Otherwise a call that a server refuses as
  // busy, with a retry delay, is retried until the deadline.
  int max_attempts = 4;
  std::chrono::milliseconds initial_backoff{50};
  std::chrono::milliseconds max_backoff{2000};
  double multiplier = 2.0;
};

// How CreateClient of "quantd/local.h" opens devices of this process.
struct LocalOptions {
  // Memory that calls may use in addition to the caller's input and results,
  // divided among the devices. At least 16 MiB. 0: a quarter of the memory of
  // this machine or control group, at most 8 GiB.
  size_t memory_budget = 0;
  // The number of calls that a device runs at once. 0: the device's default.
  int slots = 0;
  // The number of threads of a CPU device. 0: one for each core.
  int threads = 0;
};

// Options of a Client. None of them changes the bytes of a result.
struct ClientOptions {
  // Options that decide whether a call succeeds.

  // The deadline of calls whose CallOptions set none.
  std::chrono::milliseconds deadline{30'000};
  // TLS and a bearer token. By default neither is used.
  Credentials credentials = {};
  RetryPolicy retry = {};

  // Options that decide how fast calls are.

  // The path given as --memory-socket to a server on this host. Memory from
  // AllocateHost and RegisterHost is shared with that server. The target must
  // be a single address. Empty: no memory is shared.
  std::string memory_socket = {};
  // The number of connections to each server. A call takes the one with the
  // fewest bytes under way.
  int channels = 2;
  // The largest number of asynchronous calls at once. A further call blocks its
  // caller.
  int max_in_flight = 4;
  // The size of the bands that a large call is cut into: at least 256 KiB, or
  // 0, which cuts no call. A call is cut into bands of rows if its input or its
  // output exceeds both this size and 4 MiB. Each band is sent as a call of its
  // own. The bands use all connections to all servers, up to two bands per
  // connection at a time. The caller sees one call with one result, deadline
  // and cancellation. A band is retried like any call. If a band fails, the
  // call fails with a message that names the band's rows.
  //
  // These calls are never cut: calls in shared memory, calls with at most 128
  // rows or with groups, Quantize with dbias, statistics or a history, and
  // Dequantize that keeps the rotation. Columnwise parts (transposed codes and
  // their scales) are copied once more, through a buffer of two bands per
  // connection. If an amax must be computed, there are at most eight bands,
  // which may be larger than band_bytes, and each waits for the maxima of all
  // others. If these bands do not fit into half of a server's memory budget, or
  // the server's version is too old, every band is sent twice. So give the amax
  // if it is known.
  size_t band_bytes = 0;

  // Options that are rarely needed.

  // Requests of this many bytes or more are sent in chunks (rpc Stream). 0: all
  // requests are. Requests that are too large for one message are always sent
  // in chunks, and may be as large as the server's memory allows. Bands of 8
  // MiB or more are sent in chunks, too, requests in shared memory never.
  size_t stream_from = SIZE_MAX;
  // The time that a call's thread spins for the reply before it sleeps, at most
  // 100 ms. Spinning occupies a core, but saves the 20 to 200 us that waking an
  // idle core takes. Calls in chunks do not spin.
  std::chrono::microseconds busy_poll{0};
  // Closes a connection when the other side accepts no byte for this long.
  std::chrono::milliseconds dead_peer_timeout{20'000};
  LocalOptions local = {};
};

// Memory for one part of a result, exactly as large as the part.
struct Destination {
  TensorKind kind = TensorKind::kUnspecified;
  absl::Span<std::byte> bytes = {};
};

// GPU events that order a call in GPU memory relative to the caller's own GPU
// work. No CPU thread waits for them.
struct CallEvents {
  // An event that the call waits for before it reads an input. All work queued
  // before the event was last recorded is then done. The event must not be
  // recorded again before the call has ended.
  const DeviceEvent* wait = nullptr;
  // An event that a successful call records once its outputs are written. Work
  // that the caller queues behind the event after the call has returned sees
  // the outputs.
  const DeviceEvent* record = nullptr;

  bool any() const { return wait != nullptr || record != nullptr; }
};

// Receives the number of input bytes that are done, and their total. A
// successful call ends with `done` equal to `all`. Called by one thread at a
// time, which need not be the caller's.
using CallProgress = std::function<void(size_t done, size_t all)>;

// The order in which calls wait for a server's memory. kHigh counts as kNormal
// unless the client's token allows it. kLow waits for all other calls, but not
// forever.
enum class CallPriority { kNormal, kHigh, kLow };

struct CallOptions {
  // Options that decide whether the call succeeds.

  // The time limit of the call, including retries. It counts from the moment
  // the call is made, also for asynchronous calls. Zero:
  // ClientOptions::deadline.
  std::chrono::milliseconds deadline{0};
  std::optional<CancellationToken> cancel = std::nullopt;

  // Options that decide how fast the call is.

  // The caller's memory for parts of the result. The Result views these parts
  // and owns all others. After an error the content of this memory is
  // unspecified. A part may overlap the input: the call is then not cut into
  // bands, and fails with INVALID_ARGUMENT if it is sent in chunks.
  std::vector<Destination> into = {};
  CallPriority priority = CallPriority::kNormal;

  // Options that are rarely needed.

  // GPU events, for calls in memory from AllocateDevice or RegisterDevice only.
  // The events must belong to the GPU of that memory.
  CallEvents events = {};
  // Must not call the client, and must be quick, since bands wait for it.
  CallProgress progress = {};
  // The trace that the call belongs to, in the form of W3C Trace Context
  // ("00-...-...-01"). Servers log the trace's ids with the id of the call.
  // Empty: no trace.
  std::string traceparent = {};
};

}  // namespace quantd

#endif  // QUANTD_CALL_OPTIONS_H_
