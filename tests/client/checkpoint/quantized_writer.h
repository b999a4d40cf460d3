// Quantized checkpoints with random codes, and their decoded values from the
// oracle's tables.
#ifndef QUANTD_TESTS_CLIENT_CHECKPOINT_QUANTIZED_WRITER_H_
#define QUANTD_TESTS_CLIENT_CHECKPOINT_QUANTIZED_WRITER_H_

#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "tests/client/checkpoint/model_writer.h"
#include "tests/oracle/codec.h"

namespace quantd {

inline std::vector<std::byte> FloatBytes(const std::vector<float>& values) {
  std::vector<std::byte> bytes(values.size() * 4);
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// The parts of an NVFP4 weight, and the bf16 weight that it represents.
struct MadeNvfp4 {
  std::vector<WrittenTensor> parts;
  WrittenTensor plain;
};

enum class Nvfp4Names { kCompressedTensors, kModelOpt };

// Makes a weight of rows x cols whose amax is `amax`. Its largest block scale
// is 448.
inline MadeNvfp4 MakeNvfp4(const std::string& module, int64_t rows,
                           int64_t cols, Nvfp4Names names, float amax = 0.5f) {
  std::mt19937 random(static_cast<uint32_t>(std::hash<std::string>()(module)));
  std::vector<std::byte> codes(static_cast<size_t>(rows * cols / 2));
  std::vector<std::byte> scales(static_cast<size_t>(rows * cols / 16));
  for (std::byte& b : codes) b = static_cast<std::byte>(random());
  // Block scales are from 2 to 448, without zero and NaN.
  for (std::byte& b : scales) {
    b = static_cast<std::byte>(0x40 + random() % 0x3F);
  }
  const bool divisor = names == Nvfp4Names::kCompressedTensors;
  const float global = divisor ? 2688 / amax : amax / 2688;
  std::vector<float> values;
  for (int64_t i = 0; i < rows * cols; ++i) {
    const auto pair = static_cast<uint8_t>(codes[static_cast<size_t>(i / 2)]);
    const float scale = oracle::E4m3Value(
        static_cast<uint8_t>(scales[static_cast<size_t>(i / 16)]));
    const float factor = divisor ? scale / global : scale * global;
    const auto code = static_cast<uint8_t>(i % 2 == 0 ? pair & 0xF : pair >> 4);
    values.push_back(oracle::E2m1Value(code) * factor);
  }
  const auto bf16 = oracle::FromValues(oracle::Element::kBF16, values);
  std::vector<std::byte> plain(bf16.size());
  std::memcpy(plain.data(), bf16.data(), bf16.size());
  MadeNvfp4 made;
  made.plain = {module + ".weight", "BF16", {rows, cols}, plain};
  made.parts = {
      {module + (divisor ? ".weight_packed" : ".weight"),
       "U8",
       {rows, cols / 2},
       codes},
      {module + ".weight_scale", "F8_E4M3", {rows, cols / 16}, scales},
      {module + (divisor ? ".weight_global_scale" : ".weight_scale_2"), "F32",
       divisor ? std::vector<int64_t>{1} : std::vector<int64_t>{},
       FloatBytes({global})}};
  return made;
}

// Experts as gpt-oss's stacked MXFP4, and their original as a K x N stack.
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

// The configuration that compressed-tensors writes for NVFP4 weights.
inline ModelJson CompressedTensorsJson() {
  const ModelJson weights = {{"num_bits", 4},
                             {"type", "float"},
                             {"symmetric", true},
                             {"strategy", "tensor_group"},
                             {"dynamic", false},
                             {"group_size", 16},
                             {"scale_dtype", "torch.float8_e4m3fn"}};
  return {{"quant_method", "compressed-tensors"},
          {"format", "nvfp4-pack-quantized"},
          {"ignore", {"lm_head"}},
          {"quantization_status", "compressed"},
          {"config_groups",
           {{"group_0",
             {{"format", "nvfp4-pack-quantized"},
              {"input_activations", nullptr},
              {"targets", {"Linear"}},
              {"weights", weights}}}}}};
}

}  // namespace quantd

#endif  // QUANTD_TESTS_CLIENT_CHECKPOINT_QUANTIZED_WRITER_H_
