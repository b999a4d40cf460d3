// How a Client behaves, and how one call of it does.
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

// When a call is tried again: what servers refuse as unavailable or busy, until
// the deadline, after a backoff that grows and is random, and no earlier than
// the server asked for. The input is lent to the network for each attempt, not
// copied.
struct RetryPolicy {
  // Attempts of a call when servers cannot be reached or are draining, one
  // server or several. 1 turns off all retries, those after "busy" and those at
  // other servers, too. A busy server that says when to come back is asked
  // again until the deadline.
  int max_attempts = 4;
  std::chrono::milliseconds initial_backoff{50};
  std::chrono::milliseconds max_backoff{2000};
  double multiplier = 2.0;
};

// Devices of this process, as CreateClient of "quantd/local.h" opens them.
struct LocalOptions {
  // Memory that calls may use beside the caller's input and results, divided
  // among the devices. At least 16 MiB. 0 means a quarter of what this machine
  // or control group has, 8 GiB at most.
  size_t memory_budget = 0;
  // Calls that a device works on at once. 0: the device's own choice.
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
  // A call that carries more than this, and more than 4 MiB, each way is cut
  // into bands of rows of about this many bytes. Bands are calls of their own
  // over all connections to all servers, one on each at a time; the bytes, the
  // deadline and the cancellation are those of one call. A band is retried as
  // any call is; one that fails ends the call, whose message names its rows.
  // 0: no call is cut; else at least 256 KiB.
  //
  // Never cut: what lies in shared memory, fewer than 256 rows, groups, and
  // Quantize with dbias, statistics or a history. Parts in columns (transposed
  // codes and their scales) are copied once more, with memory for as many bands
  // as there are connections. An amax that must be computed is found by up to
  // eight streams that wait for each other, of larger bands where need be.
  // If these do not fit into half of a server's memory budget, or the server
  // is of an older version, every band is sent twice: give the amax where it is
  // known.
  size_t band_bytes = 0;

  // What is rarely needed.

  // Requests of this many bytes or more travel in chunks (rpc Stream); 0: all.
  // Requests larger than one message, or than the server takes as one, always
  // do, up to the server's memory; memory that is shared never does.
  size_t stream_from = SIZE_MAX;
  // Time that a call's thread spins for the answer, on a core of its own,
  // before it sleeps: waking an idle core takes 20 to 200 us. At most 100 ms.
  // Calls in chunks do not spin.
  std::chrono::microseconds busy_poll{0};
  // A connection is given up when the other side takes no byte for this long.
  std::chrono::milliseconds dead_peer_timeout{20'000};
  LocalOptions local = {};
};

// Memory that one part of a result is written to, exactly as large as the part.
struct Destination {
  TensorKind kind = TensorKind::kUnspecified;
  absl::Span<std::byte> bytes = {};
};

// Events that order a call on a GPU's memory and the caller's own work there,
// without the host waiting for either.
struct CallEvents {
  // An event that the call waits for before it reads an input: work queued
  // before the event was last recorded has then been done. It must not be
  // recorded again before the call has ended.
  const DeviceEvent* wait = nullptr;
  // An event that a successful call records once its outputs are written: work
  // that is queued behind the event after the call has returned sees them.
  const DeviceEvent* record = nullptr;

  bool any() const { return wait != nullptr || record != nullptr; }
};

// Hears how many of the input's bytes are done, all of them at the end of a
// call that succeeds. Called by one thread at a time, not always the caller's.
using CallProgress = std::function<void(size_t done, size_t all)>;

// The order in which calls wait for a server's memory. kHigh needs a token that
// allows it, else it counts as kNormal; kLow waits for all others, though not
// for ever.
enum class CallPriority { kNormal, kHigh, kLow };

struct CallOptions {
  // What decides whether the call succeeds.

  // Time from the call on, retries included; for asynchronous forms from the
  // moment the call is made. Zero: ClientOptions::deadline.
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

  // Only for a call in memory of AllocateDevice or RegisterDevice; events of
  // that GPU.
  CallEvents events = {};
  // Must not call the client, and must be quick: bands wait for it.
  CallProgress progress = {};
  // The trace that the call belongs to, as W3C Trace Context writes it
  // ("00-...-...-01"); servers log its ids with the call's own. Empty: none.
  std::string traceparent = {};
};

}  // namespace quantd

#endif  // QUANTD_CALL_OPTIONS_H_
