#include "client/checkpoint/convert/weight_encoder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "client/checkpoint/convert/journal.h"
#include "client/checkpoint/convert/weight_reader.h"
#include "client/files/quantized_file.h"
#include "fmt/format.h"
#include "kernels/plan/geometry.h"
#include "kernels/plan/profile/profile.h"
#include "kernels/plan/shards.h"

namespace quantd::checkpoint {
namespace {

// Rows of a weight in memory.
struct Piece {
  const Weight* weight = nullptr;
  int64_t row = 0;
  int64_t count = 0;
  absl::Span<std::byte> bytes;
};

// Pieces begin at multiples of this many rows, where every format and every
// tile of scales may be cut.
constexpr int64_t kUnit = 128;

size_t RowBytes(const Weight& w) { return SizeOfShape(w.dtype(), {w.cols}); }

size_t BytesOf(const FusedWeights& group) {
  size_t bytes = 0;
  for (const Weight& w : group.weights) {
    bytes += static_cast<size_t>(w.rows) * RowBytes(w);
  }
  return bytes;
}

DType TypeOf(const Weight& w) { return FromSafetensorsName(w.dtype()); }

// Reads the group's weights in pieces and calls `take` for each. With `apart`,
// the pieces follow each other in `room`; otherwise each overwrites the
// previous one.
absl::Status ReadPieces(const Model& model, const FusedWeights& group,
                        absl::Span<std::byte> room, bool apart,
                        absl::FunctionRef<absl::Status(const Piece&)> take) {
  for (const Weight& w : group.weights) {
    const auto fit = static_cast<int64_t>(room.size() / RowBytes(w));
    const int64_t most = std::max(fit / kUnit * kUnit, kUnit);
    for (int64_t row = 0; row < w.rows; row += most) {
      Piece piece = {&w, row, std::min(most, w.rows - row), {}};
      const size_t size = static_cast<size_t>(piece.count) * RowBytes(w);
      if (size > room.size()) {
        return absl::ResourceExhaustedError(fmt::format(
            "{}: {} bytes are needed in memory at once, but the limit is {}",
            w.module, size, room.size()));
      }
      piece.bytes = room.first(size);
      const auto s = ReadRows(model, w, row, piece.count, piece.bytes);
      if (!s.ok()) return s;
      if (auto t = take(piece); !t.ok()) return t;
      if (apart) room.remove_prefix(size);
    }
  }
  return absl::OkStatus();
}

absl::Status NotFinite(const Piece& piece) {
  const Weight& w = *piece.weight;
  const size_t element = RowBytes(w) / static_cast<size_t>(w.cols);
  const auto bytes = absl::MakeConstSpan(piece.bytes);
  size_t i = 0;
  float bad = 0;
  for (; i < bytes.size() / element; ++i) {
    bad = LargestMagnitude(TypeOf(w), bytes.subspan(i * element, element));
    if (!std::isfinite(bad)) break;
  }
  return absl::InvalidArgumentError(
      fmt::format("{}: has {} at row {}, column {}; correct the model{}",
                  w.module, std::isnan(bad) ? "NaN" : "Inf",
                  piece.row + static_cast<int64_t>(i) / w.cols,
                  static_cast<int64_t>(i) % w.cols,
                  w.stored ? std::string(" first")
                           : fmt::format(", or leave the weight unquantized "
                                         "with --ignore {}",
                                         w.module)));
}

// Writes the parts of weights and hashes them.
class Writer {
 public:
  Writer(const FusedWeights& group, float amax, PartSink* sink)
      : amax_(amax), sink_(sink) {
    for (const Weight& w : group.weights) {
      first_.push_back({&w, hashes_.size()});
      for (size_t i = 0; i < w.outputs.size(); ++i) hashes_.emplace_back();
    }
  }

  absl::Status Write(const Piece& piece, const Result& result) {
    const Weight& w = *piece.weight;
    for (size_t i = 0; i < w.outputs.size(); ++i) {
      absl::Status s;
      switch (w.outputs[i].source) {
        case PartSource::kCodes:
          s = Codes(piece, i, result.bytes(TensorKind::kRowwiseData));
          break;
        case PartSource::kScales:
          s = Scales(piece, i, result.bytes(TensorKind::kRowwiseScale));
          break;
        case PartSource::kGlobal:
          s = GlobalPart(piece, i, result);
          break;
        case PartSource::kInputScale:
          s = Number(piece, i, InputScaleOf(w.layout->global, *w.input_amax));
          break;
        case PartSource::kLabel:
          if (piece.row > 0) break;
          s = Put(w, i, 0, std::as_bytes(std::span(kComfyLabel)));
          break;
        case PartSource::kNothing:
          break;
      }
      if (!s.ok()) return s;
    }
    return absl::OkStatus();
  }

