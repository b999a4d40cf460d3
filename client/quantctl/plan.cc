// Implements `quantctl plan`, which shows the parts of a quantized tensor.
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "client/quantctl/commands.h"
#include "fmt/format.h"
#include "kernels/cpu/choice.h"
#include "kernels/cuda/choice.h"
#include "kernels/device/recipe.h"
#include "kernels/plan/shards.h"
#include "kernels/plan/support.h"

namespace quantd::quantctl {
namespace {

// The kernels that each device uses, as text: "amax PlainAmax, encode
// EncodeNvfp4Rows".
struct Kernels {
  std::string cuda;
  std::string cpu;

  bool operator==(const Kernels&) const = default;
};

Kernels KernelsOf(const Plan& plan) {
  const Recipe recipe = MakeRecipe(plan);
  return {ToString(cuda::ChooseKernels(plan, recipe)),
          ToString(cpu::ChooseKernels(plan, recipe))};
}

struct Planned {
  std::string name;
  TensorDesc desc;
  std::optional<Plan> plan = {};
};

// The tensors to plan: those of the file, or the one that --shape describes.
absl::StatusOr<std::vector<Planned>> TensorsOf(const Options& options) {
  std::vector<Planned> tensors;
  if (options.input.empty()) {
    const int axis = options.shape.size() == 1 ? -1 : options.flatten_axis;
    const DType dtype =
        options.dtype == DType::kUnspecified ? DType::kBF16 : options.dtype;
    tensors.push_back({"tensor", {dtype, options.shape, axis}});
    return tensors;
  }
  const auto input = OpenToQuantize(options);
  if (!input.ok()) return input.status();
  for (const InputTensor* t : Eligible(*input)) {
    tensors.push_back({t->name, t->desc});
  }
  return tensors;
}

void PrintTables(const Options& options, const std::vector<Planned>& tensors) {
  for (const Planned& t : tensors) {
    const Plan& p = *t.plan;
    fmt::print("{}: {} {} ({} rows, {} columns) to {}\n", t.name,
               Name(t.desc.dtype), SizesText(t.desc.shape), p.rows(), p.cols(),
               Name(options.quantize.format));
    std::vector<std::vector<std::string>> rows = {
        {"part", "dtype", "shape", "layout", "offset", "bytes"}};
    for (const TensorSpec& spec : p.outputs()) {
      rows.push_back({std::string(Name(spec.kind)),
                      std::string(Name(spec.dtype)), SizesText(spec.shape),
                      std::string(Name(spec.layout)),
                      fmt::to_string(spec.offset), fmt::to_string(spec.size)});
    }
    PrintColumns(rows);
    fmt::print("input {}, output {}, scratch {}\n", BytesText(p.input_bytes()),
               BytesText(p.output_bytes()), BytesText(p.scratch_bytes()));
    if (options.kernels) {
      const Kernels kernels = KernelsOf(p);
      fmt::print("cuda: {}\ncpu: {}\n", kernels.cuda, kernels.cpu);
    }
  }
}

// A row of the table: kernels for quantizing or decoding a 256 x 512 tensor.
struct KernelsRow {
  std::string format;
  std::string copies;  // "both", "decode rowwise"
  std::string types;   // of the input or of the decoded tensor: "bf16, f16"
  Kernels kernels;
};

// Adds a row, or adds the type to the last row if it is otherwise the same.
void Add(const FormatSpec& format, std::string copies, DType dtype,
         const absl::StatusOr<Plan>& plan, std::vector<KernelsRow>* rows) {
  if (!plan.ok()) return;
  Kernels kernels = KernelsOf(*plan);
  if (!rows->empty() && rows->back().format == format.name &&
      rows->back().copies == copies && rows->back().kernels == kernels) {
    rows->back().types += fmt::format(", {}", Name(dtype));
    return;
  }
  rows->push_back({std::string(format.name), std::move(copies),
                   std::string(Name(dtype)), std::move(kernels)});
}

// Makes a row for each format, set of copies and type that is legal with the
// rest of `options`. Types with the same kernels share a row.
std::vector<KernelsRow> KernelsTable(const QuantizeOptions& options) {
  constexpr DType kFloats[] = {DType::kBF16, DType::kF16, DType::kF32};
  std::vector<KernelsRow> rows;
  for (const FormatSpec& format : kFormats) {
    for (const Usage usage : kUsages) {
      QuantizeOptions o = options;
      o.format = format.format;
      o.usage = usage;
      o.want_amax |= usage == Usage::kNone;
      o.rht.rowwise &= HasRowwise(usage);
      o.rht.columnwise &= HasColumnwise(usage);
      for (const DType dtype : kFloats) {
        Add(format, std::string(Name(usage)), dtype,
            MakeQuantizePlan({dtype, {256, 512}}, o), &rows);
      }
    }
    for (const Usage usage : {Usage::kRowwise, Usage::kColumnwise}) {
      DequantizeOptions o =
          DecodeOptionsOf(options, usage, DType::kUnspecified);
      o.format = format.format;
      for (const DType dtype : kFloats) {
        o.output = dtype;
        Add(format, fmt::format("decode {}", Name(usage)), dtype,
            MakeDequantizePlan({DType::kUnspecified, {256, 512}}, o), &rows);
      }
    }
  }
  return rows;
}

// Prints the table for --kernels without a tensor.
int PrintKernels(const Options& options) {
  const std::vector<KernelsRow> table = KernelsTable(options.quantize);
  std::vector<std::vector<std::string>> rows = {
      {"format", "copies", "type", "cuda", "cpu"}};
  Json out = {{"command", "plan"}, {"kernels", Json::array()}};
  for (const KernelsRow& row : table) {
    rows.push_back(
        {row.format, row.copies, row.types, row.kernels.cuda, row.kernels.cpu});
    out["kernels"].push_back({{"format", row.format},
                              {"copies", row.copies},
                              {"type", row.types},
                              {"cuda", row.kernels.cuda},
                              {"cpu", row.kernels.cpu}});
  }
  out["exit_code"] = 0;
  if (options.json) {
    PrintJson(out);
  } else {
    PrintColumns(rows);
  }
  return kOk;
}

void PrintAsJson(const Options& options, const std::vector<Planned>& tensors) {
  Json out = {{"command", "plan"}};
  out["format"] = Name(options.quantize.format);
  out["usage"] = Name(options.quantize.usage);
  out["tensors"] = Json::array();
  for (const Planned& t : tensors) {
    const Plan& p = *t.plan;
    Json parts = Json::array();
    for (const TensorSpec& spec : p.outputs()) {
      Json part = {{"kind", Name(spec.kind)}, {"dtype", Name(spec.dtype)},
                   {"shape", spec.shape},     {"layout", Name(spec.layout)},
                   {"offset", spec.offset},   {"bytes", spec.size}};
      if (!spec.group_offsets.empty()) {
        part["group_offsets"] = spec.group_offsets;
      }
      parts.push_back(std::move(part));
    }
    out["tensors"].push_back({{"name", t.name},
                              {"dtype", Name(t.desc.dtype)},
                              {"shape", t.desc.shape},
                              {"rows", p.rows()},
                              {"cols", p.cols()},
                              {"parts", std::move(parts)},
                              {"input_bytes", p.input_bytes()},
                              {"output_bytes", p.output_bytes()},
                              {"scratch_bytes", p.scratch_bytes()}});
    if (options.kernels) {
      const Kernels kernels = KernelsOf(p);
      out["tensors"].back()["kernels"] = {{"cuda", kernels.cuda},
                                          {"cpu", kernels.cpu}};
    }
  }
  out["exit_code"] = 0;
  PrintJson(out);
}

}  // namespace

int RunPlan(const Options& options) {
  const bool any = !options.input.empty() || !options.shape.empty();
  if (options.kernels && !any) return PrintKernels(options);
  if (options.input.empty() == options.shape.empty()) {
    return Fail(
        options, kUsage,
        absl::InvalidArgumentError("plan: expected either FILE or --shape"));
  }
  auto tensors = TensorsOf(options);
  if (!tensors.ok()) return FailToOpen(options, tensors.status());
  for (Planned& t : *tensors) {
    auto plan = MakeQuantizePlan(t.desc, options.quantize);
    if (!plan.ok()) return Fail(options, kUsage, plan.status());
    t.plan = *std::move(plan);
  }
  options.json ? PrintAsJson(options, *tensors)
               : PrintTables(options, *tensors);
  return kOk;
}

}  // namespace quantd::quantctl
