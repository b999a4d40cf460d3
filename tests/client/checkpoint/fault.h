// Faults planted for the rules of lint, and the clean models in which they are
// planted.
#ifndef QUANTD_TESTS_CLIENT_CHECKPOINT_FAULT_H_
#define QUANTD_TESTS_CLIENT_CHECKPOINT_FAULT_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/client/checkpoint/planted.h"

namespace quantd::checkpoint {

inline const std::string kQ = std::string(kAttention) + "q_proj";
inline const std::string kK = std::string(kAttention) + "k_proj";
inline const std::string kV = std::string(kAttention) + "v_proj";

enum class Base {
  kCompressedTensors,
  kModelOpt,
  kFp8,       // compressed-tensors, one scale for each weight
  kDeepSeek,  // 128 x 128 blocks
  kComfy,
};
Planted CleanOf(Base base);

using Plant = std::function<void(Planted&)>;
using Edit = std::function<void(ModelJson&)>;

struct Fault {
  const char* rule;
  Base base;
  Plant plant;
  const char* says;
  bool with_original = false;
  // Changes the files after they are written.
  std::function<void(const std::string& directory)> spoil = {};
};

std::vector<Fault> ScaleFaults();
std::vector<Fault> LayoutFaults();
std::vector<Fault> WeightFaults();
std::vector<Fault> ConfigFaults();
std::vector<Fault> EngineFaults();
std::vector<Fault> FileFaults();
std::vector<Fault> CompanionFaults();
std::vector<Fault> OriginalFaults();

Plant Set(const std::string& name, float value);
Plant SetAll(const std::string& end, float value);
Plant Fill(const std::string& name, uint8_t byte, size_t from = 0);
Plant Put(const std::string& name, std::vector<int64_t> shape);
Plant Erase(const std::string& name);
// Stores the swizzled scales of ComfyUI's modules row by row, padded or not.
Plant RowByRow(const std::vector<std::string>& modules, bool padded);
// Adds an input scale to each module.
Plant Inputs(std::vector<float> scales);
Plant Cache(const std::vector<std::pair<const char*, float>>& scales);
// Edits the quantization_config.
Plant Config(Edit edit);
Plant Group(Edit edit);
Plant Own(Edit edit);
Plant Model_(Edit edit);
Plant Plain(const std::string& module);
// Adds a module in NVFP4.
Plant Quantized(const std::string& module);
// Moves everything below "language_model.", and adds a tower and a projector.
// The list names them by expressions that match under other prefixes, too.
void Nest(Planted& p);
Plant Expert(int expert, std::vector<int64_t> shape);
// Replaces the metadata of the model's file.
void PutMetadata(const std::string& directory,
                 const safetensors::Metadata& metadata);
// Replaces ComfyUI's label tensors by `text` as "_quantization_metadata".
void PutComfyMetadata(const std::string& directory, const std::string& text);

}  // namespace quantd::checkpoint

#endif  // QUANTD_TESTS_CLIENT_CHECKPOINT_FAULT_H_
