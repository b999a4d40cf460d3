// kernels/KERNELS.md says which kernel runs for what. To bring it up to date:
// QUANTD_UPDATE_PAGES=1 kernels_page_test
#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "kernels/cpu/choice.h"
#include "kernels/cuda/choice.h"
#include "kernels/device/recipe.h"
#include "tests/kernels/device/plan_rows.h"
#include "tests/testing/generated_page.h"

namespace quantd {
namespace {

std::string Read(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// The cells of one plan, "a | b | c".
std::string Cells(const Plan& plan) {
  const Recipe recipe = MakeRecipe(plan);
  const cuda::KernelChoice gpu = cuda::ChooseKernels(plan, recipe);
  const cpu::KernelChoice cpu = cpu::ChooseKernels(plan, recipe);
  const auto& o = std::get<QuantizeOptions>(plan.options());
  std::vector<std::string_view> encoders;
  if (HasRowwise(o.usage)) encoders.push_back(Name(cpu.encode.rowwise));
  if (HasColumnwise(o.usage) &&
      (encoders.empty() || cpu.encode.columnwise != cpu.encode.rowwise)) {
    encoders.push_back(Name(cpu.encode.columnwise));
  }
  return fmt::format(
      "{} | {} | {} | {} | {}", Name(gpu.amax), Name(gpu.encode),
      Name(gpu.dbias), Name(cpu.amax),
      encoders.empty() ? "-" : fmt::format("{}", fmt::join(encoders, ", ")));
}

// Whose cells are the same: "bf16" or "fp16, fp32", and the cells.
using ByDType = std::vector<std::pair<std::string, std::string>>;

// Adds `name` to the entry with those cells, which need not be there.
void Merge(const std::string& name, const std::string& cells, ByDType* to) {
  for (auto& [names, known] : *to) {
    if (known != cells) continue;
    names += ", " + name;
    return;
  }
  to->push_back({name, cells});
}

// What settings make of a format: the cells of each usage and dtype.
using Effect = std::map<std::pair<Usage, DType>, std::string>;
constexpr DType kFloats[] = {DType::kBF16, DType::kF16, DType::kF32};

// Settings that have one effect. Where a usage is not legal with some of them,
// the others say what it would be.
struct Together {
  std::vector<std::string> settings;
  Effect effect;
};

bool Fits(const Effect& a, const Effect& b) {
  for (const auto& [key, cells] : a) {
    const auto it = b.find(key);
    if (it == b.end() || it->second != cells) return false;
  }
  return true;
}

std::string Table(const std::vector<Together>& all) {
  std::string text =
      "| settings | copies | input | amax | encode | dbias | CPU: amax | CPU: "
      "encode |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n";
  for (const Together& together : all) {
    std::vector<std::pair<std::string, ByDType>> usages;
    for (const Usage usage : kUsages) {
      ByDType cells;
      for (const DType dtype : kFloats) {
        const auto it = together.effect.find({usage, dtype});
        if (it == together.effect.end()) continue;
        Merge(std::string(Name(dtype)), it->second, &cells);
      }
      if (cells.empty()) continue;
      bool known = false;
      for (auto& [names, other] : usages) {
        if (other != cells) continue;
        names += fmt::format(", {}", Name(usage));
        known = true;
      }
      if (!known) usages.push_back({std::string(Name(usage)), cells});
    }
    for (const auto& [copies, by_dtype] : usages) {
      for (const auto& [dtypes, cells] : by_dtype) {
        text += fmt::format("| {} | {} | {} | {} |\n",
                            fmt::join(together.settings, "; "), copies, dtypes,
                            cells);
      }
    }
  }
  return text;
}

std::string QuantizeTables() {
  std::vector<std::pair<std::string, std::string>> sections;
  std::map<Format, std::vector<std::pair<std::string, Effect>>> effects;
  ForQuantizeRows(1, [&](const QuantizeRow& row) {
    auto& list = effects[row.format.format];
    if (list.empty() || list.back().first != row.settings) {
      list.push_back({row.settings, {}});
    }
    list.back().second[{row.usage, row.dtype}] = Cells(row.plan);
  });
  for (const FormatSpec& format : kFormats) {
    std::vector<Together> all;
    for (const auto& [settings, effect] : effects[format.format]) {
      bool known = false;
      for (Together& together : all) {
        if (known || !Fits(effect, together.effect)) continue;
        together.settings.push_back(settings);
        known = true;
      }
      if (!known) all.push_back({{settings}, effect});
    }
    const std::string table = Table(all);
    if (!sections.empty() && sections.back().second == table) {
      sections.back().first += fmt::format(", {}", format.name);
    } else {
      sections.push_back({std::string(format.name), table});
    }
  }
  std::string text;
  for (const auto& [title, table] : sections) {
    text += fmt::format("\n### {}\n\n{}", title, table);
  }
  return text;
}

std::string DequantizeTable() {
  std::string text =
      "\n## Dequantize\n\n| format | copy | CUDA | CPU |\n"
      "| --- | --- | --- | --- |\n";
  std::vector<std::array<std::string, 2>> lines;  // format, the rest
  ForDequantizeRows([&](const PlanRow& row) {
    const Recipe recipe = MakeRecipe(row.plan);
    const std::string rest =
        fmt::format("{} | {} | {}", row.settings,
                    Name(cuda::ChooseKernels(row.plan, recipe).decode),
                    Name(cpu::ChooseKernels(row.plan, recipe).decode));
    for (auto& [formats, known] : lines) {
      if (known != rest) continue;
      // The types of the output are all the same to it.
      if (!formats.ends_with(row.format)) formats += ", " + row.format;
      return;
    }
    lines.push_back({row.format, rest});
  });
  for (const auto& [formats, rest] : lines) {
    if (rest.find("grouped") != std::string::npos) continue;
    text += fmt::format("| {} | {} |\n", formats, rest);
  }
  return text;
}

std::string OtherTables() {
  std::string text =
      "\n## RhtAmax\n\n| amaxes | input | CUDA | CPU |\n"
      "| --- | --- | --- | --- |\n";
  std::vector<std::array<std::string, 3>> lines;
  ForRhtAmaxRows([&](const PlanRow& row) {
    const auto& o = std::get<RhtAmaxOptions>(row.plan.options());
    // Plain maxima come with every search, and what makes AmaxOfSpans take a
    // plan makes it whatever stands beside it.
    const bool rows = o.domain == AmaxDomain::kRow;
    const bool ragged = row.plan.cols() % 16 != 0;
    if (o.columnwise || (o.rowwise && (o.rowwise_rht || o.columnwise_rht)) ||
        o.rht_dimension > 32 ||
        (o.rht_dimension != 16) + rows + row.plan.grouped() + ragged > 1) {
      return;
    }
    const Recipe recipe = MakeRecipe(row.plan);
    const std::string rest =
        fmt::format("{} | {}", Name(cuda::ChooseKernels(row.plan, recipe).amax),
                    Name(cpu::ChooseKernels(row.plan, recipe).amax));
    if (!lines.empty() && lines.back()[0] == row.settings &&
        lines.back()[2] == rest) {
      lines.back()[1] += fmt::format(", {}", Name(row.dtype));
    } else {
      lines.push_back({row.settings, std::string(Name(row.dtype)), rest});
    }
  });
  for (const auto& [settings, dtypes, rest] : lines) {
    text += fmt::format("| {} | {} | {} |\n", settings, dtypes, rest);
  }
  text += "\n## ApplyRht\n\n| rotation | CUDA | CPU |\n| --- | --- | --- |\n";
  ForApplyRhtRows([&](const PlanRow& row) {
    if (row.dtype != DType::kBF16) return;
    const Recipe recipe = MakeRecipe(row.plan);
    text += fmt::format("| {} | {} | {} |\n", row.settings,
                        Name(cuda::ChooseKernels(row.plan, recipe).rotate),
                        Name(cpu::ChooseKernels(row.plan, recipe).rotate));
  });
  return text;
}

// Where a kernel is. A test reads the file and finds its name.
struct Home {
  const char* kernel;
  const char* file;
};
constexpr Home kHomes[] = {
    {"PlainAmax", "cuda/amax/rht.cu"},
    {"AmaxOfRows", "cuda/amax/rht.cu"},
    {"AmaxOfTiles", "cuda/amax/rht.cu"},
    {"AmaxByTensorCores", "cuda/amax/tiles.cu"},
    {"AmaxOfLines", "cuda/amax/lines.cu"},
    {"AmaxOfSpans", "cuda/amax/spans.cu"},
    {"QuantizeRows", "cuda/encode/nvfp4/rows_f32.cu"},
    {"EncodeFrame", "cuda/encode/frame/encode.cuh"},
    {"EncodeNvfp4Rows", "cuda/encode/nvfp4/rows.cu"},
    {"EncodeNvfp4Tiles", "cuda/encode/nvfp4/tiles.cu"},
    {"EncodeNvfp4Squares", "cuda/encode/nvfp4/squares/squares.cuh"},
    {"EncodeNvfp4ScaledRows", "cuda/encode/nvfp4/rows.cu"},
    {"EncodeNvfp4Stochastic", "cuda/encode/nvfp4/stochastic.cu"},
    {"EncodeNvfp4FourOverSix", "cuda/encode/nvfp4/four_over_six.cu"},
    {"EncodeNvfp4UnderGlobal", "cuda/encode/nvfp4/under_global.cu"},
    {"EncodeRuns", "cuda/encode/fp8/tensor.cu"},
    {"EncodeRows", "cuda/encode/fp8/rows.cuh"},
    {"EncodeTiles", "cuda/encode/fp8/encode.cuh"},
    {"EncodeSpans", "cuda/encode/generic/encode.cuh"},
    {"SumChunks", "cuda/groups.cu"},
    {"DecodeRows", "cuda/decode/rows.cu"},
    {"DecodeColumnsInPlace", "cuda/decode/rows.cu"},
    {"DecodeRotatedRows", "cuda/decode/rotated_rows.cu"},
    {"DecodeRotatedInPlace", "cuda/decode/rotated_in_place.cu"},
    {"DecodeColumns", "cuda/decode/columns.cu"},
    {"DecodeSpans", "cuda/decode/spans.cu"},
    {"RotateBlocks", "cuda/rotate.cu"},
    {"RotateSpans", "cuda/rotate.cu"},
    {"Amax", "cpu/isa/tiles.cc"},
    {"AmaxLines", "cpu/isa/lines_tile.cc"},
    {"QuantizeNvfp4", "cpu/isa/nvfp4_quantize.cc"},
    {"QuantizeFp8Rows", "cpu/isa/fp8_rows.cc"},
    {"QuantizeFp8Columns", "cpu/isa/fp8_columns.cc"},
    {"QuantizeFp8Squares", "cpu/isa/fp8_squares.cc"},
    {"QuantizeLines", "cpu/isa/lines_quantize.cc"},
    {"DequantizeRow", "cpu/isa/tiles.cc"},
    {"DequantizeCol", "cpu/isa/tiles.cc"},
    {"DequantizeLines", "cpu/isa/lines_dequantize.cc"},
    {"Rotate", "cpu/isa/tiles.cc"},
    {"RotateLines", "cpu/isa/lines_tile.cc"},
};

std::string HomesTable() {
  std::string text =
      "\n## Where they are\n\n| kernel | source |\n| --- | --- |\n";
  for (const Home& home : kHomes) {
    text += fmt::format("| {} | {} |\n", home.kernel, home.file);
  }
  return text;
}

std::string Page() {
  return "\n## Quantize\n" + QuantizeTables() + DequantizeTable() +
         OtherTables() + HomesTable() + "\n";
}

TEST(KernelsPageTest, IsWhatIsChosen) {
  ExpectGenerated(QUANTD_KERNELS "/KERNELS.md", "kernels", Page());
}

TEST(KernelsPageTest, EveryKernelIsWhereThePageSays) {
  for (const Home& home : kHomes) {
    const std::string source =
        Read(fmt::format("{}/{}", QUANTD_KERNELS, home.file));
    EXPECT_NE(source.find(fmt::format("{}(", home.kernel)), std::string::npos)
        << home.file << " has no " << home.kernel;
  }
}

// The kernels that the page's tables name, as they are called in the sources.
std::set<std::string> Named() {
  std::set<std::string> names;
  const auto add = [&](const auto... kernels) {
    for (const std::string_view name : {Name(kernels)...}) {
      // The dash is no kernel, and an encoder is called by its name alone.
      if (name == "-" || name == Name(cuda::DbiasKernel::kEncoder)) continue;
      names.emplace(name.substr(0, name.find(' ')));
    }
  };
  const auto add_row = [&](const auto& row) {
    const Recipe recipe = MakeRecipe(row.plan);
    const cuda::KernelChoice gpu = cuda::ChooseKernels(row.plan, recipe);
    const cpu::KernelChoice cpu = cpu::ChooseKernels(row.plan, recipe);
    add(gpu.amax, gpu.encode, gpu.decode, gpu.rotate, gpu.dbias, cpu.amax,
        cpu.encode.rowwise, cpu.encode.columnwise, cpu.decode, cpu.rotate);
  };
  ForQuantizeRows(1, add_row);
  ForDequantizeRows(add_row);
  ForRhtAmaxRows(add_row);
  ForApplyRhtRows(add_row);
  return names;
}

TEST(KernelsPageTest, EveryKernelThatIsNamedHasAHomeAndNoOther) {
  std::set<std::string> homes;
  for (const Home& home : kHomes) homes.insert(home.kernel);
  EXPECT_EQ(Named(), homes);
}

}  // namespace
}  // namespace quantd
