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

// Retries of calls that servers refuse as unavailable or busy. A call is
// retried until its deadline, after a random backoff that grows, and no earlier
// than the server asked for. The input is lent to the network for each attempt,
// not copied.
struct RetryPolicy {
  // Attempts of a call while servers cannot be reached or are draining, over
  // all servers. 1 turns off all retries, including those after "busy" and at
  // other servers. Otherwise a busy server that says when to come back is asked
  // again until the deadline.
  int max_attempts = 4;
  std::chrono::milliseconds initial_backoff{50};
  std::chrono::milliseconds max_backoff{2000};
  double multiplier = 2.0;
};

// Devices of this process, as CreateClient of "quantd/local.h" opens them.
struct LocalOptions {
  // Memory that calls may use in addition to the caller's input and results,
  // divided among the devices. At least 16 MiB. 0 means a quarter of what this
  // machine or control group has, 8 GiB at most.
  size_t memory_budget = 0;
  // Calls that a device works on at once. 0: a default of the device.
  int slots = 0;
  // Threads of a CPU device. 0: one for each core.
  int threads = 0;
};

// None of these changes the bytes of a result.
struct ClientOptions {
  // What decides whether a call succeeds.

  // The deadline of calls that set none of their own.
  std::chrono::milliseconds deadline{30'000};
  // TLS and a token; neither by default.
  Credentials credentials = {};
  RetryPolicy retry = {};

  // What decides how fast calls are.

  // The --memory-socket of a server on this host: memory of AllocateHost and
  // RegisterHost is shared with it. Only with a target of one address. Empty:
  // no memory is shared.
  std::string memory_socket = {};
  // Connections to each server; a call takes the one with the fewest bytes
  // under way.
  int channels = 2;
  // Asynchronous calls at once; the next one blocks its caller.
  int max_in_flight = 4;
  // A call that carries more than this, and more than 4 MiB, in each direction
  // is cut into bands of rows of about this many bytes. Each band is sent as a
  // call of its own, on all connections to all servers, one on each at a time;
  // result, deadline and cancellation are those of a single call. A band is
  // retried like any call; if one fails, the call fails with a message that
  // names the rows. 0: no call is cut; else at least 256 KiB.
  //
  // Never cut: calls in shared memory, with fewer than 256 rows or with groups,
  // and Quantize with dbias, statistics or a history. Columnwise parts
  // (transposed codes and their scales) are copied once more, in memory for one
  // band for each connection. If an amax must be computed, up to eight streams
  // wait for each other, with larger bands if necessary. If these do not fit
  // into half of a server's memory budget, or the server is of an older
  // version, every band is sent twice; so give the amax if it is known.
  size_t band_bytes = 0;

  // What is rarely needed.

  // Requests of this many bytes or more are sent in chunks (rpc Stream); 0:
  // all. Requests that are too large for one message always are, up to the
  // server's memory; requests in shared memory never are.
  size_t stream_from = SIZE_MAX;
  // Time that a call's thread spins for the reply before it sleeps: waking an
  // idle core takes 20 to 200 us. It occupies a core meanwhile. At most 100 ms.
  // Calls in chunks do not spin.
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

// Events that order a call in GPU memory relative to the caller's own work
// there, without the host waiting for either.
struct CallEvents {
  // An event that the call waits for before it reads an input. Work queued
  // before the event was last recorded is then done. It must not be recorded
  // again before the call has ended.
  const DeviceEvent* wait = nullptr;
  // An event that a successful call records once its outputs are written: work
  // that is queued behind the event after the call has returned sees them.
  const DeviceEvent* record = nullptr;

  bool any() const { return wait != nullptr || record != nullptr; }
};

// Receives the number of input bytes that are done; all of them at the end of a
// call that succeeds. Called by one thread at a time, not always the caller's.
using CallProgress = std::function<void(size_t done, size_t all)>;

// The order in which calls wait for a server's memory. kHigh needs a token that
// allows it, else it counts as kNormal; kLow waits for all others, but not
// forever.
enum class CallPriority { kNormal, kHigh, kLow };

struct CallOptions {
  // What decides whether the call succeeds.

  // Time limit of the call, including retries; it counts from the moment the
  // call is made, also for asynchronous calls. Zero: ClientOptions::deadline.
  std::chrono::milliseconds deadline{0};
  std::optional<CancellationToken> cancel = std::nullopt;

  // What decides how fast the call is.

  // Memory of the caller that parts are written to; the Result views these
  // parts and owns the others. Their content is unspecified after an error. A
  // part may overlap the input that it is made of, unless the call goes in
  // chunks (INVALID_ARGUMENT); such a call is not cut into bands.
  std::vector<Destination> into = {};
  CallPriority priority = CallPriority::kNormal;

  // What is rarely needed.

  // Only for calls in memory of AllocateDevice or RegisterDevice; the events
  // must be of that GPU.
  CallEvents events = {};
  // Must not call the client, and must be quick: bands wait for it.
  CallProgress progress = {};
  // The trace that the call belongs to, as W3C Trace Context writes it
  // ("00-...-...-01"); servers log its ids with the call's own. Empty: none.
  std::string traceparent = {};
};

}  // namespace quantd

#endif  // QUANTD_CALL_OPTIONS_H_
