// Plans of every kind, generated from the support table, so that the tests
// cover every option added to it.
#ifndef QUANTD_TESTS_KERNELS_DEVICE_PLAN_ROWS_H_
#define QUANTD_TESTS_KERNELS_DEVICE_PLAN_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/plan/support.h"
#include "quantd/format.h"
#include "quantd/plan.h"

namespace quantd {

// A way to use an option, or a shape.
struct Setting {
  std::string name;     // "rht 16"
  uint32_t option = 0;  // 0: a shape, not an option
  std::function<void(TensorDesc&, QuantizeOptions&)> set = {};
};

// All ways to use an option. (choice_test.cc tests that each option has one.)
std::vector<Setting> SettingsOf(Option option);
// Shapes that some kernels do not support.
std::vector<Setting> Shapes();

// A legal plan of Quantize.
struct QuantizeRow {
  std::string settings;  // "none", or the settings: "rht 16, dbias"
  uint32_t options;      // options that are used
  const FormatSpec& format;
  Usage usage;
  DType dtype;
  Plan plan;
};
// Calls `fn` with every legal combination of format, dtype, usage and at most
// `settings` settings. Each setting has an effect. No two are of the same
// option, and at most one is a shape. A setting whose option requires another
// option sets that, too.
void ForQuantizeRows(size_t settings,
                     const std::function<void(const QuantizeRow&)>& fn);

// A legal plan of another kind.
struct PlanRow {
  std::string settings;  // "rowwise, rht 16"
  std::string format;    // for a Dequantize
  DType dtype;           // dtype of the output, if it has one
  Plan plan;
};
void ForDequantizeRows(const std::function<void(const PlanRow&)>& fn);
void ForRhtAmaxRows(const std::function<void(const PlanRow&)>& fn);
void ForApplyRhtRows(const std::function<void(const PlanRow&)>& fn);

}  // namespace quantd

#endif  // QUANTD_TESTS_KERNELS_DEVICE_PLAN_ROWS_H_
