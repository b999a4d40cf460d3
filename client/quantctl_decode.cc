#include <cmath>
#include <limits>
#include <utility>

#include "client/npy.h"
#include "client/quantctl.h"
#include "client/quantized_file.h"
#include "client/safetensors.h"
#include "client/tensor_math.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace quantd::quantctl {
namespace {

// Writes what was decoded, one tensor to .npy or many to .safetensors.
class DecodedOutput {
 public:
  absl::Status Open(const std::string& path,
                    std::vector<safetensors::Tensor> planned) {
    path_ = path;
    if (HasExtension(path, ".npy")) return absl::OkStatus();
    auto writer = safetensors::Writer::Create(path, std::move(planned), {});
    if (!writer.ok()) return writer.status();
    writer_.emplace(*std::move(writer));
    return absl::OkStatus();
  }
  absl::Status Append(const std::string& name, DType dtype,
                      const std::vector<int64_t>& shape,
                      absl::Span<const std::byte> bytes) {
    if (writer_) return writer_->Append(name, bytes);
    return npy::Write(path_, dtype, shape, bytes);
  }
  absl::Status Commit() {
    return writer_ ? writer_->Commit() : absl::OkStatus();
  }

 private:
  std::string path_;
  std::optional<safetensors::Writer> writer_;
};

// The copy the user named, or the only one, or the rowwise one.
Usage PickCopy(const Options& options, const QuantizedTensor& q) {
  if (options.decode_usage != Usage::kUnspecified) return options.decode_usage;
  return HasRowwise(q.usage()) ? Usage::kRowwise : Usage::kColumnwise;
}

absl::StatusOr<double> SqnrOf(Client& client, const Options& options,
                              const InputTensor& t, const QuantizedTensor& q,
                              Usage copy, Record* r) {
  const DType dtype =
      options.dtype == DType::kUnspecified ? DType::kF32 : options.dtype;
  const auto decoded = q.DequantizeCopy(client, copy, dtype, CallOf(options));
  if (!decoded.ok()) return decoded.status();
  if (r != nullptr) Credit(*decoded, r);
  return client::SqnrDb(t.desc.dtype, t.bytes, dtype,
                        decoded->bytes(TensorKind::kDequantized));
}

absl::StatusOr<QuantizedTensor> QuantizeOne(Client& client,
                                            const Options& options,
                                            const InputTensor& t,
                                            const QuantizeOptions& how,
                                            Record* r) {
  auto result = client.Quantize(t.desc, t.bytes, how, CallOf(options));
  if (!result.ok()) return result.status();
  Credit(*result, r);
  return QuantizedTensor::FromResult(t.desc, how, *std::move(result));
}

// Quantizes, decodes and compares; with RHT also without, since only the
// difference tells what the rotation did.
absl::Status Roundtrip(Client& client, const Options& options,
                       const InputTensor& t, Record* r) {
  const Timer timer;
  const auto q = QuantizeOne(client, options, t, options.quantize, r);
  if (!q.ok()) return q.status();
  r->bytes_out = q->size_bytes();
  QuantizeOptions plain = options.quantize;
  plain.rht = {};
  plain.amax_estimation_scale.reset();
  // Not again what was asked for once.
  plain.statistics = plain.dbias = plain.amax = false;
  plain.dbias_dtype = DType::kUnspecified;
  std::optional<QuantizedTensor> unrotated;
  r->copies = CopiesOf(*q);
  for (CopyRow& row : r->copies) {
    const auto sqnr = SqnrOf(client, options, t, *q, *ParseUsage(row.name), r);
    if (!sqnr.ok()) return sqnr.status();
    row.sqnr_db = *sqnr;
  }
  r->seconds = timer.seconds();
  for (CopyRow& row : r->copies) {
    const Usage usage = *ParseUsage(row.name);
    const auto copy = usage == Usage::kRowwise ? q->rowwise() : q->columnwise();
    if (!copy->rotated) continue;
    if (!unrotated) {
      // An amax that was given belongs to the rotated values.
      plain.rowwise_amax.clear();
      plain.columnwise_amax.clear();
      auto made = QuantizeOne(client, options, t, plain, r);
      if (!made.ok()) return made.status();
      unrotated = *std::move(made);
    }
    const auto sqnr = SqnrOf(client, options, t, *unrotated, usage, nullptr);
    if (!sqnr.ok()) return sqnr.status();
    row.sqnr_db_without_rht = *sqnr;
  }
  return absl::OkStatus();
}

void ExplainRht(Format format, Report* report) {
  std::vector<std::string> lower;
  for (const Record& r : report->tensors) {
    for (const CopyRow& c : r.copies) {
      if (!c.sqnr_db_without_rht || !c.sqnr_db) continue;
      // A hundredth of a decibel is noise.
      if (!(*c.sqnr_db < *c.sqnr_db_without_rht - 0.01)) continue;
      lower.push_back(fmt::format("{} ({}, {:.2f} to {:.2f} dB)", r.name,
                                  c.name, *c.sqnr_db_without_rht, *c.sqnr_db));
    }
  }
  if (lower.empty()) return;
  report->notes.push_back(fmt::format(
      "RHT lowers the SQNR of {}. That is expected where a few values stand "
      "out: every {} elements have a scale of their own, so an outlier spoils "
      "only its block, and the rotation spreads it over the whole of it. RHT "
      "is for gradients in training; leave it off for weights and "
      "checkpoints.",
      fmt::join(lower, ", "), FindFormat(format)->block));
}

}  // namespace

