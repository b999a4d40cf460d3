// The files of a model's folder: its weights, those that go with them, and
// those that are left out, with the reason.
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
// Files of a quantization, which another one takes the place of.
inline constexpr std::string_view kQuantizationFiles[] = {
    "hf_quant_config.json", "quantize_config.json", "quant_config.json"};

// Every file of the folder is in one of the lists or named by a note.
struct ModelFiles {
  // Weights of the folder itself, and what says which belong together.
  std::vector<std::string> shards;
  std::vector<std::string> indexes;
  // Whatever tells of the weights and is written anew: config.json and
  // kQuantizationFiles.
  std::vector<std::string> settings;
  // All others that go with the model as they are, from whatever depth.
  std::vector<std::string> carried;
  // Weights in forms that are not read here.
  std::vector<std::string> foreign;
  // A conversion was interrupted here.
  bool interrupted = false;
  // What is left out or copied unread, a sentence for each kind.
  std::vector<std::string> notes;
};

// Opens what would be read or copied, so that it is found before any work what
// cannot be: links to nothing and out of the model, pointers of Git LFS, files
// without permission, folders under the name of a file. INVALID_ARGUMENT, too,
// where the folder has no weights of its own: what to name or do instead.
absl::StatusOr<ModelFiles> FindModelFiles(const ModelFolder& folder,
                                          std::string_view path);

// Some of many names and how many bytes they have, for a message.
std::string NameFiles(const ModelFolder& folder,
                      const std::vector<std::string>& names);

}  // namespace quantd

#endif  // QUANTD_CLIENT_FILES_MODEL_FILES_H_
