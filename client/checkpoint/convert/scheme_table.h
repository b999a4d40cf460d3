// Describes a format as the configurations of compressed-tensors and ModelOpt
// do.
#ifndef QUANTD_CLIENT_CHECKPOINT_CONVERT_SCHEME_TABLE_H_
#define QUANTD_CLIENT_CHECKPOINT_CONVERT_SCHEME_TABLE_H_

#include <string_view>
#include <vector>

#include "client/checkpoint/dialect.h"

namespace quantd::checkpoint {

struct SchemeRow {
  WeightFormat format;
  std::string_view name;  // name of the group in compressed-tensors
  // The group's name if inputs are not quantized.
  std::string_view weights_only;
  int bits = 0;
  std::string_view strategy;
  int group_size = 0;  // 0: none
  std::string_view scale_type;
  // Values of "format" in compressed-tensors; convert writes the first.
  std::vector<std::string_view> file_formats;
  // Values of quant_algo in ModelOpt; convert writes the first, except for
  // NVFP4 weights whose inputs are not quantized.
  std::vector<std::string_view> algorithms;
};
// Returns nullptr if neither library has the format.
const SchemeRow* FindScheme(WeightFormat format);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CONVERT_SCHEME_TABLE_H_
