// One tensor that lies in pieces on several machines, quantized so that its
// data, scales and amax are, byte for byte, those of the whole.
//
// The bytes of a block depend on its own elements, the tensor's amax and, under
// stochastic rounding, its position. So a shard that is cut between blocks
// gives the bytes of the whole if it is quantized with the amax of the whole
// and told its position:
//
//   quantd::Shard shard{.row = 4096, .rows = 2048, .cols = 8192, .input = x};
//   // 1. Everyone: the amax of the own shard, through any server.
//   auto amax = quantd::ShardAmax(client, whole, shard, options);
//   // 2. Everyone: the caller's own all-reduce; the largest wins.
//   for (float& a : amax->rowwise) a = AllReduceMax(a);
//   for (float& a : amax->columnwise) a = AllReduceMax(a);
//   // 3. Everyone: quantize the own shard with it.
//   auto part = quantd::QuantizeShard(client, whole, shard, options, *amax);
//
// QuantizeShards does the three for shards that one process holds. A session
// does them too, and sends the shard once:
//
//   auto session = quantd::ShardSession::Begin(client, whole, shard, options);
//   auto amax = session->Maxima();
//   for (float& a : amax->rowwise) a = AllReduceMax(a);
//   for (float& a : amax->columnwise) a = AllReduceMax(a);
//   auto part = session->Finish(*amax);
//
// Cuts. Rows are cut at multiples of the block and of the RHT dimension where a
// columnwise copy is made, columns where a rowwise one is; formats with square
// blocks at multiples of the block both ways. The last shard ends where the
// tensor ends. FP8 with one scale a tensor may be cut anywhere. A shard without
// elements contributes 0 and need not be sent anywhere.
//
// Formats without an amax (MX, FP8 block scaling) and delayed scaling, whose
// scale is given, need no reduction: step 1 gives nothing. Under delayed
// scaling the amax of a shard's Result is the shard's own: reduce it, and make
// the next scale with UpdateScale of "quantd/delayed_scaling.h".
//
// An amax is estimated only if the options ask for it; a server's --estimate
// does not apply to shards.
//
// Values of dbias, statistics and QuantizeOptions::want_amax are those of the
// shard, not of the whole, and each shard's scales end with padding. Grouped
// tensors have no shards (FieldError "splits"): a group is a tensor of its own.
// An amax that is not finite, from Inf in the input or from NaN under
// `propagate`, cannot be given and is refused.
//
// Each step is calls of Client, so it may be sent twice and to any server: the
// amax of a shard has the same bytes wherever it is computed, a maximum does
// not count a value twice, and step 1 leaves nothing on a server for step 3.
// All shards may share one Client of several servers, with max_in_flight raised
// to the number of calls that shall be under way at once.
//
// Threads: any number may call these functions at once.
#ifndef QUANTD_DISTRIBUTED_H_
#define QUANTD_DISTRIBUTED_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "quantd/client.h"
#include "quantd/options.h"
#include "quantd/plan.h"

namespace quantd {

// Rows [row, row + rows) and columns [column, column + cols) of the M x K
// matrix that the whole tensor is.
struct Shard {
  int64_t row = 0;
  int64_t column = 0;
  int64_t rows = 0;
  int64_t cols = 0;
  // rows x cols of the whole tensor's type, row-major, without gaps. The caller
  // keeps it valid, as for any call of Client.
  absl::Span<const std::byte> input;
};

// Finds a shard's contribution to the amax of the copies. `whole` describes the
// whole tensor, `options` how to quantize it; they are the same for all shards.
// Errors are those of Client, and INVALID_ARGUMENT for a shard with an illegal
// cut ("shard.row" and so on) and for options that shards cannot have
// ("given_amax", "history", "splits").
absl::StatusOr<CopyAmax> ShardAmax(Client& client, const TensorDesc& whole,
                                   const Shard& shard,
                                   const QuantizeOptions& options,
                                   const CallOptions& call = {});

// Quantizes a shard. `amax` is the result of ShardAmax after the reduction.
absl::StatusOr<Result> QuantizeShard(Client& client, const TensorDesc& whole,
                                     const Shard& shard,
                                     const QuantizeOptions& options,
                                     const CopyAmax& amax,
                                     const CallOptions& call = {});

// A shard that is sent once: the server keeps it until it gets the reduced
// amax. The shard is sent again, together with the amax, if that takes longer
// than the server waits for a message (its --max-receive-ms), if other calls
// need the memory, and if the server dies or is of an older version. A shard in
// shared memory takes two calls.
//
// A session is one asynchronous call of the client: it takes one of
// `max_in_flight`, and the deadline of `call` counts from Begin on. Ranks of
// one process that share a client need one each. The client must outlive the
// session.
//
// Threads: one at a time.
class ShardSession {
 public:
  // Sends the shard. Errors are those of ShardAmax that can be known at once.
  static absl::StatusOr<ShardSession> Begin(Client& client,
                                            const TensorDesc& whole,
                                            const Shard& shard,
                                            const QuantizeOptions& options,
                                            const CallOptions& call = {});
  ShardSession(ShardSession&& other) noexcept;
  ShardSession& operator=(ShardSession&& other) noexcept;
  // Cancels a session that is not finished, and waits for its end.
  ~ShardSession();

  // Waits for the shard's contribution to the amax.
  absl::StatusOr<CopyAmax> Maxima();
  // Quantizes the shard. May be called once. `reduced` is the result of Maxima
  // after the reduction, in the same sizes. FAILED_PRECONDITION after the first
  // time.
  absl::StatusOr<Result> Finish(const CopyAmax& reduced);

 private:
  struct State;
  explicit ShardSession(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Reduces the contributions of several shards to one amax.
using AmaxReduction = std::function<float(absl::Span<const float>)>;
// The largest value; NaN if any value is NaN, 0 for an empty span.
float LargestAmax(absl::Span<const float> amaxes);

struct PlacedShard {
  Client* client = nullptr;  // the client to quantize with; not null
  Shard shard;
};

// Quantizes all shards concurrently, and returns a Result for each in their
// order. Fails as a whole, after every call has returned. CallOptions::progress
// is not called.
absl::StatusOr<std::vector<Result>> QuantizeShards(
    const TensorDesc& whole, absl::Span<const PlacedShard> shards,
    const QuantizeOptions& options,
    const AmaxReduction& reduction = LargestAmax, const CallOptions& call = {});

}  // namespace quantd

#endif  // QUANTD_DISTRIBUTED_H_
