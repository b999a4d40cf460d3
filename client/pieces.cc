#include "quantd/pieces.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <utility>
#include <variant>
#include <vector>

#include "client/tensors/copy_window.h"
#include "client/tensors/piece_join.h"
#include "client/tensors/piece_work.h"
#include "fmt/format.h"
#include "kernels/plan/amax_source.h"
#include "kernels/plan/shards.h"
#include "quantd/field_error.h"

namespace quantd {
namespace {

using client::Allocate;
using client::Cut;
using client::ForEach;
using client::Join;
using client::Read;
using client::Room;

void Tell(const PieceOptions& pieces, size_t bytes) {
  if (pieces.progress) pieces.progress(bytes);
}

// Calls `run` once for all `bytes`, and reports progress as calls in pieces do.
template <typename Run>
absl::StatusOr<Result> InOneCall(const PieceOptions& pieces,
                                 const CallOptions& call, size_t bytes,
                                 Run run) {
  size_t told = 0;
  CallOptions one = call;
  one.progress = [&](size_t done, size_t all) {
    if (call.progress) call.progress(done, all);
    const size_t more = std::min(done, bytes) - told;
    told += more;
    Tell(pieces, more);
  };
  auto result = run(one);
  Tell(pieces, bytes - told);
  return result;
}

// The options of a piece's call. The caller's `progress` is left out, because
// it is for a single call.
CallOptions OfPiece(CallOptions call) {
  call.progress = nullptr;
  return call;
}

// Refuses options that a tensor sent in pieces cannot have. `limit` is in
// bytes.
absl::Status CheckOptions(const QuantizeOptions& o, const CallOptions& call,
                          size_t limit) {
  const std::string why = fmt::format(
      "none: the tensor exceeds a request of {} bytes and is sent in pieces",
      limit);
  if (o.splits) return FieldError("splits", why, "splits");
  if (o.fp8.history) return FieldError("history", why, "a history");
  if (o.dbias) return FieldError("dbias", why, "dbias");
  if (!call.into.empty()) return FieldError("into", why, "destinations");
  return absl::OkStatus();
}

// The amax of the whole tensor: the values that the caller gave, or else the
// maximum over all pieces. `given_all` is true if no piece must be asked.
absl::StatusOr<CopyAmax> AmaxOfPieces(
    const Plan& plan, bool given_all, const std::vector<Shard>& cut,
    int at_once,
    const std::function<absl::StatusOr<CopyAmax>(const Shard&)>& amax_of) {
  CopyAmax whole = NoMaxima(plan);
  if (!given_all) {
    std::mutex mutex;
    const auto status = ForEach(cut, at_once, [&](const Shard& piece) {
      const auto amax = amax_of(piece);
      if (!amax.ok()) return amax.status();
      const std::lock_guard lock(mutex);
      Raise(absl::MakeSpan(whole.rowwise), piece.row, amax->rowwise);
      Raise(absl::MakeSpan(whole.columnwise), piece.column, amax->columnwise);
      return absl::OkStatus();
    });
    if (!status.ok()) return status;
  }
  SettleAmax(plan, &whole);
  for (const auto* amax : {&whole.rowwise, &whole.columnwise}) {
    for (const float a : *amax) {
      if (std::isfinite(a)) continue;
      return FieldError("payload",
                        "finite values in a tensor that is sent in pieces",
                        "an amax of NaN or Inf");
    }
  }
  return whole;
}

std::vector<float> Slice(const std::vector<float>& amax, int64_t first,
                         int64_t count) {
  if (amax.size() <= 1) return amax;
  return {amax.begin() + first, amax.begin() + first + count};
}

}  // namespace

absl::StatusOr<Result> QuantizeInPieces(Client& client,
                                        const TensorDesc& tensor,
                                        const TensorReader& input,
                                        const QuantizeOptions& options,
                                        const PieceOptions& pieces,
                                        const CallOptions& call) {
  const auto plan = MakeQuantizePlan(tensor, options);
  if (!plan.ok()) return plan.status();
  if (plan->input_bytes() <= Room(pieces)) {
    const auto bytes = Read(client, input, plan->input_bytes());
    if (!bytes.ok()) return bytes.status();
    return InOneCall(
        pieces, call, plan->input_bytes(), [&](const CallOptions& one) {
          return client.Quantize(tensor, bytes->bytes(), options, one);
        });
  }
  const auto& used = std::get<QuantizeOptions>(plan->options());
  const size_t limit = pieces.request_bytes;
  if (auto s = CheckOptions(used, call, limit); !s.ok()) return s;
  const CallOptions each = OfPiece(call);
  const size_t element = SizeOf(tensor.dtype);
  const auto cut = Cut(*plan, element, pieces,
                       HasAmaxOfLines(*FindFormat(used.format), used.form));
  if (!cut.ok()) return cut.status();

  QuantizeOptions open = used;  // without the given values
  open.rowwise_amax.clear();
  open.columnwise_amax.clear();
  const bool agree = HasAmax(*FindFormat(used.format)) &&
                     used.fp8.scale.empty() && used.usage != Usage::kNone;
  const bool given = !SourceOfAmax(used, /*columnwise=*/false).computed() &&
                     !SourceOfAmax(used, /*columnwise=*/true).computed();
  std::mutex mutex;
  const auto load = [&](Shard* piece) -> absl::StatusOr<HostMemory> {
    auto bytes = Read(client, input, plan->cols(), element, *piece);
    if (bytes.ok()) piece->input = bytes->bytes();
    return bytes;
  };
  // If the amax is computed, each of the two passes counts for half of the
  // work.
  const auto tell = [&](const Shard& piece, bool first) {
    const size_t bytes = static_cast<size_t>(piece.rows * piece.cols) * element;
    const size_t half = agree && !given ? bytes / 2 : 0;
    const std::lock_guard lock(mutex);
    Tell(pieces, first ? half : bytes - half);
  };
  CopyAmax amax;
  if (agree) {
    auto all = AmaxOfPieces(*plan, given, *cut, pieces.at_once,
                            [&](Shard piece) -> absl::StatusOr<CopyAmax> {
                              const auto bytes = load(&piece);
                              if (!bytes.ok()) return bytes.status();
                              auto found =
                                  ShardAmax(client, tensor, piece, open, each);
                              tell(piece, /*first=*/true);
                              return found;
                            });
    if (!all.ok()) return all.status();
    amax = *std::move(all);
  }
  // The amax of every copy is known from here on.
  QuantizeOptions settled = open;
  settled.nvfp4.amax_estimation_scale.reset();
  Join join(*plan);
  if (auto s = join.Begin(); !s.ok()) return s;
  const auto status = ForEach(*cut, pieces.at_once, [&](Shard piece) {
    const auto bytes = load(&piece);
    if (!bytes.ok()) return bytes.status();
    const CopyAmax own = {Slice(amax.rowwise, piece.row, piece.rows),
                          Slice(amax.columnwise, piece.column, piece.cols)};
    const auto part = QuantizeShard(client, tensor, piece, settled, own, each);
    if (!part.ok()) return part.status();
    tell(piece, /*first=*/false);
    const std::lock_guard lock(mutex);
    join.Add(piece, *part);
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return join.Take();
}

absl::StatusOr<Result> RhtAmaxInPieces(Client& client, const TensorDesc& tensor,
                                       const TensorReader& input,
                                       const RhtAmaxOptions& options,
                                       const PieceOptions& pieces,
                                       const CallOptions& call) {
  const auto plan = MakeRhtAmaxPlan(tensor, options);
  if (!plan.ok()) return plan.status();
  if (plan->input_bytes() <= Room(pieces)) {
    const auto bytes = Read(client, input, plan->input_bytes());
    if (!bytes.ok()) return bytes.status();
    return InOneCall(
        pieces, call, plan->input_bytes(), [&](const CallOptions& one) {
          return client.RhtAmax(tensor, bytes->bytes(), options, one);
        });
  }
  QuantizeOptions grouped;
  grouped.splits = options.splits;
  if (auto s = CheckOptions(grouped, call, pieces.request_bytes); !s.ok()) {
    return s;
  }
  const size_t element = SizeOf(tensor.dtype);
  const auto cut = Cut(*plan, element, pieces);
  if (!cut.ok()) return cut.status();
  Join join(*plan);
  if (auto s = join.Begin(); !s.ok()) return s;
  std::mutex mutex;
  const auto status = ForEach(*cut, pieces.at_once, [&](const Shard& piece) {
    const auto bytes = Read(client, input, plan->cols(), element, piece);
    if (!bytes.ok()) return bytes.status();
    const auto part = client.RhtAmax({tensor.dtype, {piece.rows, piece.cols}},
                                     bytes->bytes(), options, OfPiece(call));
    if (!part.ok()) return part.status();
    const std::lock_guard lock(mutex);
    Tell(pieces, bytes->bytes().size());
    join.Add(piece, *part);
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return join.Take();
}

absl::Status DequantizeInPieces(Client& client, const QuantizedTensor& tensor,
                                Usage which, DType dtype,
                                const DecodedSink& sink,
                                const PieceOptions& pieces,
                                const CallOptions& call) {
  const bool columnwise = which == Usage::kColumnwise;
  const auto copy = columnwise ? tensor.columnwise() : tensor.rowwise();
  const auto plan = MakeQuantizePlan(tensor.desc(), tensor.options());
  if (!plan.ok()) return plan.status();
  const DType output = dtype == DType::kUnspecified ? tensor.dtype() : dtype;
  const size_t element = SizeOf(output);
  const int64_t rows = plan->rows();
  const int64_t cols = plan->cols();
  const size_t decoded = static_cast<size_t>(rows * cols) * element;
  const size_t encoded = copy ? copy->data.size() + copy->scale.size() : 0;
  if (!copy || tensor.groups() > 0 ||
      std::max(encoded, decoded) <= Room(pieces)) {
    const auto result =
        InOneCall(pieces, call, encoded, [&](const CallOptions& one) {
          return tensor.DequantizeCopy(client, which, output, one);
        });
    if (!result.ok()) return result.status();
    return sink({0, 0, rows, cols, {}}, *result);
  }
  const QuantizeOptions& made = tensor.options();
  const auto cut = Cut(*plan, element, pieces);
  if (!cut.ok()) return cut.status();
  const DequantizeOptions options = DecodeOptionsOf(made, which, output);
  // Only the arithmetic of a profile depends on the type of the original input.
  const DType of = made.profile == Profile::kTe ? output : tensor.dtype();
  const std::vector<float> amax(copy->amax.begin(), copy->amax.end());
  std::mutex mutex;
  return ForEach(*cut, pieces.at_once, [&](const Shard& piece) -> absl::Status {
    const client::CopyWindow window(client::CopyOf(*plan, columnwise), rows,
                                    cols, piece);
    auto codes = Allocate(client, window.part().data_bytes);
    if (!codes.ok()) return codes.status();
    auto scales = Allocate(client, window.part().scale_bytes);
    if (!scales.ok()) return scales.status();
    std::fill(scales->bytes().begin(), scales->bytes().end(), std::byte{0});
    client::Gather(window.Codes(), copy->data, codes->bytes());
    client::Gather(window.Scales(), copy->scale, scales->bytes());
    const std::vector<float> own =
        Slice(amax, columnwise ? piece.column : piece.row,
              columnwise ? piece.cols : piece.rows);
    const auto result =
        client.Dequantize({of, {piece.rows, piece.cols}},
                          {codes->bytes(), scales->bytes(), own, copy->global},
                          options, OfPiece(call));
    if (!result.ok()) return result.status();
    const std::lock_guard lock(mutex);
    Tell(pieces, codes->bytes().size() + scales->bytes().size());
    return sink(piece, *result);
  });
}

}  // namespace quantd