int RunDequantize(const Options& options) {
  const auto file = QuantizedFile::Open(options.input);
  if (!file.ok()) return Fail(options, kBadInput, file.status());
  const bool npy = HasExtension(options.output, ".npy");
  if (!npy && !HasExtension(options.output, ".safetensors")) {
    return Fail(options, kUsage,
                absl::InvalidArgumentError(fmt::format(
                    "--output {}: neither .npy nor .safetensors by its name",
                    options.output)));
  }
  const std::vector<std::string> names =
      options.tensors.empty() ? file->names() : options.tensors;
  if (names.empty()) {
    return Fail(options, kBadInput,
                absl::InvalidArgumentError(fmt::format(
                    "{}: holds no quantized tensor", options.input)));
  }
  if (npy && names.size() != 1) {
    return Fail(options, kUsage,
                absl::InvalidArgumentError(fmt::format(
                    "{}: a .npy file holds one tensor, {} are to be decoded; "
                    "name one with --tensor or write a .safetensors file",
                    options.output, names.size())));
  }
  std::vector<QuantizedTensor> tensors;
  std::vector<DType> dtypes;
  std::vector<safetensors::Tensor> planned;
  for (const std::string& name : names) {
    auto q = file->Load(name);
    if (!q.ok()) return Fail(options, kBadInput, q.status());
    DType dtype =
        options.dtype == DType::kUnspecified ? q->dtype() : options.dtype;
    // numpy has no bf16; every bf16 number is an fp32 one.
    if (npy && options.dtype == DType::kUnspecified && dtype == DType::kBF16) {
      dtype = DType::kF32;
    }
    if (npy && dtype == DType::kBF16) {
      return Fail(options, kUsage,
                  absl::InvalidArgumentError(
                      "--dtype bf16: .npy has no bf16; choose f32 or f16, or "
                      "write a .safetensors file"));
    }
    const size_t elements = q->original_size_bytes() / SizeOf(q->dtype());
    planned.push_back({name, std::string(SafetensorsName(dtype)), q->shape(), 0,
                       elements * SizeOf(dtype)});
    dtypes.push_back(dtype);
    tensors.push_back(*std::move(q));
  }
  const auto client = Connect(options);
  if (!client.ok()) return Fail(options, kUsage, client.status());
  DecodedOutput output;
  if (auto s = output.Open(options.output, std::move(planned)); !s.ok()) {
    return Fail(options, kCannotWrite, s);
  }
  Report report;
  report.command = "dequantize";
  report.server = options.server;
  report.input = options.input;
  Progress progress(names.size());
  bool any = false;
  for (size_t i = 0; i < names.size(); ++i) {
    const QuantizedTensor& q = tensors[i];
    Record r;
    r.name = names[i];
    r.dtype = Name(dtypes[i]);
    r.shape = q.shape();
    r.bytes_in = q.size_bytes();
    progress.Show(i, r.name);
    const Usage usage = PickCopy(options, q);
    const Timer timer;
    const auto decoded =
        q.DequantizeCopy(**client, usage, dtypes[i], CallOf(options));
    r.seconds = timer.seconds();
    if (decoded.ok()) {
      any = true;
      Credit(*decoded, &r);
      const auto bytes = decoded->bytes(TensorKind::kDequantized);
      r.bytes_out = bytes.size();
      for (CopyRow& row : CopiesOf(q)) {
        if (row.name == Name(usage)) r.copies.push_back(std::move(row));
      }
      if (auto s = output.Append(names[i], dtypes[i], q.shape(), bytes);
          !s.ok()) {
        return Fail(options, kCannotWrite, s);
      }
    } else {
      r.error = decoded.status();
    }
    report.tensors.push_back(std::move(r));
    if (CodeOf(report.tensors.back().error) == kUnreachable) break;
  }
  if (any) {
    if (auto s = output.Commit(); !s.ok()) {
      return Fail(options, kCannotWrite, s);
    }
    report.output = options.output;
  }
  return Finish(options, report);
}

int RunRoundtrip(const Options& options) {
  const auto input = OpenInput(options, [&](const TensorDesc& d) {
    return MakeQuantizePlan(d, options.quantize).status();
  });
  if (!input.ok()) return Fail(options, kBadInput, input.status());
  const auto client = Connect(options);
  if (!client.ok()) return Fail(options, kUsage, client.status());
  Report report = ReportOf("roundtrip", options, *input);
  {
    const auto tensors = Eligible(*input);
    Progress progress(tensors.size());
    for (const InputTensor* t : tensors) {
      Record r = RecordOf(*t);
      progress.Show(report.tensors.size(), r.name);
      r.error = Roundtrip(**client, options, *t, &r);
      report.tensors.push_back(std::move(r));
      if (CodeOf(report.tensors.back().error) == kUnreachable) break;
    }
  }
  ExplainRht(options.quantize.format, &report);
  return Finish(options, report);
}

}  // namespace quantd::quantctl
