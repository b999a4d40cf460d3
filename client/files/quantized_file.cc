#include "client/files/quantized_file.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/files/quantized_description.h"
#include "client/files/safetensors.h"
#include "fmt/format.h"
#include "quantd/quantized_tensor.h"

namespace quantd {
namespace {

constexpr char kVersionKey[] = "quantd.version";
// Version 1 has NVFP4 with linear scales, one amax and rounding to nearest.
// Version 2 adds everything except profiles and FP8 channels; a missing key has
// the value that version 1 implied. Version 3 adds those two. A file states
// version 2 unless it needs version 3, so that programs that know only version
// 2 refuse only files that they would decode wrongly.
constexpr std::string_view kVersions[] = {"1", "2", "3"};
constexpr std::string_view kVersion = kVersions[2];
constexpr std::string_view kVersionBefore = kVersions[1];
// Metadata key: the profile that made the tensors' bytes.
constexpr char kNumericsKey[] = "quantd.numerics";
constexpr std::string_view kTensorPrefix = "quantd.tensor.";

struct NameRow {
  DType dtype;
  std::string_view name;
};
constexpr NameRow kNames[] = {
    {DType::kE2M1x2, "U8"},    {DType::kF32, "F32"},
    {DType::kF16, "F16"},      {DType::kBF16, "BF16"},
    {DType::kE4M3, "F8_E4M3"}, {DType::kE5M2, "F8_E5M2"},
    {DType::kE8M0, "F8_E8M0"},
};

std::string PartName(std::string_view tensor, TensorKind kind) {
  return fmt::format("{}.{}", tensor, Name(kind));
}

// The state of delayed scaling is not stored: it belongs to a training run.
bool IsKept(TensorKind kind) {
  return kind != TensorKind::kAmaxHistory && kind != TensorKind::kNextScale;
}

bool IsAmax(TensorKind kind) {
  return kind == TensorKind::kRowwiseAmax ||
         kind == TensorKind::kColumnwiseAmax || kind == TensorKind::kAmax;
}

}  // namespace

std::string_view SafetensorsName(DType t) {
  for (const NameRow& row : kNames) {
    if (row.dtype == t) return row.name;
  }
  return "";
}

DType FromSafetensorsName(std::string_view name) {
  for (const NameRow& row : kNames) {
    if (row.name == name) return row.dtype;
  }
  return DType::kUnspecified;
}

absl::StatusOr<QuantizedFile> QuantizedFile::Open(const std::string& path) {
  auto file = safetensors::File::Open(path);
  if (!file.ok()) return file.status();
  const auto version = file->metadata().find(kVersionKey);
  if (version == file->metadata().end()) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: not a file of quantized tensors (no {} in its metadata); make "
        "one with 'quantctl quantize'",
        path, kVersionKey));
  }
  if (std::ranges::find(kVersions, version->second) == std::end(kVersions)) {
    return absl::InvalidArgumentError(
        fmt::format("{}: layout version \"{}\" is newer than this program, "
                    "which reads up to version {}",
                    path, version->second.substr(0, 40), kVersion));
  }
  QuantizedFile out;
  out.path_ = path;
  out.file_ = std::make_shared<const safetensors::File>(*std::move(file));
  return out;
}

std::vector<std::string> QuantizedFile::names() const {
  std::vector<std::string> names;
  for (const auto& [key, value] : file_->metadata()) {
    if (std::string_view(key).substr(0, kTensorPrefix.size()) ==
        kTensorPrefix) {
      names.push_back(key.substr(kTensorPrefix.size()));
    }
  }
  return names;
}

absl::Status QuantizedFile::Bad(std::string_view name,
                                std::string_view why) const {
  return absl::InvalidArgumentError(
      fmt::format("{}: tensor \"{}\": {}", path_, name.substr(0, 200), why));
}

absl::StatusOr<QuantizedFile::Located> QuantizedFile::Locate(
    std::string_view name) const {
  const auto entry = file_->metadata().find(MetadataKey(name));
  if (entry == file_->metadata().end()) {
    return absl::NotFoundError(
        fmt::format("{}: no quantized tensor \"{}\"", path_, name));
  }
  const auto description = client::ParseDescription(entry->second);
  if (!description.ok()) {
    return Bad(name, std::string(description.status().message()));
  }
  auto made = QuantizedTensor::Make(description->tensor, description->options);
  if (!made.ok()) return Bad(name, std::string(made.status().message()));
  Located located = {*std::move(made), {}};
  for (const TensorSpec& spec : located.tensor.parts_) {
    const std::string part = PartName(name, spec.kind);
    const safetensors::Tensor* found = file_->Find(part);
    if (found == nullptr) {
      return Bad(name, fmt::format("its part {} is missing", Name(spec.kind)));
    }
    if (found->dtype != SafetensorsName(spec.dtype) ||
        found->shape != spec.shape || found->size != spec.size) {
      return Bad(
          name,
          fmt::format("its part {} does not have the type or shape that its "
                      "description states",
                      Name(spec.kind)));
    }
    located.parts.push_back(found);
  }
  return located;
}

