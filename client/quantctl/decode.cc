// Implements `quantctl dequantize`.
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "client/files/npy.h"
#include "client/files/quantized_file.h"
#include "client/files/safetensors.h"
#include "client/quantctl/commands.h"
#include "client/tensors/piece_work.h"
#include "fmt/format.h"

namespace quantd::quantctl {
namespace {

// Writes decoded tensors: one to a .npy file, or any number to a .safetensors
// file.
class DecodedOutput {
 public:
  static absl::StatusOr<DecodedOutput> Create(
      OutputFile file, bool npy, std::vector<safetensors::Tensor> planned,
      DType first) {
    DecodedOutput output;
    if (npy) {
      auto writer =
          npy::Writer::Create(std::move(file), first, planned.at(0).shape);
      if (!writer.ok()) return writer.status();
      output.npy_.emplace(*std::move(writer));
      return output;
    }
    auto writer =
        safetensors::Writer::Create(std::move(file), std::move(planned), {});
    if (!writer.ok()) return writer.status();
    output.safetensors_.emplace(*std::move(writer));
    return output;
  }
  absl::Status Write(const std::string& name, size_t offset,
                     absl::Span<const std::byte> bytes) {
    return npy_ ? npy_->Write(offset, bytes)
                : safetensors_->Write(name, offset, bytes);
  }
  absl::Status Commit() {
    return npy_ ? npy_->Commit() : safetensors_->Commit();
  }