  std::string Hash() const {
    ContentHash all;
    for (const ContentHash& hash : hashes_) all.Add(hash.Hex());
    return all.Hex();
  }

 private:
  absl::Status Put(const Weight& w, size_t i, size_t offset,
                   absl::Span<const std::byte> bytes) {
    for (const auto& [weight, first] : first_) {
      if (weight == &w) hashes_[first + i].Add(bytes);
    }
    const Weight::Output& out = w.outputs[i];
    return sink_ == nullptr
               ? absl::OkStatus()
               : sink_->Write(out.name, out.offset + offset, bytes);
  }

  // Writes a part that is one number, with the first piece of the weight.
  absl::Status Number(const Piece& piece, size_t i, float value) {
    if (piece.row > 0) return absl::OkStatus();
    std::byte bytes[sizeof(value)];
    std::memcpy(bytes, &value, sizeof(value));
    return Put(*piece.weight, i, 0, bytes);
  }

  // Writes the global scale. The result has it in the form of the profile's
  // library. TransformerEngine has only an amax, from which it is computed.
  absl::Status GlobalPart(const Piece& piece, size_t i, const Result& result) {
    for (const TensorKind kind :
         {TensorKind::kRowwiseGlobalScale, TensorKind::kRowwiseGlobalDivisor}) {
      const auto bytes = result.bytes(kind);
      if (bytes.empty()) continue;
      return piece.row > 0 ? absl::OkStatus() : Put(*piece.weight, i, 0, bytes);
    }
    return Number(piece, i, GlobalOf(*piece.weight->layout, amax_));
  }

  absl::Status Codes(const Piece& piece, size_t i,
                     absl::Span<const std::byte> codes) {
    const Weight& w = *piece.weight;
    const size_t row = codes.size() / static_cast<size_t>(piece.count);
    const size_t offset = static_cast<size_t>(piece.row) * row;
    // Only TransformerEngine's profile needs a swap: ComfyUI's own profile
    // already has this order.
    const bool swap = w.layout->high_half_first && w.profile == Profile::kTe;
    if (!swap) return Put(w, i, offset, codes);
    std::vector<std::byte> swapped(codes.begin(), codes.end());
    for (std::byte& b : swapped) b = b >> 4 | b << 4;
    return Put(w, i, offset, swapped);
  }

  // Writes scales. Removes the service's padding unless the layout is swizzled.
  absl::Status Scales(const Piece& piece, size_t i,
                      absl::Span<const std::byte> scales) {
    const Weight& w = *piece.weight;
    const FormatSpec format =
        FormatUnder(w.profile, w.layout->codes, TypeOf(w));
    const size_t element = SizeOf(format.scale);
    const auto copy = MakeCopyGeometry(
        format, /*columnwise=*/false, piece.count, w.cols, 0,
        w.layout->swizzled ? Layout::kSwizzled : Layout::kLinear, false);
    if (copy.scale_bytes != scales.size()) {
      return absl::InternalError(
          fmt::format("{}: got {} bytes of scales, expected {}", w.module,
                      scales.size(), copy.scale_bytes));
    }
    if (w.layout->swizzled) {
      const size_t line =
          scales.size() / static_cast<size_t>(RoundUp(piece.count, kUnit));
      return Put(w, i, static_cast<size_t>(piece.row) * line, scales);
    }
    if (w.layout->scale_shape == ScaleShape::kColumn) {
      return Put(w, i, static_cast<size_t>(piece.row) * element, scales);
    }
    if (w.layout->scale_shape != ScaleShape::kBlocks) {
      return piece.row > 0 ? absl::OkStatus() : Put(w, i, 0, scales);
    }
    const int64_t lines = CeilDiv(piece.count, copy.scale_lines);
    const size_t used = static_cast<size_t>(copy.blocks) * element;
    const size_t stride = static_cast<size_t>(copy.scale_line) * element;
    std::vector<std::byte> cropped(static_cast<size_t>(lines) * used);
    for (size_t line = 0; line < static_cast<size_t>(lines); ++line) {
      std::memcpy(cropped.data() + line * used, scales.data() + line * stride,
                  used);
    }
    const size_t begin =
        static_cast<size_t>(piece.row / copy.scale_lines) * used;
    return Put(w, i, begin, cropped);
  }

