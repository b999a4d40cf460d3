// Sorts the files of a model's folder into weights, files that accompany them,
// and files that are left out, and notes the reasons.
#ifndef QUANTD_CLIENT_FILES_MODEL_FILES_H_
#define QUANTD_CLIENT_FILES_MODEL_FILES_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/files/model_folder.h"

namespace quantd {

inline constexpr std::string_view kShardEnding = ".safetensors";
inline constexpr std::string_view kIndexEnding = ".safetensors.index.json";
// Files that describe a quantization. A conversion replaces them.
inline constexpr std::string_view kQuantizationFiles[] = {
    "hf_quant_config.json", "quantize_config.json", "quant_config.json"};

// The files of a model's folder. Every file is in a list or named by a note.
struct ModelFiles {
  // Weights at the top of the folder, and the indexes that list their tensors.
  std::vector<std::string> shards;
  std::vector<std::string> indexes;
  // Files about the weights that a conversion rewrites: config.json and
  // kQuantizationFiles.
  std::vector<std::string> settings;
  // All other files that a conversion copies unchanged, at any depth.
  std::vector<std::string> carried;
  // Weights in formats that quantctl does not read.
  std::vector<std::string> foreign;
  // True if an interrupted conversion left its journal here.
  bool interrupted = false;
  // Sentences about files that are left out or copied unread.
  std::vector<std::string> notes;
};

// Finds the files, and opens those that will be read or copied, so that
// problems are found before any work: dangling links, links out of the model,
// Git LFS pointers, unreadable files, and folders that have a file's name. Also
// returns INVALID_ARGUMENT if the folder itself has no weights. The message
// then says which folder to name or what to do instead.
absl::StatusOr<ModelFiles> FindModelFiles(const ModelFolder& folder,
                                          std::string_view path);

// The first 20 names and the total size, for a message.
std::string NameFiles(const ModelFolder& folder,
                      const std::vector<std::string>& names);

}  // namespace quantd

#endif  // QUANTD_CLIENT_FILES_MODEL_FILES_H_