 private:
  std::optional<npy::Writer> npy_;
  std::optional<safetensors::Writer> safetensors_;
};

// Writes a decoded piece of a matrix with `cols` columns to its position
// `place`.
absl::Status WritePiece(DecodedOutput& output, const std::string& name,
                        int64_t cols, size_t element, const Shard& place,
                        absl::Span<const std::byte> bytes) {
  const int64_t runs = place.cols == cols ? 1 : place.rows;
  const size_t run =
      bytes.size() / static_cast<size_t>(std::max<int64_t>(runs, 1));
  for (int64_t i = 0; i < runs; ++i) {
    const auto begin =
        static_cast<size_t>((place.row + i) * cols + place.column) * element;
    const auto s = output.Write(
        name, begin, bytes.subspan(static_cast<size_t>(i) * run, run));
    if (!s.ok()) return s;
  }
  return absl::OkStatus();
}

// The copy to decode: the one that the user named, or the only one, or the
// rowwise copy.
Usage PickCopy(const Options& options, Usage usage) {
  if (options.decode_usage != Usage::kUnspecified) return options.decode_usage;
  return HasRowwise(usage) ? Usage::kRowwise : Usage::kColumnwise;
}

// The size of a copy's codes and scales.
uint64_t CopyBytes(const Plan& plan, Usage usage) {
  const bool columnwise = usage == Usage::kColumnwise;
  uint64_t bytes = 0;
  for (const TensorKind kind :
       {columnwise ? TensorKind::kColumnwiseData : TensorKind::kRowwiseData,
        columnwise ? TensorKind::kColumnwiseScale
                   : TensorKind::kRowwiseScale}) {
    if (const TensorSpec* part = plan.output(kind)) bytes += part->size;
  }
  return bytes;
}

}  // namespace

int RunDequantize(const Options& options) {
  const auto file = QuantizedFile::Open(options.input);
  if (!file.ok()) return Fail(options, kBadInput, file.status());
  const bool npy = HasExtension(options.output, ".npy");
  const std::vector<std::string> names =
      options.tensors.empty() ? file->names() : options.tensors;
  if (names.empty()) {
    return Fail(options, kBadInput,
                absl::InvalidArgumentError(fmt::format(
                    "{}: the file has no quantized tensor", options.input)));
  }
  if (npy && names.size() != 1) {
    return Fail(
        options, kUsage,
        absl::InvalidArgumentError(fmt::format(
            "{}: a .npy file holds one tensor, but {} are to be decoded; name "
            "one with --tensor, or write a .safetensors file",
            options.output, names.size())));
  }
  std::vector<DType> dtypes;
  std::vector<int64_t> cols;
  std::vector<safetensors::Tensor> planned;
  uint64_t total = 0;
  for (const std::string& name : names) {
    const auto d = file->Describe(name);
    if (!d.ok()) return Fail(options, kBadInput, d.status());
    DType dtype =
        options.dtype == DType::kUnspecified ? d->tensor.dtype : options.dtype;
    // NumPy has no bf16. Every bf16 number is exact in fp32.
    if (npy && options.dtype == DType::kUnspecified && dtype == DType::kBF16) {
      dtype = DType::kF32;
    }
    if (npy && dtype == DType::kBF16) {
      return Fail(options, kUsage,
                  absl::InvalidArgumentError(
                      "--dtype bf16: .npy files cannot hold bf16; use f32 or "
                      "f16, or write a .safetensors file"));
    }
    const auto plan = MakeQuantizePlan(d->tensor, d->options);
    if (!plan.ok()) return Fail(options, kBadInput, plan.status());
    total += CopyBytes(*plan, PickCopy(options, d->options.usage));
    planned.push_back(
        {name, std::string(SafetensorsName(dtype)), d->tensor.shape, 0,
         static_cast<size_t>(plan->rows() * plan->cols()) * SizeOf(dtype)});
    dtypes.push_back(dtype);
    cols.push_back(plan->cols());
  }
  const auto client = Connect(options);
  if (!client.ok()) return FailToConnect(options, client.status());
  auto target = OpenOutput(options, file->identity());
  if (!target.ok()) return Fail(options, kCannotWrite, target.status());
  auto progress = std::make_unique<Progress>(total);
  const auto pieces = PiecesOf(**client, options, progress.get());
  if (!pieces.ok()) {
    return Fail(options, CodeOf(pieces.status()), pieces.status());
  }
  auto output =
      DecodedOutput::Create(*std::move(target), npy, planned, dtypes[0]);
  if (!output.ok()) return Fail(options, kCannotWrite, output.status());
  Report report;
  report.command = "dequantize";
  report.server = options.server;
  report.input = options.input;
  for (size_t i = 0; i < names.size(); ++i) {
    auto q = file->Load(names[i], [&](size_t bytes) {
      return client::Allocate(**client, bytes);
    });
    if (!q.ok()) return Fail(options, kBadInput, q.status());
    if (options.decode_profile) {
      q = q->ReadAs(*options.decode_profile);
      if (!q.ok()) return Fail(options, kUsage, q.status());
    }
    Record r;
    r.name = names[i];
    r.dtype = Name(dtypes[i]);
    r.shape = q->shape();
    r.bytes_in = q->size_bytes();
    progress->Name(r.name);
    const Usage usage = PickCopy(options, q->usage());
    const Timer timer;
    absl::Status cannot_write;
    r.error = DequantizeInPieces(
        **client, *q, usage, dtypes[i],
        [&](const Shard& place, const Result& decoded) {
          Credit(decoded, &r);
          const auto bytes = decoded.bytes(TensorKind::kDequantized);
          r.bytes_out += bytes.size();
          cannot_write = WritePiece(*output, names[i], cols[i],
                                    SizeOf(dtypes[i]), place, bytes);
          return cannot_write;
        },
        *pieces, CallOf(options));
    r.seconds = timer.seconds();
    if (!cannot_write.ok()) return Fail(options, kCannotWrite, cannot_write);
    for (CopyRow& row : CopiesOf(*q)) {
      if (row.name == Name(usage)) r.copies.push_back(std::move(row));
    }
    report.tensors.push_back(std::move(r));
    if (CodeOf(report.tensors.back().error) == kUnreachable) break;
  }
  progress.reset();
  return Finish(options, &report, [&] { return output->Commit(); });
}

}  // namespace quantd::quantctl
