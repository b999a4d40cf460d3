// Classifies the files of a model's folder: weights, files that accompany them,
// and files that are left out, with the reason.
#ifndef QUANTD_CLIENT_FILES_MODEL_FILES_H_
#define QUANTD_CLIENT_FILES_MODEL_FILES_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/files/model_folder.h"

namespace quantd {

inline constexpr std::string_view kShardEnding = ".safetensors";
inline constexpr std::string_view kIndexEnding = ".safetensors.index.json";
// Files that describe a quantization; a new one replaces them.
inline constexpr std::string_view kQuantizationFiles[] = {
    "hf_quant_config.json", "quantize_config.json", "quant_config.json"};

// Every file of the folder is in one of the lists or named by a note.
struct ModelFiles {
  // Weights in the folder itself, and the indexes that group them.
  std::vector<std::string> shards;
  std::vector<std::string> indexes;
  // Files about the weights that are written anew: config.json and
  // kQuantizationFiles.
  std::vector<std::string> settings;
  // All other files that accompany the model unchanged, at any depth.
  std::vector<std::string> carried;
  // Weights in formats that are not read here.
  std::vector<std::string> foreign;
  // Set if a conversion was interrupted here.
  bool interrupted = false;
  // What is left out or copied unread, one sentence for each kind.
  std::vector<std::string> notes;
};

// Finds the files, and opens those to be read or copied, so that problems are
// found before any work: dangling links and links out of the model, Git LFS
// pointers, unreadable files, folders with a file's name. INVALID_ARGUMENT also
// if the folder has no weights of its own; the message says what to name or do
// instead.
absl::StatusOr<ModelFiles> FindModelFiles(const ModelFolder& folder,
                                          std::string_view path);

// The first few names and the total size, for a message.
std::string NameFiles(const ModelFolder& folder,
                      const std::vector<std::string>& names);

}  // namespace quantd

#endif  // QUANTD_CLIENT_FILES_MODEL_FILES_H_
