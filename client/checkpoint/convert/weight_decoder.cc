#include "client/checkpoint/convert/weight_decoder.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "client/checkpoint/convert/content_hash.h"
#include "client/checkpoint/weight_values.h"

namespace quantd::checkpoint {
namespace {

absl::Span<const std::byte> AsBytes(const std::vector<uint16_t>& numbers) {
  return {reinterpret_cast<const std::byte*>(numbers.data()),
          numbers.size() * sizeof(uint16_t)};
}

}  // namespace

absl::Status DecodeWeight(
    const Model& model, const StoredWeight& w,
    const std::function<absl::Status(size_t, absl::Span<const std::byte>)>&
        sink) {
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
      if (auto s = sink(offset, AsBytes(numbers)); !s.ok()) return s;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> HashOfParts(const Model& model,
                                        const StoredWeight& w) {
  ContentHash hash;
  for (const ModelTensor* part : w.parts) {
    if (part == nullptr) continue;
    const auto s = model.ReadInPieces(
        *part, size_t{4} << 20, [&](size_t, absl::Span<const std::byte> bytes) {
          hash.Add(bytes);
          return absl::OkStatus();
        });
    if (!s.ok()) return s;
  }
  return hash.Hex();
}

}  // namespace quantd::checkpoint
