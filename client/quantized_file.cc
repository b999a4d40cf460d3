#include "client/quantized_file.h"

#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "fmt/format.h"

namespace quantd {
namespace {

using nlohmann::json;

constexpr char kVersionKey[] = "quantd.version";
constexpr char kVersion[] = "1";
constexpr std::string_view kTensorPrefix = "quantd.tensor.";
// One description is some 300 bytes; far beyond that it is no description.
constexpr size_t kMaxDescription = 16 << 10;

struct NameRow {
  DType dtype;
  std::string_view name;
};
// The packed type first: reading "U8" back gives it.
constexpr NameRow kNames[] = {
    {DType::kE2M1x2, "U8"},    {DType::kF32, "F32"},
    {DType::kF16, "F16"},      {DType::kBF16, "BF16"},
    {DType::kE4M3, "F8_E4M3"}, {DType::kE5M2, "F8_E5M2"},
    {DType::kE8M0, "F8_E8M0"},
};

std::string PartName(std::string_view tensor, TensorKind kind) {
  return fmt::format("{}.{}", tensor, Name(kind));
}

std::string Describe(const TensorDesc& tensor, const QuantizeOptions& o) {
  return json{
      {"format", Name(o.format)},
      {"shape", tensor.shape},
      {"dtype", Name(tensor.dtype)},
      {"flatten_axis", tensor.flatten_axis},
      {"usage", Name(o.usage)},
      {"rht",
       {{"rowwise", o.rht.rowwise},
        {"columnwise", o.rht.columnwise},
        {"dimension", o.rht.dimension},
        {"sign_mask", SignMaskToHex(o.rht.sign_mask, o.rht.dimension)}}},
      {"non_finite", Name(o.non_finite)},
      {"scale_layout", Name(Layout::kLinear)}}
      .dump();
}

// Reads fields of one JSON object and remembers whether all were there and of
// the right type.
class Fields {
 public:
  explicit Fields(const json& object) : object_(object) {}
  bool ok() const { return ok_; }

  std::string Text(const char* key) {
    const json* v = Find(key);
    if (v == nullptr || !v->is_string()) return Fail(std::string());
    return v->get<std::string>();
  }
  bool Flag(const char* key) {
    const json* v = Find(key);
    if (v == nullptr || !v->is_boolean()) return Fail(false);
    return v->get<bool>();
  }
  int Small(const char* key) {
    const json* v = Find(key);
    if (v == nullptr || !v->is_number_integer()) return Fail(0);
    const auto value = v->get<int64_t>();
    if (value < -1000 || value > 1000) return Fail(0);
    return static_cast<int>(value);
  }
  std::vector<int64_t> Shape(const char* key) {
    const json* v = Find(key);
    if (v == nullptr || !v->is_array()) return Fail(std::vector<int64_t>());
    std::vector<int64_t> shape;
    for (const json& d : *v) {
      if (!d.is_number_unsigned()) return Fail(shape);
      // Beyond 2^63 it turns negative, which the plan refuses.
      shape.push_back(static_cast<int64_t>(d.get<uint64_t>()));
    }
    return shape;
  }
  template <typename T>
  T Parsed(std::optional<T> value) {
    return value ? *value : Fail(T{});
  }

