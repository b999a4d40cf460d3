// Plans of every kind there is, made from the support table, so that an option
// that is added there cannot be forgotten here.
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

// One way to use an option, or a shape.
struct Setting {
  std::string name;     // "rht 16"
  uint32_t option = 0;  // 0: a shape
  std::function<void(TensorDesc&, QuantizeOptions&)> set = {};
};

// All ways to use an option. A test fails where there is none.
std::vector<Setting> SettingsOf(Option option);
// Shapes that some kernels do not take.
std::vector<Setting> Shapes();

// A legal Quantize.
struct QuantizeRow {
  std::string settings;  // "none", or what is set: "rht 16, dbias"
  uint32_t options;      // those that are used
  const FormatSpec& format;
  Usage usage;
  DType dtype;
  Plan plan;
};
// Calls `fn` with every legal combination of format, dtype, usage and at most
// so many settings of different options or of a shape, each of which has a say
// in it. An option that needs another one comes with it.
void ForQuantizeRows(size_t settings,
                     const std::function<void(const QuantizeRow&)>& fn);

// A legal plan of another kind.
struct PlanRow {
  std::string settings;  // "rowwise, rht 16"
  std::string format;    // of a Dequantize
  DType dtype;           // of the output, where there is one
  Plan plan;
};
void ForDequantizeRows(const std::function<void(const PlanRow&)>& fn);
void ForRhtAmaxRows(const std::function<void(const PlanRow&)>& fn);
void ForApplyRhtRows(const std::function<void(const PlanRow&)>& fn);

}  // namespace quantd

#endif  // QUANTD_TESTS_KERNELS_DEVICE_PLAN_ROWS_H_
