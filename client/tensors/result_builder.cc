#include "client/tensors/result_builder.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "fmt/format.h"
#include "quantd/field_error.h"

namespace quantd {
namespace {

// Copies bytes [offset, offset + target.size()) of the concatenated slices,
// which must contain them.
void CopyRange(absl::Span<const std::string_view> slices, size_t offset,
               absl::Span<std::byte> target) {
  size_t done = 0;
  for (std::string_view slice : slices) {
    if (done == target.size()) return;
    if (offset >= slice.size()) {
      offset -= slice.size();
      continue;
    }
    const size_t n = std::min(slice.size() - offset, target.size() - done);
    std::memcpy(target.data() + done, slice.data() + offset, n);
    done += n;
    offset = 0;
  }
}

absl::Status Mismatch(TensorKind kind) {
  return absl::InternalError(
      fmt::format("the reply's {} does not match the request", Name(kind)));
}

}  // namespace

absl::Status CheckDestinations(const Plan& plan,
                               absl::Span<const Destination> into) {
  for (size_t i = 0; i < into.size(); ++i) {
    const std::string field = absl::StrCat("into[", i, "]");
    const TensorSpec* spec = plan.output(into[i].kind);
    if (spec == nullptr) {
      return FieldError(field, "a part that this call returns",
                        std::string(Name(into[i].kind)));
    }
    if (into[i].bytes.size() != spec->size) {
      return FieldError(
          field, fmt::format("{} bytes for {}", spec->size, Name(spec->kind)),
          fmt::format("{} bytes", into[i].bytes.size()));
    }
    const auto address = reinterpret_cast<uintptr_t>(into[i].bytes.data());
    if (address % SizeOf(spec->dtype) != 0) {
      return FieldError(field,
                        fmt::format("memory aligned for {}", Name(spec->dtype)),
                        fmt::format("address {:#x}", address));
    }
    for (size_t k = 0; k < i; ++k) {
      if (into[k].kind == into[i].kind) {
        return FieldError(field, "each part once",
                          fmt::format("{} again", Name(into[i].kind)));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CheckApart(absl::Span<const absl::Span<const std::byte>> payload,
                        absl::Span<const Destination> into) {
  const auto overlap = [](auto a, auto b) {
    return !a.empty() && !b.empty() &&
           std::less<const std::byte*>()(a.data(), b.data() + b.size()) &&
           std::less<const std::byte*>()(b.data(), a.data() + a.size());
  };
  for (size_t i = 0; i < into.size(); ++i) {
    for (const auto& piece : payload) {
      if (!overlap(piece, into[i].bytes)) continue;
      return FieldError(absl::StrCat("into[", i, "]"),
                        "memory that does not overlap the input, because the "
                        "call is sent in chunks",
                        "an overlap");
    }
  }
  return absl::OkStatus();
}

ResultBuilder::ResultBuilder(const Plan& plan,
                             absl::Span<const Destination> into)
    : plan_(plan) {
  result_.parts_ = plan.outputs();
  const size_t count = result_.parts_.size();
  targets_.resize(count);
  filled_.resize(count);
  // One block for all parts without a destination. Parts are aligned in it.
  size_t total = 0;
  std::vector<size_t> offsets(count, SIZE_MAX);
  for (size_t i = 0; i < count; ++i) {
    const TensorSpec& spec = result_.parts_[i];
    const auto given =
        std::find_if(into.begin(), into.end(),
                     [&](const Destination& d) { return d.kind == spec.kind; });
    if (given != into.end()) {
      targets_[i] = given->bytes;
    } else {
      offsets[i] = total;
      total += (spec.size + kPayloadAlignment - 1) / kPayloadAlignment *
               kPayloadAlignment;
    }
  }
  result_.owned_ = AlignedBytes(total);
  if (result_.owned_.span().size() != total) {
    error_ = absl::ResourceExhaustedError(
        fmt::format("no memory for a result of {} bytes", total));
    return;
  }
  for (size_t i = 0; i < count; ++i) {
    if (offsets[i] != SIZE_MAX) {
      targets_[i] =
          result_.owned_.span().subspan(offsets[i], result_.parts_[i].size);
    }
    result_.spans_.push_back(targets_[i]);
  }
}

void ResultBuilder::Keep(HostMemory memory, Result* result) {
  if (memory.bytes().empty()) return;
  result->kept_ = std::make_shared<HostMemory>(std::move(memory));
}

absl::Status ResultBuilder::CheckSame(const TensorSpec& source,
                                      const TensorSpec& spec) {
  const bool same =
      source.dtype == spec.dtype && source.layout == spec.layout &&
      source.shape == spec.shape &&
      source.group_offsets == spec.group_offsets && source.size == spec.size;
  return same ? absl::OkStatus() : Mismatch(source.kind);
}

absl::Status ResultBuilder::AddInPlace(const TensorSpec& source) {
  if (!error_.ok()) return error_;
  const TensorSpec* const spec = plan_.output(source.kind);
  if (spec == nullptr) return absl::OkStatus();
  if (auto s = CheckSame(source, *spec); !s.ok()) return s;
  Claim(source.kind);
  return absl::OkStatus();
}

absl::Status ResultBuilder::Add(const TensorSpec& source,
                                absl::Span<const std::string_view> slices,
                                size_t payload_offset, size_t payload_size) {
  if (plan_.output(source.kind) == nullptr) return error_;
  if (auto s = AddInPlace(source); !s.ok()) return s;
  if (source.offset > payload_size ||
      source.size > payload_size - source.offset) {
    return Mismatch(source.kind);
  }
  CopyRange(slices, payload_offset + source.offset, Claim(source.kind));
  return absl::OkStatus();
}

absl::Span<std::byte> ResultBuilder::Claim(TensorKind kind) {
  const TensorSpec* const spec = plan_.output(kind);
  if (!error_.ok() || spec == nullptr) return {};
  const auto i = static_cast<size_t>(spec - plan_.outputs().data());
  filled_[i] = true;
  return targets_[i];
}

void ResultBuilder::Report::Add(const Result& part) {
  saw_nan |= part.saw_nan();
  saw_inf |= part.saw_inf();
  // All parts have the same global scale, so each reports the same count.
  replaced_globals = std::max(replaced_globals, part.replaced_globals());
  request_id = part.request_id();
  attempts += part.attempts();
  transport = part.transport();
  streamed |= part.streamed();
}

absl::StatusOr<Result> ResultBuilder::Take(Report report) {
  if (!error_.ok()) return error_;
  for (size_t i = 0; i < filled_.size(); ++i) {
    if (!filled_[i]) {
      return absl::InternalError(
          fmt::format("the reply has no {}", Name(result_.parts_[i].kind)));
    }
  }
  result_.saw_nan_ = report.saw_nan;
  result_.saw_inf_ = report.saw_inf;
  result_.rowwise_ = report.rowwise;
  result_.columnwise_ = report.columnwise;
  result_.device_ = std::move(report.device);
  result_.request_id_ = std::move(report.request_id);
  result_.attempts_ = report.attempts;
  result_.replaced_globals_ = report.replaced_globals;
  result_.transport_ = report.transport;
  result_.streamed_ = report.streamed;
  result_.bands_ = report.bands;
  return std::move(result_);
}

}  // namespace quantd
