#include "client/checkpoint/convert/scheme_table.h"

namespace quantd::checkpoint {
namespace {

const std::vector<SchemeRow>& Schemes() {
  static const auto* const rows = new std::vector<SchemeRow>{
      {WeightFormat::kNvfp4,
       "NVFP4",
       "NVFP4A16",
       4,
       "tensor_group",
       16,
       "torch.float8_e4m3fn",
       {"nvfp4-pack-quantized"},
       {"NVFP4", "W4A16_NVFP4", "NVFP4_AWQ", "W4A8_NVFP4_FP8", "NVFP4_SVD",
        "NVFP4_SVDQUANT"}},
      {WeightFormat::kFp8,
       "FP8",
       "FP8",
       8,
       "tensor",
       0,
       "",
       {"float-quantized", "naive-quantized"},
       {"FP8"}},
      {WeightFormat::kFp8Dynamic,
       "FP8_DYNAMIC",
       "FP8_DYNAMIC",
       8,
       "channel",
       0,
       "",
       {"float-quantized", "naive-quantized"},
       {"FP8_PER_CHANNEL_PER_TOKEN"}},
      {WeightFormat::kFp8Block,
       "FP8_BLOCK",
       "FP8_BLOCK",
       8,
       "block",
       0,
       "",
       {"float-quantized", "naive-quantized"},
       {"FP8_PB_WO", "FP8_BLOCK_SCALES"}},
      {WeightFormat::kMxfp8,
       "MXFP8",
       "MXFP8",
       8,
       "group",
       32,
       "torch.uint8",
       {"mxfp8-quantized", "float-quantized"},
       {"MXFP8"}},
      {WeightFormat::kMxfp4,
       "MXFP4A16",
       "MXFP4A16",
       4,
       "group",
       32,
       "torch.uint8",
       {"mxfp4-pack-quantized"},
       {"MXFP4", "W4A16_MXFP4"}},
  };
  return *rows;
}

}  // namespace

const SchemeRow* FindScheme(WeightFormat format) {
  for (const SchemeRow& row : Schemes()) {
    if (row.format == format) return &row;
  }
  return nullptr;
}

}  // namespace quantd::checkpoint