 private:
  const json* Find(const char* key) {
    const auto it = object_.find(key);
    return it == object_.end() ? nullptr : &*it;
  }
  template <typename T>
  T Fail(T value) {
    ok_ = false;
    return value;
  }
  const json& object_;
  bool ok_ = true;
};

absl::StatusOr<QuantizedFile::Description> ParseDescription(
    const std::string& text) {
  const auto bad = [] {
    return absl::InvalidArgumentError(
        "its description in the metadata is malformed");
  };
  if (text.size() > kMaxDescription) return bad();
  const json object = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object() || !object.contains("rht") ||
      !object["rht"].is_object()) {
    return bad();
  }
  QuantizedFile::Description d;
  Fields f(object);
  d.options.format = f.Parsed(ParseFormat(f.Text("format")));
  d.tensor.shape = f.Shape("shape");
  d.tensor.dtype = f.Parsed(ParseDType(f.Text("dtype")));
  d.tensor.flatten_axis = f.Small("flatten_axis");
  d.options.usage = f.Parsed(ParseUsage(f.Text("usage")));
  d.options.non_finite = f.Parsed(ParseNonFinite(f.Text("non_finite")));
  Fields rht(object["rht"]);
  d.options.rht.rowwise = rht.Flag("rowwise");
  d.options.rht.columnwise = rht.Flag("columnwise");
  d.options.rht.dimension = rht.Small("dimension");
  if (d.options.rht.dimension != 16) rht.Parsed(std::optional<int>());
  d.options.rht.sign_mask = rht.Parsed(SignMaskFromHex(
      rht.Text("sign_mask"), rht.ok() ? d.options.rht.dimension : 16));
  if (!f.ok() || !rht.ok() || f.Text("scale_layout") != Name(Layout::kLinear)) {
    return bad();
  }
  return d;
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

std::string SignMaskToHex(const SignMask& mask, int dimension) {
  const std::string bytes = SignMaskToBytes(mask, dimension);
  fmt::memory_buffer hex;
  fmt::format_to(std::back_inserter(hex), "0x");
  for (auto it = bytes.rbegin(); it != bytes.rend(); ++it) {
    fmt::format_to(std::back_inserter(hex), "{:02X}",
                   static_cast<unsigned char>(*it));
  }
  return fmt::to_string(hex);
}

std::optional<SignMask> SignMaskFromHex(std::string_view text, int dimension) {
  if (text.substr(0, 2) == "0x" || text.substr(0, 2) == "0X") {
    text.remove_prefix(2);
  }
  if (text.empty() || text.size() > static_cast<size_t>(dimension) / 4) {
    return std::nullopt;
  }
  SignMask mask = {};
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[text.size() - 1 - i];
    uint64_t digit = 0;
    if (c >= '0' && c <= '9') {
      digit = c - '0';
    } else if (c >= 'a' && c <= 'f') {
      digit = c - 'a' + 10;
    } else if (c >= 'A' && c <= 'F') {
      digit = c - 'A' + 10;
    } else {
      return std::nullopt;
    }
    mask.words[i / 16] |= digit << (4 * (i % 16));
  }
  return mask;
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
  if (version->second != kVersion) {
    return absl::InvalidArgumentError(
        fmt::format("{}: version \"{}\" of the layout is newer than this "
                    "program, which knows {}",
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

absl::StatusOr<QuantizedTensor> QuantizedFile::Load(
    std::string_view name) const {
  const auto entry = file_->metadata().find(MetadataKey(name));
  if (entry == file_->metadata().end()) {
    return absl::NotFoundError(
        fmt::format("{}: no quantized tensor \"{}\"", path_, name));
  }
  const auto bad = [&](std::string_view why) {
    return absl::InvalidArgumentError(
        fmt::format("{}: tensor \"{}\": {}", path_, name.substr(0, 200), why));
  };
  const auto description = ParseDescription(entry->second);
  if (!description.ok())
    return bad(std::string(description.status().message()));
  const auto plan = MakeQuantizePlan(description->tensor, description->options);
  if (!plan.ok()) return bad(std::string(plan.status().message()));
  QuantizedTensor out;
  out.desc_ = description->tensor;
  out.options_ = std::get<QuantizeOptions>(plan->options());
  out.parts_ = plan->outputs();
  out.owner_ = file_;
  for (const TensorSpec& spec : out.parts_) {
    const std::string part = PartName(name, spec.kind);
    const safetensors::Tensor* found = file_->Find(part);
    if (found == nullptr) {
      return bad(fmt::format("its part {} is missing", Name(spec.kind)));
    }
    if (found->dtype != SafetensorsName(spec.dtype) ||
        found->shape != spec.shape || found->size != spec.size) {
      return bad(
          fmt::format("its part {} has another type or shape than its "
                      "description demands",
                      Name(spec.kind)));
    }
    out.spans_.push_back(file_->bytes(*found));
    if (spec.dtype == DType::kF32) {
      float amax = 0;
      std::memcpy(&amax, out.spans_.back().data(), sizeof amax);
      if (amax < 0) return bad("its amax is negative");
    }
  }
  return out;
}

std::vector<safetensors::Tensor> QuantizedFile::Plan(
    std::string_view name, const TensorDesc& tensor,
    const QuantizeOptions& options) {
  std::vector<safetensors::Tensor> planned;
  const auto plan = MakeQuantizePlan(tensor, options);
  if (!plan.ok()) return planned;
  for (const TensorSpec& spec : plan->outputs()) {
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
  metadata.emplace(kVersionKey, kVersion);
  for (const auto& [name, d] : tensors) {
    metadata[MetadataKey(name)] = Describe(d.tensor, d.options);
  }
  return metadata;
}

absl::Status QuantizedFile::Append(safetensors::Writer& writer,
                                   std::string_view name,
                                   const QuantizedTensor& tensor) {
  for (size_t i = 0; i < tensor.parts_.size(); ++i) {
    const std::string part = PartName(name, tensor.parts_[i].kind);
    if (auto s = writer.Append(part, tensor.spans_[i]); !s.ok()) return s;
  }
  return absl::OkStatus();
}

}  // namespace quantd
