#include "tests/bench/gpu_bench_rows.h"

#include <fnmatch.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <variant>

#include "kernels/plan/profile/profile.h"
#include "kernels/plan/shards.h"

namespace quantd::bench {
namespace {

constexpr float kAmax = 5.0f;
constexpr int64_t kGroups = 64;

QuantizeOptions Nvfp4(Usage usage, bool row_rht, bool col_rht) {
  QuantizeOptions o = Quantize(Format::kNvfp4, usage);
  o.rht.rowwise = row_rht;
  o.rht.columnwise = col_rht;
  return o;
}

RowSpec Decoding(std::string name, const QuantizeOptions& source) {
  RowSpec row = {std::move(name),
                 DecodeOptionsOf(source, source.usage, DType::kUnspecified)};
  row.source = source;
  row.ceiling = Ceiling::kMix;
  return row;
}

RowSpec Amax(std::string name, const RhtAmaxOptions& o) {
  RowSpec row = {std::move(name), o};
  row.ceiling = Ceiling::kRead;
  row.whole = row.f32 = true;
  return row;
}

class Table {
 public:
  void Add(RowSpec row) { rows_.push_back(std::move(row)); }
  void Add(std::string name, const QuantizeOptions& o) {
    Add(RowSpec{std::move(name), o});
  }
  // Adds a variant of an existing row, whose options `change` modifies.
  template <typename Change>
  RowSpec& Variant(const std::string& of, std::string name, Change change) {
    RowSpec row = *Find(of);
    row.name = std::move(name);
    row.of = of;
    row.f32 = false;
    change(std::get<QuantizeOptions>(row.options));
    rows_.push_back(std::move(row));
    return rows_.back();
  }
  void AlsoF32(const std::string& name) { Find(name)->f32 = true; }

  std::vector<RowSpec> Take() { return std::move(rows_); }

