// One tensor that lies in pieces on several machines, quantized so that its
// data, scales and amax are, byte for byte, those of the whole.
//
// A block knows nothing of other blocks but for the tensor's amax and, under
// stochastic rounding, its place. So a shard gives the bytes of the whole when
// it is cut between blocks, quantized with the amax of the whole, and told
// where it lies:
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
// Cuts: rows at multiples of the block and of the RHT dimension where a
// columnwise copy is made, columns likewise where a rowwise one is; formats
// with square blocks at multiples of the block both ways. The last shard ends
// where the tensor ends. FP8 with one scale a tensor may be cut anywhere.
// A shard without elements contributes 0 and need not be sent anywhere.
//
// Formats without an amax (MX, FP8 block scaling) and delayed scaling, whose
// scale is given, need no reduction: step 1 answers with nothing. Under
// delayed scaling the amax of a shard's Result is the shard's own: reduce it,
// and make the next scale with UpdateScale of quantd/delayed_scaling.h.
//
// Estimates are made where the options say so, and nowhere else: a server's own
// --estimate does not count for shards.
//
// What is not of the whole: dbias, statistics and QuantizeOptions::amax are the
// shard's own, and padding is at the end of every shard's scales. Not for
// grouped tensors (FieldError "splits"): a group is a tensor of its own. An
// amax that is not finite, from Inf in the input or from NaN under `propagate`,
// cannot be given and is refused.
//
// Each step is calls of Client, so it may be sent twice and to any server: the
// amax of a shard has the same bytes wherever it is computed, a maximum does
// not count one value twice, and nothing of step 1 stays on a server for step
// 3. All shards may share one Client of several servers, with max_in_flight
// raised to as many calls as shall be under way at once.
//
// Threads: all functions may be called from many at once.
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
  // rows x cols of the whole tensor's type, row-major, without gaps. Stays the
  // caller's, as of any call of Client.
  absl::Span<const std::byte> input;
};

// CopyAmax (kernels/plan/shards.h) is what a shard adds to the amax of the
// copies; of the whole after a reduction. One value or, where row_scaled or of
// FP8 channels, one for each of the shard's rows and of its columns.

// `whole` describes the whole tensor, `options` how to quantize it; they are
// the same for all shards. Errors: those of Client, and INVALID_ARGUMENT for a
// shard that is cut where it must not be ("shard.row" and so on) and for
// options that shards cannot have ("given_amax", "history", "splits").
absl::StatusOr<CopyAmax> ShardAmax(Client& client, const TensorDesc& whole,
                                   const Shard& shard,
                                   const QuantizeOptions& options,
                                   const CallOptions& call = {});

// `amax`: what ShardAmax gave, reduced.
absl::StatusOr<Result> QuantizeShard(Client& client, const TensorDesc& whole,
                                     const Shard& shard,
                                     const QuantizeOptions& options,
                                     const CopyAmax& amax,
                                     const CallOptions& call = {});

// A shard that is sent once: the server keeps it until the reduced amax is
// there. Where that takes longer than it waits for any message (its
// --max-receive-ms), where others want the memory, or where it dies, the shard
// is sent once more, with the amax; so it is where the server is of an older
// version, and works in two calls for what does not travel.
//
// All of it is one asynchronous call of the client: of `max_in_flight` it takes
// one, and its deadline is over when that of `call` is, from Begin on. Ranks of
// one process that share a client need as many. The client must outlive it.
//
// Threads: one at a time.
class ShardSession {
 public:
  // Sends the shard. Errors: as of ShardAmax where they can be known at once.
  static absl::StatusOr<ShardSession> Begin(Client& client,
                                            const TensorDesc& whole,
                                            const Shard& shard,
                                            const QuantizeOptions& options,
                                            const CallOptions& call = {});
  ShardSession(ShardSession&& other) noexcept;
  ShardSession& operator=(ShardSession&& other) noexcept;
  // Cancels what is not finished, and waits for it.
  ~ShardSession();

  // Waits for what the shard adds to the amax.
  absl::StatusOr<CopyAmax> Maxima();
  // Once. `reduced`: as of QuantizeShard, in the sizes that Maxima gave.
  // FAILED_PRECONDITION when it is done.
  absl::StatusOr<Result> Finish(const CopyAmax& reduced);

 private:
  struct State;
  explicit ShardSession(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// From what several shards add to one amax to that amax.
using AmaxReduction = std::function<float(absl::Span<const float>)>;
// 0 of none; NaN where one of them is.
float LargestAmax(absl::Span<const float> amaxes);

struct PlacedShard {
  Client* client = nullptr;  // where it is worked on; not null
  Shard shard;
};

// All shards at once, one Result each in their order. Fails as a whole, and
// only after every call has come back. CallOptions::progress is not told.
absl::StatusOr<std::vector<Result>> QuantizeShards(
    const TensorDesc& whole, absl::Span<const PlacedShard> shards,
    const QuantizeOptions& options,
    const AmaxReduction& reduction = LargestAmax, const CallOptions& call = {});

}  // namespace quantd

#endif  // QUANTD_DISTRIBUTED_H_
