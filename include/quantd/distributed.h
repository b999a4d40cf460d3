// Quantization of a tensor whose shards lie on several machines. Data, scales
// and amax are, byte for byte, those that the whole tensor would have.
//
// The bytes of a block depend on its own elements, the tensor's amax and, under
// stochastic rounding, its position. So a shard that is cut between blocks gets
// the bytes of the whole if it is quantized with the amax of the whole and with
// its position:
//
//   quantd::Shard shard{.row = 4096, .rows = 2048, .cols = 8192, .input = x};
//   // 1. Each rank: the amax of its shard, from any server.
//   auto amax = quantd::ShardAmax(client, whole, shard, options);
//   // 2. Each rank: the caller's all-reduce with the operator max.
//   for (float& a : amax->rowwise) a = AllReduceMax(a);
//   for (float& a : amax->columnwise) a = AllReduceMax(a);
//   // 3. Each rank: quantize its shard with the reduced amax.
//   auto part = quantd::QuantizeShard(client, whole, shard, options, *amax);
//
// QuantizeShards does these steps for shards that one process holds. A
// ShardSession does them for one shard and sends it only once:
//
//   auto session = quantd::ShardSession::Begin(client, whole, shard, options);
//   auto amax = session->Maxima();
//   for (float& a : amax->rowwise) a = AllReduceMax(a);
//   for (float& a : amax->columnwise) a = AllReduceMax(a);
//   auto part = session->Finish(*amax);
//
// Shard boundaries: for a columnwise copy, rows are cut at multiples of the
// block and of the RHT dimension; for a rowwise copy, columns are cut at
// these multiples. Formats with square blocks are cut at multiples of the block
// in both dimensions. The last shard ends where the tensor ends. FP8 with one
// scale per tensor may be cut anywhere. A shard without elements contributes an
// amax of 0 and need not be sent.
//
// Formats without an amax (MX, FP8 block scaling) and delayed scaling, whose
// scale is given, need no reduction: step 1 returns an empty CopyAmax. Under
// delayed scaling the amax in a shard's Result is the amax of that shard:
// reduce it, and compute the next scale with UpdateScale of
// "quantd/delayed_scaling.h".
//
// An amax is estimated only if the options ask for it. The server's flag
// --estimate does not apply to shards.
//
// Values of dbias, statistics and QuantizeOptions::want_amax are those of the
// shard, not of the whole, and the scales of each shard are padded. Tensors
// with groups cannot be cut into shards (FieldError "splits"), but each group
// can. An amax that is not finite, from Inf in the input or from NaN under
// `propagate`, is refused.
//
// Each step consists of calls of Client, so it may be repeated and sent to any
// server: all servers compute the same amax, a value that is reduced twice does
// not change a maximum, and step 1 leaves no state on a server for step 3. All
// shards may share one Client of several servers, with max_in_flight raised to
// the number of calls to make at once.
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

// Rows [row, row + rows) and columns [column, column + cols) of the whole
// tensor's M x K matrix.
struct Shard {
  int64_t row = 0;
  int64_t column = 0;
  int64_t rows = 0;
  int64_t cols = 0;
  // rows x cols elements of the whole tensor's type, row-major, without gaps.
  // The caller keeps them valid, as for any call of Client.
  absl::Span<const std::byte> input;
};

// Finds a shard's contribution to the amax of the copies. `whole` and `options`
// describe the whole tensor and its quantization, and are the same for all
// shards. Errors are those of Client, and INVALID_ARGUMENT for a shard with an
// illegal cut ("shard.row" and so on) and for options that shards cannot have
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

// A shard that is sent once: the server keeps it until it receives the reduced
// amax. The shard is sent again, with the amax, if the reduction takes longer
// than the server's --max-receive-ms, if other calls need the memory, or if the
// server dies or its version is too old. A shard in shared memory takes two
// calls.
//
// A session counts as one of the client's ClientOptions::max_in_flight
// asynchronous calls. The deadline of `call` counts from Begin. If several
// ranks share a client, max_in_flight must be at least their number. The client
// must outlive the session.
//
// Threads: only one thread at a time may use a session.
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
  // Quantizes the shard. `reduced` is the result of Maxima after the reduction,
  // with the same number of values. May be called once; FAILED_PRECONDITION for
  // a second call.
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

// Quantizes all shards concurrently, and returns their Results in the same
// order. If a shard fails, returns its error after all calls have returned.
// CallOptions::progress is not called.
absl::StatusOr<std::vector<Result>> QuantizeShards(
    const TensorDesc& whole, absl::Span<const PlacedShard> shards,
    const QuantizeOptions& options,
    const AmaxReduction& reduction = LargestAmax, const CallOptions& call = {});

}  // namespace quantd

#endif  // QUANTD_DISTRIBUTED_H_
