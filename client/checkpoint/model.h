// A model as people keep it: a directory with config.json, an index and any
// number of safetensors shards, or one safetensors file. Headers only; nothing
// that the files say is trusted.
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

// INVALID_ARGUMENT names the path and says what is no JSON object about it.
absl::StatusOr<Json> ReadJsonObject(const absl::StatusOr<InputFile>& file,
                                    size_t most);
// The same of a file that transformers reads: NaN and infinities are numbers.
absl::StatusOr<Json> ReadConfig(const absl::StatusOr<InputFile>& file);

struct ModelShard {
  std::string name;  // of the file, without a directory
  std::string path;
  safetensors::File file;
};

// One tensor, and the shard that holds it.
struct ModelTensor {
  safetensors::Tensor stored;
  size_t shard = 0;

  const std::string& name() const { return stored.name; }
};

// Movable; Read may be called from many threads.
class Model {
 public:
  // A directory, or a .safetensors file. NOT_FOUND and PERMISSION_DENIED name
  // the path; INVALID_ARGUMENT for everything that makes it no model: an index
  // that names missing shards or paths, shards that hold tensors of one name,
  // a config.json that is no JSON, a name that leads out of the directory.
  // `only`: a part of its shards, by name; empty: all. The others need not be
  // there, and what lies beside shards belongs to the first.
  static absl::StatusOr<Model> Open(const std::string& path,
                                    const std::vector<std::string>& only = {});

  const std::string& path() const { return path_; }
  // Opens what is read of the directory; of a single file, nothing.
  const ModelFolder& folder() const { return folder_; }
  // A file and no directory: then there is no config and nothing beside it.
  bool single_file() const { return single_file_; }
  const std::vector<ModelShard>& shards() const { return shards_; }
  // Shard by shard, in the order of the bytes.
  const std::vector<ModelTensor>& tensors() const { return tensors_; }
  // nullptr when there is none of that name.
  const ModelTensor* Find(std::string_view name) const;
  // The name of the index file; empty: there is none.
  const std::string& index_name() const { return index_name_; }
  bool has_config() const { return has_config_; }
  const Json& config() const { return config_; }  // {} without one
  // config.json's model_type; empty: it has none.
  std::string model_type() const;
  // Files that go with the model as they are, those of its folders too:
  // tokenizers, licences, poolings. Relative. Each could be opened. Those that
  // are left out are named by notes.
  const std::vector<std::string>& others() const { return others_; }
  // Shards beside those of the index, which are left out.
  const std::vector<std::string>& strays() const { return strays_; }
  // Shards of the model that Open was to leave out.
  size_t left() const { return left_; }
  // Tensors of the shards that the index does not list.
  size_t unlisted() const { return unlisted_; }
  // What is odd and no error, a sentence each.
  const std::vector<std::string>& notes() const { return notes_; }

  absl::Status Read(const ModelTensor& tensor, size_t offset,
                    absl::Span<std::byte> bytes) const;
  // All of a small one.
  absl::StatusOr<std::vector<std::byte>> ReadAll(
      const ModelTensor& tensor) const;
  // All of a large one, in order and no more than `most` bytes at once. Stops
  // at the first error.
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