  const float amax_;
  PartSink* const sink_;
  std::vector<std::pair<const Weight*, size_t>> first_;
  std::vector<ContentHash> hashes_;
};

// Whether any code is not zero, positive or negative.
bool HasValues(const Weight& w, const Result& result) {
  const bool four = IsFourBits(*w.layout);
  const std::byte magnitude{static_cast<uint8_t>(four ? 0x77 : 0x7F)};
  const auto codes = result.bytes(TensorKind::kRowwiseData);
  return std::ranges::any_of(codes, [&](std::byte code) {
    return (code & magnitude) != std::byte{0};
  });
}

}  // namespace

absl::StatusOr<EncodedGroup> Encoder::Encode(
    const FusedWeights& group, absl::Span<std::byte> room,
    absl::FunctionRef<void(size_t)> progress) const {
  EncodedGroup out;
  ContentHash source;
  const auto look = [&](const Piece& piece) {
    source.Add(absl::MakeConstSpan(piece.bytes));
    const float most = LargestMagnitude(TypeOf(*piece.weight), piece.bytes);
    if (!std::isfinite(most)) return NotFinite(piece);
    out.amax = std::max(out.amax, most);
    return absl::OkStatus();
  };
  const bool shared = NeedsAmax(*group.weights.front().layout);
  std::vector<Piece> held;
  if (shared) {
    const bool hold = BytesOf(group) <= room.size();
    const auto s = ReadPieces(model, group, room, hold,
                              [&](const Piece& piece) -> absl::Status {
                                if (auto bad = look(piece); !bad.ok()) {
                                  return bad;
                                }
                                if (hold) held.push_back(piece);
                                return absl::OkStatus();
                              });
    if (!s.ok()) return s;
  }
  Writer writer(group, out.amax, sink);
  std::set<const Weight*> coded;  // weights with a code that is not zero
  std::set<const Weight*> small;  // weights with a value that became zero
  const auto encode = [&](const Piece& piece) -> absl::Status {
    const Weight& w = *piece.weight;
    if (!shared) {
      if (auto bad = look(piece); !bad.ok()) return bad;
    }
    QuantizeOptions how = OptionsOf(*w.layout, w.profile);
    how.statistics = statistics;
    if (shared) how.rowwise_amax = {out.amax};
    if (w.layout->swizzled) how.form.scale_layout = Layout::kSwizzled;
    const auto result =
        service.Quantize({TypeOf(w), {piece.count, w.cols}}, piece.bytes, how);
    if (!result.ok()) return result.status();
    AddStatistics(result->statistics(Usage::kRowwise), &out.statistics);
    if (coded.count(&w) == 0) {
      if (HasValues(w, *result)) {
        coded.insert(&w);
      } else if (LargestMagnitude(TypeOf(w), piece.bytes) > 0) {
        small.insert(&w);
      }
    }
    if (auto s = writer.Write(piece, *result); !s.ok()) return s;
    progress(SizeOfShape(w.source->stored.dtype, {piece.count, w.cols}));
    return absl::OkStatus();
  };
  absl::Status s;
  if (held.empty()) {
    s = ReadPieces(model, group, room, /*apart=*/false, encode);
  }
  for (const Piece& piece : held) {
    s = encode(piece);
    if (!s.ok()) break;
  }
  if (!s.ok()) return s;
  for (const Weight* w : small) {
    if (coded.count(w) == 0) out.lost.push_back(w->module);
  }
  if (!shared) out.amax = 0;
  out.hashes = {source.Hex(), writer.Hash()};
  return out;
}

absl::StatusOr<std::string> HashOfSource(const Model& model,
                                         const FusedWeights& group,
                                         absl::Span<std::byte> room) {
  ContentHash hash;
  const auto s =
      ReadPieces(model, group, room, /*apart=*/false, [&](const Piece& piece) {
        hash.Add(absl::MakeConstSpan(piece.bytes));
        return absl::OkStatus();
      });
  if (!s.ok()) return s;
  return hash.Hex();
}

}  // namespace quantd::checkpoint
