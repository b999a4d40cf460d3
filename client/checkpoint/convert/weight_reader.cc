#include "client/checkpoint/convert/weight_reader.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "client/checkpoint/weight_values.h"
#include "client/files/quantized_file.h"

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

}  // namespace quantd::checkpoint
