#include "tests/bench/matrix/cells.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <variant>

#include "kernels/plan/profile/profile.h"
#include "kernels/plan/support.h"
#include "tests/bench/matrix/heat_map.h"

namespace quantd::bench {
namespace {

// Returns the options that a cell uses, including groups.
uint32_t OptionsOf(const Cell& cell) {
  const auto* o = std::get_if<QuantizeOptions>(&cell.row.options);
  if (o == nullptr) return 0;
  return UsedOptions(*o) | (cell.row.groups > 0 ? uint32_t{kOptGrouped} : 0);
}

// A new option, format, profile or rotation of the tables must have a cell.
TEST(MatrixTest, CoversTheSupportTable) {
  std::set<std::pair<Format, uint32_t>> options;
  std::set<std::pair<Format, Usage>> copies;
  std::set<std::pair<Format, Usage>> decoded;
  std::set<std::pair<Format, Profile>> profiles;
  std::set<std::pair<Format, int>> rotations;
  for (const DType dtype : kInputTypes) {
    for (const Cell& cell : MatrixOf(dtype)) {
      if (const auto* d = std::get_if<DequantizeOptions>(&cell.row.options)) {
        decoded.insert({d->format, d->usage});
        continue;
      }
      const auto& o = std::get<QuantizeOptions>(cell.row.options);
      copies.insert({o.format, o.usage});
      profiles.insert({o.format, o.profile});
      if (o.rht.rowwise || o.rht.columnwise) {
        rotations.insert({o.format, o.rht.dimension});
      }
      for (const OptionSpec& option : Options()) {
        if (OptionsOf(cell) & option.option) {
          options.insert({o.format, option.option});
        }
      }
    }
  }
  for (const FormatSpec& format : kFormats) {
    for (const OptionSpec& option : Options()) {
      if ((format.options & option.option) == 0) continue;
      // Channel formats have an amax for each line, which cells always compute.
      if (option.option == kOptGivenAmax &&
          format.scaling == Scaling::kChannel) {
        continue;
      }
      EXPECT_TRUE(options.contains({format.format, option.option}))
          << format.name << " " << option.name;
    }
    for (const Usage usage : kUsages) {
      if (usage == Usage::kNone) continue;
      EXPECT_TRUE(copies.contains({format.format, usage})) << format.name;
      if (usage == Usage::kBoth) continue;
      EXPECT_TRUE(decoded.contains({format.format, usage})) << format.name;
    }
    for (const ProfileSpec& profile : Profiles()) {
      if (FindNumerics(profile.profile, format.format) == nullptr) continue;
      EXPECT_TRUE(profiles.contains({format.format, profile.profile}))
          << format.name << " " << profile.name;
    }
    if ((format.options & kOptRht) == 0) continue;
    for (const int dimension : kRhtDimensions) {
      EXPECT_TRUE(rotations.contains({format.format, dimension}))
          << format.name << " " << dimension;
    }
  }
}

// Cells must be legal at both measured shapes, and have different names.
TEST(MatrixTest, CellsAreLegalAndHaveUniqueNames) {
  size_t cells = 0;
  for (const DType dtype : kInputTypes) {
    std::set<std::string> names;
    for (const Cell& cell : MatrixOf(dtype)) {
      EXPECT_TRUE(names.insert(cell.row.name).second) << cell.row.name;
      const Plan plan = PlanOf(cell.row, dtype, 8192, 8192, cell.row.groups);
      EXPECT_EQ(plan.rows(), 8192) << cell.row.name;
      ++cells;
    }
  }
  EXPECT_GT(cells, 800u);
}

TEST(MatrixTest, HeatMapSummarizesLowCells) {
  const HeatMap map({{"a", "x", 0.9}, {"a", "y", 0.25}, {"b", "x", 0.7, true}});
  EXPECT_EQ(map.least(), 0.25);
  EXPECT_EQ(map.median(), 0.7);
  const std::string text = map.Text();
  EXPECT_NE(text.find("3 cells: least 0.250, median 0.700, 1 below 0.5"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("0.250 a, y"), std::string::npos) << text;
  EXPECT_NE(text.find("70!"), std::string::npos) << text;
}

}  // namespace
}  // namespace quantd::bench
