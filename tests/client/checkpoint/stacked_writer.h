// Writes experts as gpt-oss's stacked MXFP4, and their original as a K x N
// stack.
#ifndef QUANTD_TESTS_CLIENT_CHECKPOINT_STACKED_WRITER_H_
#define QUANTD_TESTS_CLIENT_CHECKPOINT_STACKED_WRITER_H_

#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "tests/client/checkpoint/model_writer.h"
#include "tests/client/checkpoint/quantized_writer.h"

namespace quantd::checkpoint {

struct MadeStack {
  static constexpr int64_t kCount = 3;
  static constexpr int64_t kSide = 64;
  static constexpr char kName[] = "model.layers.0.mlp.experts.down_proj";

  std::vector<std::byte> blocks;
  std::vector<std::byte> scales;
  std::vector<std::byte> plain;  // bf16
  ModelJson config = {{"architectures", {"GptOssForCausalLM"}},
                      {"model_type", "gpt_oss"},
                      {"hidden_size", kSide},
                      {"num_local_experts", kCount}};

  MadeStack()
      : blocks(kCount * kSide * kSide / 2),
        scales(kCount * kSide * kSide / 32, std::byte{121}) {
    std::mt19937 random(5);
    for (std::byte& b : blocks) b = static_cast<std::byte>(random());
    std::vector<float> values(kCount * kSide * kSide);
    for (int64_t i = 0; i < kCount * kSide * kSide; ++i) {
      const auto pair = static_cast<uint8_t>(blocks[i / 2]);
      const auto code =
          static_cast<uint8_t>(i % 2 == 0 ? pair & 0xF : pair >> 4);
      const int64_t expert = i / (kSide * kSide);
      const int64_t row = i / kSide % kSide;
      const int64_t col = i % kSide;
      values[(expert * kSide + col) * kSide + row] =
          oracle::E2m1Value(code) / 64;
    }
    const auto bf16 = oracle::FromValues(oracle::Element::kBF16, values);
    plain.resize(bf16.size());
    std::memcpy(plain.data(), bf16.data(), bf16.size());
  }

  void WriteOriginal(const std::string& path) const {
    std::filesystem::remove_all(path);
    WriteModel(path, config,
               {{{kName, "BF16", {kCount, kSide, kSide}, plain}, Bias()}});
  }
  void Write(const std::string& path) const {
    std::filesystem::remove_all(path);
    const std::string name = kName;
    ModelJson quantized = config;
    quantized["quantization_config"] = {
        {"quant_method", "mxfp4"}, {"modules_to_not_convert", {"lm_head"}}};
    WriteModel(path, quantized,
               {{{name + "_blocks", "U8", {kCount, kSide, 2, 16}, blocks},
                 {name + "_scales", "U8", {kCount, kSide, 2}, scales},
                 Bias()}});
  }

 private:
  static WrittenTensor Bias() {
    return {std::string(kName) + "_bias",
            "BF16",
            {kCount, kSide},
            std::vector<std::byte>(kCount * kSide * 2)};
  }
};

}  // namespace quantd::checkpoint

#endif  // QUANTD_TESTS_CLIENT_CHECKPOINT_STACKED_WRITER_H_
