#include "kernels/device/health/self_test.h"

#include <bit>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>

#include "fmt/format.h"
#include "quantd/options.h"
#include "quantd/plan.h"

namespace quantd {
namespace {

// Whole tiles and a partial one, so that padding is tested, too.
constexpr int64_t kRows = 144;
constexpr int64_t kCols = 160;

// FNV-1a of 64 bits. Bytes between tensors are not written, so they are
// skipped.
uint64_t Fingerprint(const Plan& plan, const std::vector<std::byte>& outputs) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const TensorSpec& spec : plan.outputs()) {
    for (size_t i = 0; i < spec.size; ++i) {
      const auto b = static_cast<uint64_t>(outputs[spec.offset + i]);
      hash = (hash ^ b) * 0x100000001b3;
    }
  }
  return hash;
}

// Fills with pseudorandom bf16 of both signs, over twelve binary orders of
// magnitude, with a few zeros. Uses no library, so that the numbers never
// change.
void FillValues(absl::Span<std::byte> bytes) {
  uint64_t state = 1;
  for (size_t i = 0; i + 2 <= bytes.size(); i += 2) {
    state = state * 6364136223846793005 + 1442695040888963407;
    const uint64_t random = state >> 33;
    const uint16_t exponent = 121 + random % 12;
    const uint16_t value =
        random % 61 == 0
            ? 0
            : static_cast<uint16_t>((random >> 8 & 0x807f) | exponent << 7);
    std::memcpy(&bytes[i], &value, 2);
  }
}

// A job and its input.
struct KnownJob {
  std::string name;
  absl::StatusOr<Plan> plan;
  // Whether the job decodes the output of the job before it.
  bool decodes = false;
};

std::vector<KnownJob> MakeJobs() {
  const TensorDesc tensor = {.dtype = DType::kBF16, .shape = {kRows, kCols}};
  std::vector<KnownJob> jobs;
  for (const FormatSpec& spec : kFormats) {
    QuantizeOptions quantize;
    quantize.format = spec.format;
    quantize.usage = Usage::kBoth;
    jobs.push_back(
        {std::string(spec.name), MakeQuantizePlan(tensor, quantize)});
  }
  QuantizeOptions rotated;
  rotated.format = Format::kNvfp4;
  rotated.usage = Usage::kBoth;
  rotated.rht.rowwise = rotated.rht.columnwise = true;
  rotated.rounding = Rounding::kStochastic;
  rotated.stochastic.seed = 7;
  jobs.push_back({"nvfp4 rotated", MakeQuantizePlan(tensor, rotated)});
  for (const Format format : {Format::kNvfp4, Format::kMxfp8E4M3,
                              Format::kFp8E4M3, Format::kFp8BlockE4M3}) {
    QuantizeOptions quantize;
    quantize.format = format;
    DequantizeOptions dequantize;
    dequantize.format = format;
    dequantize.output = DType::kF32;
    const std::string name(FindFormat(format)->name);
    jobs.push_back({name + " rowwise", MakeQuantizePlan(tensor, quantize)});
    jobs.push_back(
        {name + " decoded", MakeDequantizePlan(tensor, dequantize), true});
  }
  RhtAmaxOptions amax;
  amax.rowwise = amax.rowwise_rht = amax.columnwise_rht = true;
  jobs.push_back({"rht_amax", MakeRhtAmaxPlan(tensor, amax)});
  jobs.push_back({"apply_rht", MakeApplyRhtPlan(tensor, ApplyRhtOptions())});
  return jobs;
}

// Copies the input of a decoding job from the output of an encoding one, part
// by part.
absl::Status CopyParts(const Plan& from, const std::vector<std::byte>& outputs,
                       const Plan& to, absl::Span<std::byte> staging) {
  for (const TensorSpec& want : to.inputs()) {
    const TensorSpec* found = nullptr;
    for (const TensorSpec& have : from.outputs()) {
      if (have.kind == want.kind && have.size == want.size) found = &have;
    }
    if (found == nullptr) {
      return absl::InternalError("a part that decoding needs is missing");
    }
    std::memcpy(&staging[want.offset], &outputs[found->offset], want.size);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<KnownAnswer>> RunKnownJobs(Backend& backend) {
  std::vector<KnownAnswer> answers;
  std::shared_ptr<const Plan> before;
  std::vector<std::byte> outputs;
  for (KnownJob& known : MakeJobs()) {
    if (!known.plan.ok()) return known.plan.status();
    const auto plan = std::make_shared<const Plan>(*std::move(known.plan));
    auto job = backend.Begin(plan);
    if (!job.ok()) return job.status();
    if (known.decodes) {
      const absl::Status handed =
          CopyParts(*before, outputs, *plan, (*job)->staging());
      if (!handed.ok()) return handed;
    } else {
      FillValues((*job)->staging());
    }
    const auto report = (*job)->Run();
    if (!report.ok()) return report.status();
    const Block block = (*job)->TakeOutput();
    outputs.assign(block.data(), block.data() + block.size());
    before = plan;
    answers.push_back({known.name, Fingerprint(*plan, outputs)});
  }
  return answers;
}

absl::Status SelfTest(Backend& backend) {
  if (!backend.stats().healthy) {
    return absl::UnavailableError(backend.info().name +
                                  " says that it has faulted");
  }
  if (!backend.info().computes) return absl::OkStatus();
  const auto answers = RunKnownJobs(backend);
  if (!answers.ok()) return answers.status();
  const absl::Span<const KnownAnswer> known = KnownAnswers();
  for (size_t i = 0; i < known.size(); ++i) {
    if (i < answers->size() &&
        (*answers)[i].fingerprint == known[i].fingerprint) {
      continue;
    }
    return absl::DataLossError(fmt::format("{}: the output of {} is wrong",
                                           backend.info().name, known[i].name));
  }
  return absl::OkStatus();
}

}  // namespace quantd
