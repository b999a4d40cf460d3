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

struct RetryPolicy {
  // Times a call is tried when servers cannot be reached or are draining, one
  // or several; 1 switches retries off, those after "busy" and those elsewhere
  // too. A busy server that says when to come back is asked again until the
  // deadline.
  int max_attempts = 4;
  std::chrono::milliseconds initial_backoff{50};
  std::chrono::milliseconds max_backoff{2000};
  double multiplier = 2.0;
};

// Of a client that works in this process, as Client::Create opens it for
// "local".
struct LocalOptions {
  // Memory that calls may use beside the caller's input and results, divided
  // among the devices. 0: a quarter of what this machine or control group has,
  // 8 GiB at most. At least 16 MiB.
  size_t memory_budget = 0;
  // Calls that a device works on at once. 0: the device's own choice.
  int slots = 0;
  // Threads of a CPU device. 0: one for each core.
  int threads = 0;
};

struct ClientOptions {
  // Connections to each server; a call takes the one with the fewest bytes
  // under way.
  int channels = 2;
  // For calls that bring none of their own.
  std::chrono::milliseconds deadline{30'000};
  // Asynchronous calls at once; the next one blocks its caller.
  int max_in_flight = 4;
  RetryPolicy retry = {};
  // A connection whose other side takes no byte for so long is given up.
  std::chrono::milliseconds dead_peer_timeout{20'000};
  // TLS and a token; neither by default.
  Credentials credentials = {};
  // Of a server on this host, its --memory-socket: memory of
  // Client::AllocateHost and RegisterHost is shared with it. Only with a target
  // of one address. Empty: none is shared.
  std::string memory_socket = {};
  // Calls whose request would have so many bytes travel in chunks (rpc Stream),
  // 0: all of them. What is larger than one message or than the server takes as
  // one always does, up to the server's memory. Not what lies in shared memory.
  size_t stream_from = SIZE_MAX;
  // Calls that carry more than this, and than 4 MiB, each way are cut into
  // bands of rows of about so many bytes, which are calls of their own over all
  // connections to all servers, one on each at a time. The bytes are those of
  // one call. 0: no call is cut; else at least 256 KiB. Not cut is what lies in
  // shared memory, fewer than 256 rows, groups, and Quantize with dbias,
  // statistics or a history. For an amax that is
  // computed up to eight streams at once meet, of larger bands where need be;
  // where all of them do not fit into half of a server's memory budget, or it
  // is of an older version, every band is sent twice: give the amax where it is
  // known.
  size_t band_bytes = 0;
  // How long the thread of a call looks for its answer, on a core of its own,
  // before it sleeps: to be woken takes an idle core 20 to 200 us. At most
  // 100 ms. Not of calls in chunks.
  std::chrono::microseconds busy_poll{0};
  LocalOptions local = {};
};

// Where one part of a result shall be written; exactly the size that part has.
struct Destination {
  TensorKind kind = TensorKind::kUnspecified;
  absl::Span<std::byte> bytes = {};
};

// Events by which a call on a GPU's memory and the caller's own work there come
// one after the other, without the host waiting for either.
struct CallEvents {
  // What the caller queued before it last recorded this one has been done
  // before the call reads an input; until then the call waits. Not to be
  // recorded again before the call has ended.
  const DeviceEvent* wait = nullptr;
  // Recorded by a call that ends well, once its outputs are there: what is
  // queued behind this one after the call has returned comes after them.
  const DeviceEvent* record = nullptr;

  bool any() const { return wait != nullptr || record != nullptr; }
};

// Told how many of the input's bytes are done; of a call that ends well in the
// end all of them. By one thread at a time, not always that of the caller.
using CallProgress = std::function<void(size_t done, size_t all)>;

// Who goes first where calls wait for a server's memory. kHigh needs a token
// that may, or is as kNormal; kLow waits for all others, though not for ever.
enum class CallPriority { kNormal, kHigh, kLow };

struct CallOptions {
  // From the call on, retries included; for asynchronous forms from the
  // moment the call is made. Zero: ClientOptions::deadline.
  std::chrono::milliseconds deadline{0};
  std::optional<CancellationToken> cancel = std::nullopt;
  // Parts to be written into the caller's memory; the Result views them there
  // and owns the others. After an error their content is unspecified. A part
  // may take the place of what it is made of, but not where the call goes in
  // chunks (INVALID_ARGUMENT), and no such call is cut into bands.
  std::vector<Destination> into = {};
  // Only of a call that works in memory of AllocateDevice or RegisterDevice,
  // and of its GPU.
  CallEvents events = {};
  // Must not call the client, and must be quick: bands wait for it.
  CallProgress progress = {};
  // The trace that the call belongs to, as W3C Trace Context writes it
  // ("00-...-...-01"): servers log its ids with the call's own. Empty: none.
  std::string traceparent = {};
  CallPriority priority = CallPriority::kNormal;
};

}  // namespace quantd

#endif  // QUANTD_CALL_OPTIONS_H_
