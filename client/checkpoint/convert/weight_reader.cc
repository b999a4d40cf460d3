#include "client/checkpoint/convert/weight_reader.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "client/checkpoint/convert/journal.h"
#include "client/checkpoint/weight_values.h"
#include "client/files/quantized_file.h"
#include "fmt/format.h"

namespace quantd::checkpoint {
namespace {

// The largest magnitude of numbers. `mask` removes the sign from their bits.
template <typename Bits>
float Largest(DType dtype, absl::Span<const std::byte> bytes, Bits mask) {
  Bits most = 0;
  const size_t count = bytes.size() / sizeof(Bits);
  for (size_t i = 0; i < count; ++i) {
    Bits bits;
    std::memcpy(&bits, bytes.data() + i * sizeof(Bits), sizeof(Bits));
    bits &= mask;
    most = std::max(most, bits);
  }
  std::byte number[sizeof(Bits)];
  std::memcpy(number, &most, sizeof(Bits));
  return NumberAt(SafetensorsName(dtype), number, 0);
}

template <typename Element>
void Transpose(const std::vector<std::byte>& from, int64_t k, int64_t cols,
               int64_t count, int64_t lines, absl::Span<std::byte> to) {
  for (int64_t n = 0; n < count; ++n) {
    for (int64_t i = 0; i < lines; ++i) {
      std::memcpy(
          to.data() + static_cast<size_t>(n * cols + k + i) * sizeof(Element),
          from.data() + static_cast<size_t>(i * count + n) * sizeof(Element),
          sizeof(Element));
    }
  }
}

// Reads rows in the stored type.
absl::Status AsStored(const Model& model, const Weight& w, int64_t row,
                      int64_t count, absl::Span<std::byte> bytes) {
  const auto element =
      static_cast<size_t>(safetensors::BitsOf(w.source->stored.dtype) / 8);
  const size_t run = static_cast<size_t>(count) * element;
  if (!w.transposed) {
    return model.Read(*w.source, w.offset + static_cast<size_t>(row) * w.pitch,
                      bytes);
  }
  // The tensor stores K lines of N. This many lines are transposed at a time,
  // so that they fit into the caches.
  constexpr int64_t kLines = 64;
  std::vector<std::byte> lines;
  for (int64_t k = 0; k < w.cols; k += kLines) {
    const int64_t some = std::min(kLines, w.cols - k);
    lines.resize(static_cast<size_t>(some) * run);
    for (int64_t i = 0; i < some; ++i) {
      const size_t offset = w.offset + static_cast<size_t>(k + i) * w.pitch +
                            static_cast<size_t>(row) * element;
      const auto s = model.Read(
          *w.source, offset,
          absl::MakeSpan(lines).subspan(static_cast<size_t>(i) * run, run));
      if (!s.ok()) return s;
    }
    element == 4 ? Transpose<uint32_t>(lines, k, w.cols, count, some, bytes)
                 : Transpose<uint16_t>(lines, k, w.cols, count, some, bytes);
  }
  return absl::OkStatus();
}

// Reads values as fp32 in small pieces. `read` receives the first row and the
// number of rows.
template <typename ReadSome>
absl::Status InPieces(int64_t cols, int64_t row, int64_t count,
                      absl::Span<std::byte> bytes, ReadSome&& read) {
  constexpr int64_t kNumbers = int64_t{1} << 20;
  const int64_t most = std::max<int64_t>(1, kNumbers / cols);
  std::vector<float> numbers;
  for (int64_t done = 0; done < count; done += most) {
    const int64_t some = std::min(most, count - done);
    if (auto s = read(row + done, some, &numbers); !s.ok()) return s;
    const size_t size = numbers.size() * sizeof(float);
    std::memcpy(bytes.data(), numbers.data(), size);
    bytes.remove_prefix(size);
  }
  return absl::OkStatus();
}

// INVALID_ARGUMENT if one of the values, which begin with row `first`, is NaN
// or infinite.
absl::Status CheckFinite(const StoredWeight& w, int64_t first,
                         const std::vector<float>& values) {
  const auto bad =
      std::ranges::find_if(values, [](float x) { return !std::isfinite(x); });
  if (bad == values.end()) return absl::OkStatus();
  const int64_t at = bad - values.begin();
  return absl::InvalidArgumentError(
      fmt::format("{}: its codes and scales give {} at row {}, column {}; "
                  "correct the model first",
                  w.module, std::isnan(*bad) ? "NaN" : "Inf",
                  first + at / w.cols, at % w.cols));
}

using Sink = std::function<absl::Status(size_t, absl::Span<const std::byte>)>;

absl::Status DecodeStack(const Model& model, const DecodedWeight& stack,
                         const Sink& sink) {
  const auto joined = static_cast<size_t>(stack.joined);
  const int64_t all = stack.stored.rows * stack.joined;
  std::vector<float> values;
  std::vector<uint16_t> numbers(static_cast<size_t>(all * stack.stored.cols));
  for (size_t n = 0; n < stack.experts.size(); ++n) {
    const StoredWeight& w = stack.experts[n];
    const int64_t before = static_cast<int64_t>(n % joined) * w.rows;
    WeightValues reader(model, w, 0);
    reader.RoundToOdd();
    reader.MendZeros();
    if (auto s = reader.Read(0, w.rows, &values); !s.ok()) return s;
    if (auto s = CheckFinite(w, 0, values); !s.ok()) return s;
    for (int64_t i = 0; i < w.rows; ++i) {
      for (int64_t j = 0; j < w.cols; ++j) {
        numbers[static_cast<size_t>(j * all + before + i)] =
            ToBf16(values[static_cast<size_t>(i * w.cols + j)]);
      }
    }
    if (before + w.rows < all) continue;
    const absl::Span<const std::byte> bytes = std::as_bytes(std::span(numbers));
    if (auto s = sink(n / joined * bytes.size(), bytes); !s.ok()) return s;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadRows(const Model& model, const Weight& w, int64_t row,
                      int64_t count, absl::Span<std::byte> bytes) {
  if (w.stored) {
    WeightValues values(model, *w.stored);
    values.MendZeros();
    return InPieces(w.cols, row, count, bytes,
                    [&](int64_t at, int64_t some, std::vector<float>* out) {
                      return values.Read(at, some, out);
                    });
  }
  const std::string& dtype = w.source->stored.dtype;
  if (w.dtype() == dtype) return AsStored(model, w, row, count, bytes);
  std::vector<std::byte> narrow;
  return InPieces(
      w.cols, row, count, bytes,
      [&](int64_t at, int64_t some, std::vector<float>* out) -> absl::Status {
        narrow.resize(SizeOfShape(dtype, {some, w.cols}));
        const auto s = AsStored(model, w, at, some, absl::MakeSpan(narrow));
        if (!s.ok()) return s;
        out->resize(static_cast<size_t>(some * w.cols));
        Decode(dtype, narrow, absl::MakeSpan(*out));
        return absl::OkStatus();
      });
}

float LargestMagnitude(DType dtype, absl::Span<const std::byte> bytes) {
  return dtype == DType::kF32 ? Largest<uint32_t>(dtype, bytes, 0x7FFFFFFF)
                              : Largest<uint16_t>(dtype, bytes, 0x7FFF);
}

absl::Status DecodeWeight(const Model& model, const DecodedWeight& decoded,
                          const Sink& sink) {
  if (!decoded.experts.empty()) return DecodeStack(model, decoded, sink);
  const StoredWeight& w = decoded.stored;
  // Experts of a stack are transposed, each as a whole.
  const bool turned = w.layout->stacked;
  const int64_t most =
      turned ? w.rows
             : std::max<int64_t>(
                   1, (int64_t{1} << 20) / std::max<int64_t>(1, w.cols));
  std::vector<float> values;
  std::vector<uint16_t> numbers;
  for (int64_t e = 0; e < w.experts; ++e) {
    WeightValues reader(model, w, e);
    reader.RoundToOdd();
    reader.MendZeros();
    for (int64_t row = 0; row < w.rows; row += most) {
      const int64_t count = std::min(most, w.rows - row);
      if (auto s = reader.Read(row, count, &values); !s.ok()) return s;
      if (auto s = CheckFinite(w, row, values); !s.ok()) return s;
      numbers.resize(values.size());
      for (int64_t i = 0; i < count; ++i) {
        for (int64_t j = 0; j < w.cols; ++j) {
          const int64_t to = turned ? j * w.rows + i : i * w.cols + j;
          numbers[static_cast<size_t>(to)] =
              ToBf16(values[static_cast<size_t>(i * w.cols + j)]);
        }
      }
      const auto offset =
          static_cast<size_t>((e * w.rows + row) * w.cols) * sizeof(uint16_t);
      const auto s = sink(offset, std::as_bytes(std::span(numbers)));
      if (!s.ok()) return s;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> HashOfParts(const Model& model,
                                        const DecodedWeight& weight) {
  ContentHash hash;
  const auto add = [&](size_t, absl::Span<const std::byte> bytes) {
    hash.Add(bytes);
    return absl::OkStatus();
  };
  for (const StoredWeight& w : weight.weights()) {
    for (const ModelTensor* part : w.parts) {
      if (part == nullptr) continue;
      const auto s = model.ReadInPieces(*part, size_t{4} << 20, add);
      if (!s.ok()) return s;
    }
  }
  return hash.Hex();
}

}  // namespace quantd::checkpoint
