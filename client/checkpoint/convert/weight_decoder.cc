#include "client/checkpoint/convert/weight_decoder.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "client/checkpoint/convert/content_hash.h"
#include "client/checkpoint/weight_values.h"
#include "fmt/format.h"

namespace quantd::checkpoint {
namespace {

// INVALID_ARGUMENT if one of the values, which begin with row `first`, is NaN
// or infinite.
absl::Status CheckFinite(const StoredWeight& w, int64_t first,
                         const std::vector<float>& values) {
  const auto bad = std::find_if(values.begin(), values.end(),
                                [](float x) { return !std::isfinite(x); });
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
