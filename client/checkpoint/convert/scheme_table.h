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
  std::string_view
      weights_only;  // the group's name if inputs are not quantized
  int bits = 0;
  std::string_view strategy;
  int group_size = 0;  // 0: none
  std::string_view scale_type;
  // Values of "format" in compressed-tensors. The first is the one that is
  // written, here and in `algorithms`, which are values of ModelOpt's
  // quant_algo.
  std::vector<std::string_view> file_formats;
  std::vector<std::string_view> algorithms;
};
// Returns nullptr if neither library has the format.
const SchemeRow* FindScheme(WeightFormat format);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CONVERT_SCHEME_TABLE_H_
