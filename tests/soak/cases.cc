#include "tests/soak/cases.h"

#include <cstring>
#include <utility>

#include "quantd/local.h"

namespace quantd::soak {
namespace {

using Bytes = absl::Span<const std::byte>;

// Returns bf16 numbers of both signs between 1 and 4.
std::vector<std::byte> Values(int64_t count, uint32_t seed) {
  std::vector<std::byte> bytes(static_cast<size_t>(count) * 2);
  for (size_t i = 0; i < bytes.size(); i += 2) {
    seed = seed * 1664525 + 1013904223;
    const auto value =
        static_cast<uint16_t>(0x3f80 + (seed >> 8 & 0xff) + (seed >> 31 << 15));
    std::memcpy(&bytes[i], &value, sizeof(value));
  }
  return bytes;
}

Case Make(int64_t rows, int64_t columns, Plan::Options options) {
  return {.tensor = {DType::kBF16, {rows, columns}},
          .options = std::move(options),
          .input = Values(rows * columns,
                          static_cast<uint32_t>(rows * 31 + columns))};
}

QuantizeOptions As(Format format, Usage usage = Usage::kRowwise) {
  QuantizeOptions options;
  options.format = format;
  options.usage = usage;
  return options;
}

std::vector<Case> Quantizations() {
  QuantizeOptions rotated = As(Format::kNvfp4, Usage::kBoth);
  rotated.rht.columnwise = true;
  QuantizeOptions stochastic = As(Format::kNvfp4);
  stochastic.rounding = Rounding::kStochastic;
  stochastic.stochastic.seed = 7;
  QuantizeOptions grouped = As(Format::kMxfp8E4M3, Usage::kBoth);
  grouped.splits = {{32, 64, 32}};
  std::vector<Case> cases;
  cases.push_back(Make(16, 64, As(Format::kNvfp4)));
  cases.push_back(Make(64, 1024, As(Format::kNvfp4)));
  cases.push_back(Make(512, 1024, rotated));
  cases.push_back(Make(128, 512, stochastic));
  cases.push_back(Make(128, 1024, grouped));
  cases.push_back(Make(37, 256, As(Format::kFp8E4M3)));
  cases.push_back(Make(256, 512, As(Format::kMxfp4)));
  cases.push_back(Make(128, 256, As(Format::kFp8BlockE4M3, Usage::kBoth)));
  return cases;
}

// Returns a case that decodes the codes of `made`.
absl::StatusOr<Case> Decoding(Client& local, const Case& made) {
  const auto result = Ask(local, made, made.input);
  if (!result.ok()) return result.status();
  DequantizeOptions options;
  options.format = std::get<QuantizeOptions>(made.options).format;
  options.output = DType::kBF16;
  Case decoding{.tensor = made.tensor, .options = options, .input = {}};
  const auto copy = [&](TensorKind kind, auto* to) {
    const auto bytes = result->bytes(kind);
    to->assign(bytes.begin(), bytes.end());
  };
  copy(TensorKind::kRowwiseData, &decoding.input);
  copy(TensorKind::kRowwiseScale, &decoding.scale);
  const auto amaxes = result->amaxes(TensorKind::kRowwiseAmax);
  decoding.amax.assign(amaxes.begin(), amaxes.end());
  return decoding;
}

absl::StatusOr<std::vector<Case>> Decodings(Client& local,
                                            std::vector<Case> made) {
  std::vector<Case> cases;
  for (const Case& one : made) {
    auto decoding = Decoding(local, one);
    if (!decoding.ok()) return decoding.status();
    cases.push_back(*std::move(decoding));
  }
  return cases;
}

absl::StatusOr<std::vector<Case>> Requests(Client& local, Kind kind) {
  std::vector<Case> cases;
  switch (kind) {
    case kQuantize:
      return Quantizations();
    case kStream:
      cases.push_back(Make(1024, 1024, As(Format::kNvfp4, Usage::kBoth)));
      cases.push_back(Make(64, 1024, As(Format::kMxfp8E4M3)));
      return cases;
    case kShared:
      cases.push_back(Make(512, 1024, As(Format::kNvfp4)));
      cases.push_back(Make(256, 1024, As(Format::kFp8E4M3)));
      return cases;
    case kDequantize:
      cases.push_back(Make(64, 512, As(Format::kNvfp4)));
      cases.push_back(Make(256, 1024, As(Format::kMxfp8E4M3)));
      return Decodings(local, std::move(cases));
    case kBands:
      cases.push_back(Make(3072, 1024, As(Format::kMxfp8E4M3)));
      return Decodings(local, std::move(cases));
    case kAmax: {
      RhtAmaxOptions options;
      options.rowwise = options.columnwise_rht = true;
      cases.push_back(Make(128, 512, options));
      cases.push_back(Make(512, 1024, options));
      return cases;
    }
    case kRotate:
    case kCancelled:
    case kExpired:
      cases.push_back(Make(128, 1024, ApplyRhtOptions{}));
      cases.push_back(Make(1024, 1024, ApplyRhtOptions{}));
      return cases;
    case kInvalid:
      return cases;
  }
  return absl::InvalidArgumentError("no such kind of call");
}

}  // namespace

absl::StatusOr<Result> Ask(Client& client, const Case& one, Bytes input,
                           const CallOptions& call) {
  if (const auto* o = std::get_if<QuantizeOptions>(&one.options)) {
    return client.Quantize(one.tensor, input, *o, call);
  }
  if (const auto* o = std::get_if<RhtAmaxOptions>(&one.options)) {
    return client.RhtAmax(one.tensor, input, *o, call);
  }
  if (const auto* o = std::get_if<ApplyRhtOptions>(&one.options)) {
    return client.ApplyRht(one.tensor, input, *o, call);
  }
  const QuantizedBytes codes = {
      .data = input, .scale = one.scale, .amax = one.amax};
  return client.Dequantize(one.tensor, codes,
                           std::get<DequantizeOptions>(one.options), call);
}

bool IsRight(const Case& one, const Result& result) {
  if (result.parts().size() != one.expected.size()) return false;
  for (size_t i = 0; i < one.expected.size(); ++i) {
    const Bytes bytes = result.bytes(result.parts()[i].kind);
    const auto& expected = one.expected[i];
    if (bytes.size() != expected.size() ||
        std::memcmp(bytes.data(), expected.data(), bytes.size()) != 0) {
      return false;
    }
  }
  return !one.expected.empty();
}

absl::StatusOr<std::vector<Case>> MakeCases(Kind kind) {
  ClientOptions options;
  options.local = {.memory_budget = 64 << 20, .slots = 1, .threads = 1};
  const auto local = CreateClient("local:cpu", options);
  if (!local.ok()) return local.status();
  auto cases = Requests(**local, kind);
  if (!cases.ok()) return cases;
  for (Case& one : *cases) {
    const auto result = Ask(**local, one, one.input);
    if (!result.ok()) return result.status();
    for (const TensorSpec& part : result->parts()) {
      const Bytes bytes = result->bytes(part.kind);
      one.expected.emplace_back(bytes.begin(), bytes.end());
    }
  }
  return cases;
}

}  // namespace quantd::soak
