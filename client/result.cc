#include "quantd/result.h"

#include <cstdlib>
#include <memory>

#include "client/tensors/groups.h"

namespace quantd {
namespace {

constexpr size_t kAlignment = 64;

}  // namespace

std::string_view Name(Transport transport) {
  switch (transport) {
    case Transport::kTcp:
      return "tcp";
    case Transport::kUnix:
      return "unix";
    case Transport::kShared:
      return "shared";
    case Transport::kCuda:
      return "cuda";
    case Transport::kLocal:
      return "local";
  }
  return "";
}

AlignedBytes::AlignedBytes(size_t size) {
  // glibc's aligned allocation cannot reuse a freed block of the same size, so
  // that a process whose results have one size would grow.
  size_t room = size + kAlignment;
  void* const block = std::malloc(room);
  void* start = block;
  // The sum wraps for the largest sizes, and the block is then too small.
  if (block == nullptr || !std::align(kAlignment, size, start, room)) {
    std::free(block);
    return;
  }
  bytes_ = {static_cast<std::byte*>(start), Free{block}};
  size_ = size;
}

void AlignedBytes::Free::operator()(std::byte*) const { std::free(block); }

const TensorSpec* Result::part(TensorKind kind) const {
  for (const TensorSpec& spec : parts_) {
    if (spec.kind == kind) return &spec;
  }
  return nullptr;
}

absl::Span<const std::byte> Result::bytes(TensorKind kind) const {
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (parts_[i].kind == kind) return spans_[i];
  }
  return {};
}

absl::Span<const std::byte> Result::bytes(TensorKind kind, size_t group) const {
  const TensorSpec* spec = part(kind);
  if (spec == nullptr) return {};
  return GroupBytes(*spec, bytes(kind), group);
}

absl::Span<const float> Result::amaxes(TensorKind kind) const {
  const TensorSpec* spec = part(kind);
  if (spec == nullptr || spec->dtype != DType::kF32) return {};
  return as<float>(kind);
}

std::optional<float> Result::amax(TensorKind kind) const {
  const absl::Span<const float> values = amaxes(kind);
  if (values.size() != 1) return std::nullopt;
  return values[0];
}

}  // namespace quantd