 private:
  std::vector<RowSpec>::iterator Find(const std::string& name) {
    return std::find_if(rows_.begin(), rows_.end(),
                        [&](const RowSpec& row) { return row.name == name; });
  }
  std::vector<RowSpec> rows_;
};

void AddAmaxes(Table* table) {
  RhtAmaxOptions o;
  o.rowwise = o.columnwise = o.rowwise_rht = o.columnwise_rht = true;
  table->Add(Amax("rht_amax_row_col", o));
  o = {};
  o.rowwise = true;
  table->Add(Amax("amax", o));
}

void AddQuantizes(Table* table) {
  constexpr Usage kRow = Usage::kRowwise;
  constexpr Usage kCol = Usage::kColumnwise;
  constexpr Usage kBoth = Usage::kBoth;
  table->Add("nvfp4_row", Nvfp4(kRow, false, false));
  table->Add("nvfp4_row_rht", Nvfp4(kRow, true, false));
  table->Add("nvfp4_col", Nvfp4(kCol, false, false));
  table->Add("nvfp4_col_rht", Nvfp4(kCol, false, true));
  table->Add("nvfp4_row_col", Nvfp4(kBoth, false, false));
  table->Add("nvfp4_row_col_rht", Nvfp4(kBoth, false, true));
  table->Add("nvfp4_row_rht_col_rht", Nvfp4(kBoth, true, true));
  table->Add("nvfp4_2d_row_col", Quantize(Format::kNvfp4Square, kBoth));
  {
    QuantizeOptions o;
    o.format = Format::kNvfp4;
    RowSpec row = {"nvfp4_row_amax", o};
    row.whole = true;
    row.reads = 2;
    table->Add(row);
  }
  // Rows that compute the amax, and rows that estimate it, for comparison.
  const auto add_whole = [&](std::string name, Usage usage,
                             std::optional<float> estimate) {
    QuantizeOptions o;
    o.format = Format::kNvfp4;
    o.usage = usage;
    o.rht.columnwise = true;
    o.nvfp4.amax_estimation_scale = estimate;
    RowSpec row = {std::move(name), o};
    row.whole = row.f32 = true;
    row.reads = 2;
    table->Add(std::move(row));
  };
  add_whole("nvfp4_col_rht_amax", kCol, std::nullopt);
  add_whole("nvfp4_col_rht_estimate", kCol, 2.0f);
  add_whole("nvfp4_row_col_rht_amax", kBoth, std::nullopt);
  add_whole("nvfp4_row_col_rht_estimate", kBoth, 2.0f);
  table->Variant("nvfp4_row", "nvfp4_row_sr", [](QuantizeOptions& o) {
    o.rounding = Rounding::kStochastic;
  });
  table->Variant("nvfp4_row", "nvfp4_row_4over6", [](QuantizeOptions& o) {
    o.nvfp4.four_over_six = FourOverSix::kMae;
  });
  table->Add("fp8_row", Quantize(Format::kFp8E4M3, kRow));
  table->Add("fp8_row_col", Quantize(Format::kFp8E4M3, kBoth));
  table->Add("fp8_1x128_row", Quantize(Format::kFp8BlockE4M3, kRow));
  table->Add("fp8_1x128_row_col", Quantize(Format::kFp8BlockE4M3, kBoth));
  table->Add("mxfp8_row", Quantize(Format::kMxfp8E4M3, kRow));
  table->Add("mxfp8_row_col", Quantize(Format::kMxfp8E4M3, kBoth));
  for (const char* name : {"nvfp4_row", "nvfp4_row_col_rht", "fp8_row",
                           "fp8_1x128_row", "mxfp8_row"}) {
    table->AlsoF32(name);
  }
}

void AddOthers(Table* table) {
  constexpr Usage kRow = Usage::kRowwise;
  constexpr Usage kCol = Usage::kColumnwise;
  table->Add(Decoding("deq_nvfp4", Nvfp4(kRow, false, false)));
  table->Add(Decoding("deq_nvfp4_rht", Nvfp4(kRow, true, false)));
  table->Add(Decoding("deq_nvfp4_col", Nvfp4(kCol, false, false)));
  table->Add(Decoding("deq_nvfp4_col_rht", Nvfp4(kCol, false, true)));
  table->Add(Decoding("deq_mxfp8", Quantize(Format::kMxfp8E4M3, kRow)));
  table->Add(Decoding("deq_fp8", Quantize(Format::kFp8E4M3, kRow)));
  table->Add(Decoding("deq_fp8_1x128", Quantize(Format::kFp8BlockE4M3, kRow)));
  table->Add(RowSpec{"apply_rht", ApplyRhtOptions{}});
  table->AlsoF32("deq_nvfp4");
  table->AlsoF32("apply_rht");
}

void AddVariants(Table* table) {
  for (const char* of :
       {"nvfp4_row", "nvfp4_row_col_rht", "fp8_row", "fp8_row_col",
        "fp8_1x128_row", "mxfp8_row", "mxfp8_row_col"}) {
    table->Variant(of, std::string(of) + "_dbias",
                   [](QuantizeOptions& o) { o.dbias = true; });
  }
  for (const char* of : {"nvfp4_row", "nvfp4_row_col_rht", "fp8_row",
                         "fp8_1x128_row", "mxfp8_row", "mxfp8_row_col"}) {
    table
        ->Variant(of, std::string(of) + "_grouped" + std::to_string(kGroups),
                  [](QuantizeOptions&) {})
        .groups = kGroups;
  }
  for (const char* of :
       {"nvfp4_row", "nvfp4_row_col_rht", "mxfp8_row", "mxfp8_row_col"}) {
    table->Variant(of, std::string(of) + "_swizzled", [](QuantizeOptions& o) {
      o.form.scale_layout = Layout::kSwizzled;
    });
  }
}

// Returns the row that a library's profile varies: the same cell under te.
std::string RowOf(Format format) {
  switch (format) {
    case Format::kNvfp4:
      return "nvfp4_row";
    case Format::kFp8E4M3:
      return "fp8_row_amax";
    case Format::kFp8ChannelE4M3:
      return "fp8_channel_row";
    case Format::kFp8SquareE4M3:
      return "fp8_128x128_row";
    case Format::kMxfp8E4M3:
      return "mxfp8_row";
    case Format::kMxfp4:
      return "mxfp4_row";
    default:
      break;
  }
  std::fprintf(stderr, "no row for %s\n", std::string(Name(format)).c_str());
  std::exit(1);
}

void AddProfiles(Table* table) {
  const auto add = [&](Format format, int reads) {
    QuantizeOptions o;
    o.format = format;
    RowSpec row = {RowOf(format), o};
    row.whole = reads > 1;
    row.reads = reads;
    table->Add(std::move(row));
  };
  add(Format::kFp8E4M3, 2);
  add(Format::kFp8ChannelE4M3, 2);
  add(Format::kFp8SquareE4M3, 1);
  add(Format::kMxfp4, 1);
  for (const ProfileSpec& profile : Profiles()) {
    if (profile.profile == Profile::kTe) continue;
    for (const ProfileFormat& f : profile.formats) {
      if (f.format == Format::kUnspecified) continue;
      table->Variant(RowOf(f.format),
                     RowOf(f.format) + "_" + std::string(profile.name),
                     [&](QuantizeOptions& o) { o.profile = profile.profile; });
    }
  }
}

Plan Must(absl::StatusOr<Plan> plan, const std::string& name) {
  if (!plan.ok()) {
    std::fprintf(stderr, "%s: %s\n", name.c_str(),
                 plan.status().ToString().c_str());
    std::exit(1);
  }
  return *std::move(plan);
}

}  // namespace

const char* Name(Ceiling c) {
  switch (c) {
    case Ceiling::kCopy:
      return "copy";
    case Ceiling::kRead:
      return "read";
    case Ceiling::kMix:
      break;
  }
  return "mix";
}

QuantizeOptions Quantize(Format format, Usage usage) {
  QuantizeOptions o;
  o.format = format;
  o.usage = usage;
  const Scaling scaling = FindFormat(format)->scaling;
  if (scaling == Scaling::kNvfp4) {
    if (HasRowwise(usage)) o.rowwise_amax = {kAmax};
    if (HasColumnwise(usage)) o.columnwise_amax = {kAmax};
  } else if (scaling == Scaling::kTensor) {
    o.fp8.scale = {64.0f};
  }
  return o;
}

const std::vector<RowSpec>& Rows() {
  static const std::vector<RowSpec> rows = [] {
    Table table;
    AddAmaxes(&table);
    AddQuantizes(&table);
    AddOthers(&table);
    AddVariants(&table);
    AddProfiles(&table);
    return table.Take();
  }();
  return rows;
}

std::vector<RowSpec> SelectRows(const std::vector<std::string>& globs) {
  const auto matches = [&](const RowSpec& row) {
    return globs.empty() ||
           std::any_of(globs.begin(), globs.end(), [&](const std::string& g) {
             return fnmatch(g.c_str(), row.name.c_str(), 0) == 0;
           });
  };
  std::vector<RowSpec> selected;
  for (const RowSpec& row : Rows()) {
    const bool wanted =
        matches(row) ||
        std::any_of(Rows().begin(), Rows().end(), [&](const RowSpec& other) {
          return other.of == row.name && matches(other);
        });
    if (wanted) selected.push_back(row);
  }
  return selected;
}

Plan PlanOf(const RowSpec& row, DType dtype, int64_t rows, int64_t cols,
            int64_t groups) {
  const TensorDesc tensor = {dtype, {rows, cols}, -1};
  if (const auto* q = std::get_if<QuantizeOptions>(&row.options)) {
    QuantizeOptions o = *q;
    if (row.groups > 0) {
      o.splits = std::vector<int64_t>(groups, rows / groups);
      for (auto* given : {&o.rowwise_amax, &o.columnwise_amax, &o.fp8.scale}) {
        if (!given->empty()) given->resize(groups, given->front());
      }
    }
    return Must(MakeQuantizePlan(tensor, o), row.name);
  }
  if (const auto* d = std::get_if<DequantizeOptions>(&row.options)) {
    DequantizeOptions o = *d;
    o.output = dtype;
    return Must(MakeDequantizePlan(tensor, o), row.name);
  }
  if (const auto* a = std::get_if<RhtAmaxOptions>(&row.options)) {
    return Must(MakeRhtAmaxPlan(tensor, *a), row.name);
  }
  return Must(MakeApplyRhtPlan(tensor, std::get<ApplyRhtOptions>(row.options)),
              row.name);
}

Plan SourceOf(const RowSpec& row, DType dtype, int64_t rows, int64_t cols) {
  return Must(MakeQuantizePlan({dtype, {rows, cols}, -1}, *row.source),
              row.name);
}

}  // namespace quantd::bench
