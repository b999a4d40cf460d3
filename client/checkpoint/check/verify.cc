#include "client/checkpoint/check/verify.h"

#include <algorithm>
#include <map>
#include <utility>

#include "client/checkpoint/architecture.h"
#include "client/checkpoint/dialect.h"
#include "client/checkpoint/made_with.h"
#include "client/checkpoint/stored.h"
#include "client/checkpoint/weights.h"
#include "fmt/format.h"

namespace quantd::checkpoint {
namespace {

std::map<std::string, Weight> WeightsByModule(const Model& model) {
  std::map<std::string, Weight> weights;
  for (const ModelTensor& t : model.tensors()) {
    auto found = WeightsOf(model, t, /*whole=*/false);
    if (!found.ok()) continue;
    for (Weight& w : *found) weights[w.module] = std::move(w);
  }
  return weights;
}

}  // namespace

uint64_t Verification::bytes() const {
  uint64_t sum = 0;
  for (const VerifiedPart& p : parts) sum += p.bytes;
  return sum;
}

uint64_t Verification::differing() const {
  uint64_t sum = 0;
  for (const VerifiedPart& p : parts) sum += p.differing;
  return sum;
}

absl::StatusOr<Verification> VerifyModel(const Model& original,
                                         const Model& quantized,
                                         std::optional<Profile> profile,
                                         size_t piece_bytes,
                                         const EncodeOptions& options,
                                         const QuantizeCall& quantize) {
  const auto stored = FindStored(quantized);
  if (!stored.ok()) return stored.status();
  if (stored->weights.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: no weight of it is quantized", quantized.path()));
  }
  const auto architecture = Architecture::Of(original, {});
  if (!architecture.ok()) return architecture.status();
  Verification out;
  auto plain = WeightsByModule(original);
  std::vector<Weight> weights;
  std::map<std::string, VerifiedPart> parts;
  for (const StoredWeight& s : stored->weights) {
    const MadeWith made = MadeWithOf(quantized, s);
    const Profile used = profile.value_or(made.profile);
    if (out.profile.find(Name(used)) == std::string::npos) {
      out.profile +=
          fmt::format("{}{}", out.profile.empty() ? "" : ", ", Name(used));
    }
    const auto found = plain.find(s.module);
    if (found == plain.end() || found->second.rows != s.rows ||
        found->second.cols != s.cols || s.layout->stacked) {
      out.unmatched.push_back(
          fmt::format("{}: the original has no such weight of {} x {}",
                      s.module, s.rows, s.cols));
      continue;
    }
    if (auto bad = CheckProfileOf(*made.layout, used); !bad.ok()) return bad;
    Weight w = std::move(found->second);
    plain.erase(found);
    w.layout = made.layout;
    w.profile = used;
    for (const safetensors::Tensor& part : PartsOf(&w)) {
      const ModelTensor* there = quantized.Find(part.name);
      VerifiedPart& p = parts[part.name];
      p = {part.name, part.size, 0};
      // Another size: another layout or type, nothing of it is right.
      if (there->stored.size != part.size) p.differing = part.size;
    }
    weights.push_back(std::move(w));
  }
  AlignedBytes memory(piece_bytes);
  const absl::Span<std::byte> room = memory.span();
  std::vector<std::byte> buffer;
  const auto sink = [&](std::string_view name, size_t offset,
                        absl::Span<const std::byte> bytes) -> absl::Status {
    VerifiedPart& p = parts.at(std::string(name));
    if (p.differing == p.bytes) return absl::OkStatus();
    buffer.resize(bytes.size());
    const auto s =
        quantized.Read(*quantized.Find(name), offset, absl::MakeSpan(buffer));
    if (!s.ok()) return s;
    for (size_t i = 0; i < bytes.size(); ++i) {
      p.differing += bytes[i] != buffer[i];
    }
    return absl::OkStatus();
  };
  for (const FusedWeights& group :
       FuseWeights(std::move(weights), *architecture)) {
    const auto made =
        EncodeGroup(original, group, room, options, quantize, sink);
    if (!made.ok()) return made.status();
  }
  for (auto& [name, part] : parts) out.parts.push_back(std::move(part));
  return out;
}

}  // namespace quantd::checkpoint