absl::StatusOr<QuantizedFile::Description> QuantizedFile::Describe(
    std::string_view name) const {
  const auto located = Locate(name);
  if (!located.ok()) return located.status();
  return Description{located->tensor.desc(), located->tensor.options()};
}

absl::StatusOr<QuantizedTensor> QuantizedFile::Load(
    std::string_view name, const AllocateMemory& allocate) const {
  auto located = Locate(name);
  if (!located.ok()) return located.status();
  QuantizedTensor& out = located->tensor;
  size_t total = 0;
  std::vector<size_t> places;
  for (const safetensors::Tensor* part : located->parts) {
    places.push_back(total);
    total += (part->size + kPayloadAlignment - 1) / kPayloadAlignment *
             kPayloadAlignment;
  }
  auto made = allocate ? allocate(total) : HostMemory::Ordinary(total);
  if (!made.ok()) return made.status();
  const auto memory = std::make_shared<const HostMemory>(*std::move(made));
  for (size_t i = 0; i < places.size(); ++i) {
    const safetensors::Tensor& part = *located->parts[i];
    const auto bytes = memory->bytes().subspan(places[i], part.size);
    if (auto s = file_->Read(part, 0, bytes); !s.ok()) return s;
    out.spans_.push_back(bytes);
  }
  out.owner_ = memory;
  for (const TensorSpec& spec : out.parts_) {
    if (!IsAmax(spec.kind)) continue;
    for (const float amax : out.as<float>(spec.kind)) {
      if (amax < 0) return Bad(name, "its amax is negative");
    }
  }
  return std::move(out);
}

std::vector<safetensors::Tensor> QuantizedFile::Parts(
    std::string_view name, const TensorDesc& tensor,
    const QuantizeOptions& options) {
  std::vector<safetensors::Tensor> planned;
  const auto plan = MakeQuantizePlan(tensor, options);
  if (!plan.ok()) return planned;
  for (const TensorSpec& spec : plan->outputs()) {
    if (!IsKept(spec.kind)) continue;
    planned.push_back({PartName(name, spec.kind),
                       std::string(SafetensorsName(spec.dtype)), spec.shape, 0,
                       spec.size});
  }
  return planned;
}

std::string QuantizedFile::MetadataKey(std::string_view name) {
  return fmt::format("{}{}", kTensorPrefix, name);
}

safetensors::Metadata QuantizedFile::Metadata(
    const std::map<std::string, Description>& tensors) {
  safetensors::Metadata metadata;
  metadata.emplace(kVersionKey, std::string(kVersionBefore));
  for (const auto& [name, d] : tensors) {
    metadata[MetadataKey(name)] = client::Describe(d);
    if (d.options.profile != Profile::kTe ||
        d.options.format == Format::kFp8ChannelE4M3) {
      metadata[kVersionKey] = std::string(kVersion);
    }
    // All tensors of one profile: the profile's name. Otherwise "several".
    const std::string_view numerics = Name(d.options.profile);
    const auto [at, first] =
        metadata.emplace(kNumericsKey, std::string(numerics));
    if (!first && at->second != numerics) at->second = "several";
  }
  return metadata;
}

absl::Status QuantizedFile::Append(safetensors::Writer& writer,
                                   std::string_view name,
                                   const QuantizedTensor& tensor) {
  for (size_t i = 0; i < tensor.parts_.size(); ++i) {
    if (!IsKept(tensor.parts_[i].kind)) continue;
    const std::string part = PartName(name, tensor.parts_[i].kind);
    if (auto s = writer.Append(part, tensor.spans_[i]); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status QuantizedTensor::Save(const std::string& path,
                                   std::string_view name) const {
  auto writer = safetensors::Writer::Create(
      path, QuantizedFile::Parts(name, desc_, options_),
      QuantizedFile::Metadata({{std::string(name), {desc_, options_}}}));
  if (!writer.ok()) return writer.status();
  if (auto s = QuantizedFile::Append(*writer, name, *this); !s.ok()) return s;
  return writer->Commit();
}

absl::StatusOr<QuantizedTensor> QuantizedTensor::Load(const std::string& path,
                                                      std::string_view name) {
  auto file = QuantizedFile::Open(path);
  if (!file.ok()) return file.status();
  if (!name.empty()) return file->Load(name);
  const std::vector<std::string> names = file->names();
  if (names.size() != 1) {
    return absl::InvalidArgumentError(
        fmt::format("{}: holds {} quantized tensors; name one of them", path,
                    names.size()));
  }
  return file->Load(names[0]);
}

}  // namespace quantd
