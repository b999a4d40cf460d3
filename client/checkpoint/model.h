// A model on disk: a directory with config.json, an index and any number of
// safetensors shards, or one safetensors file. Reads headers only; nothing in
// the files is trusted.
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

// INVALID_ARGUMENT names the path and says why it is not a JSON object.
absl::StatusOr<Json> ReadJsonObject(const absl::StatusOr<InputFile>& file,
                                    size_t most);
// Reads a file of transformers, in which NaN and infinities are numbers.
absl::StatusOr<Json> ReadConfig(const absl::StatusOr<InputFile>& file);

struct ModelShard {
  std::string name;  // file name without a directory
  std::string path;
  safetensors::File file;
};

// One tensor, and the shard that holds it.
struct ModelTensor {
  safetensors::Tensor stored;
  size_t shard = 0;

  const std::string& name() const { return stored.name; }
};

// Movable. Read may be called from many threads.
class Model {
 public:
  // Opens a directory or a .safetensors file. `only` names the shards to use;
  // empty means all. With `only`, the other shards may be missing, and the
  // files beside the shards belong to the first one. NOT_FOUND and
  // PERMISSION_DENIED name the path. INVALID_ARGUMENT if it is not a valid
  // model: an index that names missing shards or paths, two shards with tensors
  // of the same name, an invalid config.json, a name that leads out of the
  // directory.
  static absl::StatusOr<Model> Open(const std::string& path,
                                    const std::vector<std::string>& only = {});

  const std::string& path() const { return path_; }
  // Opens files of the directory; none for a single file.
  const ModelFolder& folder() const { return folder_; }
  // Whether the model is a single file, without config and other files.
  bool single_file() const { return single_file_; }
  const std::vector<ModelShard>& shards() const { return shards_; }
  // Shard by shard, in the order of their bytes.
  const std::vector<ModelTensor>& tensors() const { return tensors_; }
  // Returns nullptr if there is no tensor of that name.
  const ModelTensor* Find(std::string_view name) const;
  // The name of the index file, or empty if there is no index.
  const std::string& index_name() const { return index_name_; }
  bool has_config() const { return has_config_; }
  const Json& config() const { return config_; }  // {} without one
  // config.json's model_type; empty: it has none.
  std::string model_type() const;
  // Relative paths of files that accompany the model unchanged, in its folders
  // too: tokenizers, licences, poolings. All of them can be opened. Notes name
  // those that are left out.
  const std::vector<std::string>& others() const { return others_; }
  // Shards that the index does not name; they are left out.
  const std::vector<std::string>& strays() const { return strays_; }
  // Number of the model's shards that `only` left out.
  size_t left() const { return left_; }
  // Number of tensors that are in shards but not in the index.
  size_t unlisted() const { return unlisted_; }
  // Oddities that are not errors, one sentence each.
  const std::vector<std::string>& notes() const { return notes_; }

  absl::Status Read(const ModelTensor& tensor, size_t offset,
                    absl::Span<std::byte> bytes) const;
  // All bytes of a small tensor.
  absl::StatusOr<std::vector<std::byte>> ReadAll(
      const ModelTensor& tensor) const;
  // All bytes of a large tensor, in order and at most `most` bytes at once.
  // Stops at the first error.
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
  std::map<std::string, std::string> index_;  // the shard of a tensor
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
