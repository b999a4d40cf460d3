// A model on disk: a directory with config.json, an index and any number of
// safetensors shards, or one safetensors file. Opening reads only headers.
// Nothing in the files is trusted.
#ifndef QUANTD_CLIENT_CHECKPOINT_MODEL_H_
#define QUANTD_CLIENT_CHECKPOINT_MODEL_H_

#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/checkpoint/python_json.h"
#include "client/files/file.h"
#include "client/files/model_folder.h"
#include "client/files/safetensors.h"

namespace quantd::checkpoint {

inline constexpr size_t kMaxConfigBytes = size_t{16} << 20;

// Reads a JSON object of at most `most` bytes. INVALID_ARGUMENT if the file is
// longer or holds anything else; the message names the path and the reason.
absl::StatusOr<Json> ReadJsonObject(const absl::StatusOr<InputFile>& file,
                                    size_t most);
// Reads a JSON file that transformers wrote, where NaN and infinities are
// numbers.
absl::StatusOr<Json> ReadConfig(const absl::StatusOr<InputFile>& file);

struct ModelShard {
  std::string name;  // file name without a directory
  std::string path;
  safetensors::File file;
};

// A tensor and the index of the shard that holds it.
struct ModelTensor {
  safetensors::Tensor stored;
  size_t shard = 0;

  const std::string& name() const { return stored.name; }
};

// Movable. The Read functions may be called by several threads at once.
class Model {
 public:
  // Opens a directory or a .safetensors file. `only` names the shards to use;
  // empty means all. With `only`, the other shards may be missing, and others()
  // is empty unless `only` names the first shard. NOT_FOUND and
  // PERMISSION_DENIED name the path. INVALID_ARGUMENT for an invalid model,
  // such as an index that names missing shards, two shards with tensors of the
  // same name, an invalid config.json, or a name that leads out of the
  // directory.
  static absl::StatusOr<Model> Open(const std::string& path,
                                    const std::vector<std::string>& only = {});

  const std::string& path() const { return path_; }
  // The model's directory, for opening files; empty for a single file.
  const ModelFolder& folder() const { return folder_; }
  // Whether the model is a single file, without config.json and other files.
  bool single_file() const { return single_file_; }
  const std::vector<ModelShard>& shards() const { return shards_; }
  // All tensors, shard by shard, in the order of their bytes.
  const std::vector<ModelTensor>& tensors() const { return tensors_; }
  // Returns nullptr if there is no tensor of that name.
  const ModelTensor* Find(std::string_view name) const;
  // The name of the index file, or empty if there is no index.
  const std::string& index_name() const { return index_name_; }
  bool has_config() const { return has_config_; }
  const Json& config() const { return config_; }  // {} if missing
  // The model_type of config.json, or "".
  std::string model_type() const;
  // Relative paths of files to copy unchanged, such as tokenizers, licences and
  // poolings, subfolders included. All of them can be opened. notes() names the
  // files that are left out.
  const std::vector<std::string>& others() const { return others_; }
  // Files of weights that the index does not name. They are left out.
  const std::vector<std::string>& strays() const { return strays_; }
  // Number of the model's shards that `only` left out.
  size_t left() const { return left_; }
  // Number of tensors that are in shards but not in the index.
  size_t unlisted() const { return unlisted_; }
  // Remarks for the user about oddities that are not errors.
  const std::vector<std::string>& notes() const { return notes_; }

  absl::Status Read(const ModelTensor& tensor, size_t offset,
                    absl::Span<std::byte> bytes) const;
  // Reads all bytes of a small tensor.
  absl::StatusOr<std::vector<std::byte>> ReadAll(
      const ModelTensor& tensor) const;
  // Reads all bytes of a large tensor, in order and at most `most` bytes at
  // once. Stops at the first error, also of `take`.
  absl::Status ReadInPieces(
      const ModelTensor& tensor, size_t most,
      absl::FunctionRef<absl::Status(size_t offset,
                                     absl::Span<const std::byte> bytes)>
          take) const;

 private:
  absl::Status OpenDirectory(const std::vector<std::string>& only);
  absl::Status Choose(const std::vector<std::string>& only,
                      std::vector<std::string>* names);
  absl::Status ChooseIndex(const std::vector<std::string>& indexes);
  absl::Status ReadIndex();
  absl::Status OpenShards(const std::vector<std::string>& names);
  absl::Status TakeTensors();
  absl::Status CheckIndex();

  std::string path_;
  ModelFolder folder_;
  bool single_file_ = false;
  std::vector<ModelShard> shards_;
  std::vector<ModelTensor> tensors_;
  std::map<std::string, size_t, std::less<>> by_name_;
  std::string index_name_;
  std::map<std::string, std::string> index_;  // from tensors to shards
  std::vector<std::string> strays_;
  size_t left_ = 0;
  size_t unlisted_ = 0;
  bool has_config_ = false;
  Json config_ = Json::object();
  std::vector<std::string> others_;
  std::vector<std::string> notes_;
};

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_MODEL_H_
