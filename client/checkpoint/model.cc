#include "client/checkpoint/model.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <set>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"

namespace quantd::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kShardEnding = ".safetensors";
constexpr std::string_view kIndexEnding = ".safetensors.index.json";
// Weights in other forms, which would contradict those that are written.
constexpr std::string_view kOtherWeights[] = {".bin",  ".pt",   ".pth",
                                              ".ckpt", ".h5",   ".msgpack",
                                              ".gguf", ".onnx", ".index.json"};
// What this program keeps beside what it writes.
constexpr std::string_view kOwnFiles[] = {".partial", ".quantd-journal"};
// Of a quantization that another one takes the place of.
constexpr std::string_view kQuantization = "hf_quant_config.json";

absl::Status Bad(const std::string& path, std::string_view why) {
  return absl::InvalidArgumentError(fmt::format("{}: {}", path, why));
}

// A file's name and no path to somewhere else.
bool IsPlainName(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find('/') == std::string_view::npos &&
         name.find('\0') == std::string_view::npos;
}

// The first few of many, for a message.
std::string Some(const std::vector<std::string>& names) {
  constexpr size_t kShown = 5;
  const size_t shown = std::min(names.size(), kShown);
  std::string text =
      fmt::format("{}", fmt::join(names.begin(), names.begin() + shown, ", "));
  if (names.size() > shown) {
    text += fmt::format(" and {} more", names.size() - shown);
  }
  return text;
}

constexpr std::string_view kOne = "model.safetensors";
// Whether engines know that this one is no shard of the model.
bool IsBeside(std::string_view name) {
  return name == kOne || name.starts_with("consolidated") ||
         name.starts_with("adapter");
}

bool IsCarried(std::string_view name) {
  if (name.front() == '.') return false;
  for (const std::string_view end : kOtherWeights) {
    if (name.ends_with(end)) return false;
  }
  for (const std::string_view end : kOwnFiles) {
    if (name.ends_with(end)) return false;
  }
  return !name.ends_with(kShardEnding) && name != "config.json" &&
         name != kQuantization;
}

// What a clone without Git LFS has in place of large files.
bool IsPointer(const std::string& path) {
  constexpr size_t kMost = 1024;
  const auto text = ReadText(path, kMost);
  return text.ok() && text->starts_with("version https://git-lfs");
}

template <typename T>
T Parse(std::string_view text) {
  return T::parse(text);
}

// `T`: where keys keep their order, or where finding one among very many is
// quick.
template <typename T>
absl::StatusOr<T> ReadObject(const std::string& path, size_t most,
                             T (*parse)(std::string_view)) {
  const auto text = ReadText(path, most);
  if (!text.ok()) return text.status();
  if (NestsTooDeep(*text)) {
    return Bad(path, fmt::format("JSON of more than {} objects and lists "
                                 "within each other",
                                 kMostNested));
  }
  try {
    T json = parse(*text);
    if (!json.is_object()) {
      return Bad(path, fmt::format("a JSON object was expected, got {}",
                                   json.type_name()));
    }
    return json;
  } catch (const typename T::parse_error& e) {
    return Bad(path, fmt::format("no JSON: it goes wrong at byte {}", e.byte));
  } catch (const typename T::exception&) {
    return Bad(path, "JSON with a number out of range");
  }
}

}  // namespace

bool NestsTooDeep(std::string_view json) {
  int depth = 0;
  bool in_text = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (c == '"') in_text = !in_text;
    if (in_text) {
      if (c == '\\') ++i;
    } else if (c == '[' || c == '{') {
      if (++depth > kMostNested) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

absl::StatusOr<std::string> ReadText(const std::string& path, size_t most) {
  const auto file = InputFile::Open(path);
  if (!file.ok()) return file.status();
  if (file->size() > most) {
    return Bad(path, fmt::format("{} bytes, more than such a file may have "
                                 "({})",
                                 file->size(), most));
  }
  std::string text(file->size(), '\0');
  const auto status =
      file->ReadAt(0, {reinterpret_cast<std::byte*>(text.data()), text.size()});
  if (!status.ok()) return status;
  return text;
}

absl::StatusOr<Json> ReadJsonObject(const std::string& path, size_t most) {
  return ReadObject<Json>(path, most, &Parse<Json>);
}

absl::StatusOr<Json> ReadConfig(const std::string& path) {
  return ReadObject<Json>(path, kMaxConfigBytes, &ParsePythonJson);
}

absl::StatusOr<Model> Model::Open(const std::string& path) {
  if (path == "-") {
    return Bad(path, "a model is a directory and does not come as a stream");
  }
  Model model;
  model.path_ = path;
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) {
    return absl::ErrnoToStatus(errno, fmt::format("cannot open {}", path));
  }
  if (S_ISDIR(info.st_mode)) {
    if (auto s = model.OpenDirectory(); !s.ok()) return s;
    return model;
  }
  if (!path.ends_with(kShardEnding)) {
    return Bad(path, "neither a directory nor a .safetensors file by its name");
  }
  model.single_file_ = true;
  const fs::path whole(path);
  model.path_ = whole.has_parent_path() ? whole.parent_path().string() : ".";
  if (auto s = model.OpenShards({whole.filename().string()}); !s.ok()) return s;
  return model;
}

absl::Status Model::OpenDirectory() {
  std::vector<std::string> found;
  std::vector<std::string> indexes;
  std::vector<std::string> foreign;
  bool interrupted = false;
  std::error_code error;
  const auto sort_out = [&](const fs::path& folder, const std::string& prefix) {
    for (fs::directory_iterator i(folder, error), end; !error && i != end;
         i.increment(error)) {
      const std::string name = i->path().filename().string();
      std::error_code ignored;
      if (i->is_directory(ignored)) continue;
      if (prefix.empty() && name.ends_with(kIndexEnding)) {
        indexes.push_back(name);
      } else if (prefix.empty() && name.ends_with(kShardEnding)) {
        found.push_back(name);
      } else if (IsCarried(name)) {
        others_.push_back(prefix + name);
      } else if (prefix.empty() && name.ends_with(kOwnFiles[1])) {
        interrupted = true;
      } else if (name.ends_with(".bin") || name.ends_with(".pth")) {
        foreign.push_back(prefix + name);
      }
    }
  };
  sort_out(path_, "");
  if (error) {
    return absl::ErrnoToStatus(error.value(),
                               fmt::format("cannot read {}", path_));
  }
  for (std::vector<std::string>* list : {&found, &indexes, &foreign}) {
    std::sort(list->begin(), list->end());
  }
  if (indexes.size() > 1) {
    return Bad(path_, fmt::format("{} indexes ({}): leave the one that counts",
                                  indexes.size(), Some(indexes)));
  }
  std::vector<std::string> names = found;
  if (!indexes.empty()) {
    index_name_ = indexes[0];
    if (auto s = ReadIndex(); !s.ok()) return s;
    std::set<std::string> listed;
    for (const auto& [tensor, shard] : index_) listed.insert(shard);
    names.assign(listed.begin(), listed.end());
    std::vector<std::string> missing;
    for (const std::string& name : names) {
      if (!std::binary_search(found.begin(), found.end(), name)) {
        missing.push_back(name);
      }
    }
    if (!missing.empty()) {
      return Bad(path_, fmt::format("{} of {} shards that {} names are "
                                    "missing: {}",
                                    missing.size(), names.size(), index_name_,
                                    Some(missing)));
    }
    for (const std::string& name : found) {
      if (listed.count(name) > 0) continue;
      strays_.push_back(name);
      notes_.push_back(
          fmt::format("{} is not in {} and is left out", name, index_name_));
    }
  } else if (const bool one = std::count(found.begin(), found.end(), kOne) > 0;
             one && std::all_of(found.begin(), found.end(), IsBeside)) {
    // Adapters, and the weights in the form of another program.
    names = {std::string(kOne)};
    for (const std::string& name : found) {
      if (name == kOne) continue;
      strays_.push_back(name);
      notes_.push_back(fmt::format("{} is left out, beside {}", name, kOne));
    }
  } else if (found.size() > 1) {
    return Bad(path_, fmt::format("{} .safetensors files and no index that "
                                  "says which belong together: {}",
                                  found.size(), Some(found)));
  } else if (found.empty()) {
    return Bad(path_, interrupted
                          ? "an unfinished conversion: run the same convert "
                            "again, and it goes on from there"
                      : foreign.empty()
                          ? std::string("holds no .safetensors file")
                          : fmt::format("holds {} but no .safetensors file; "
                                        "save the model as safetensors first",
                                        Some(foreign)));
  }
  if (const std::string config = path_ + "/config.json"; fs::exists(config)) {
    auto json = ReadConfig(config);
    if (!json.ok()) return json.status();
    config_ = *std::move(json);
    has_config_ = true;
  }
  // Poolings of sentence encoders, for example: small files in folders.
  std::vector<fs::path> folders;
  for (fs::directory_iterator i(path_, error), end; !error && i != end;
       i.increment(error)) {
    std::error_code ignored;
    const std::string name = i->path().filename().string();
    if (i->is_directory(ignored) && name.front() != '.') {
      folders.push_back(i->path());
    }
  }
  for (const fs::path& folder : folders) {
    error.clear();
    sort_out(folder, folder.filename().string() + "/");
    // A config of a folder is not the model's.
    if (fs::exists(folder / "config.json")) {
      others_.push_back(folder.filename().string() + "/config.json");
    }
  }
  std::sort(others_.begin(), others_.end());
  if (auto s = OpenShards(names); !s.ok()) return s;
  return index_name_.empty() ? absl::OkStatus() : CheckIndex();
}

absl::Status Model::ReadIndex() {
  const std::string path = path_ + "/" + index_name_;
  const auto json = ReadObject<nlohmann::json>(
      path, safetensors::kMaxHeaderBytes, &Parse<nlohmann::json>);
  if (!json.ok()) return json.status();
  const auto map = json->find("weight_map");
  if (map == json->end() || !map->is_object() || map->empty()) {
    return Bad(path, "no weight_map with tensors in it");
  }
  for (const auto& [tensor, shard] : map->items()) {
    if (!shard.is_string()) {
      return Bad(path, fmt::format("tensor \"{}\": the name of a shard was "
                                   "expected, got {}",
                                   tensor.substr(0, 200), shard.type_name()));
    }
    const auto& name = shard.get_ref<const std::string&>();
    if (!IsPlainName(name) || !name.ends_with(kShardEnding)) {
      return Bad(path, fmt::format("tensor \"{}\": \"{}\" is not the name of a "
                                   ".safetensors file in this directory",
                                   tensor.substr(0, 200), name.substr(0, 200)));
    }
    index_.emplace(tensor, name);
  }
  return absl::OkStatus();
}

absl::Status Model::OpenShards(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const std::string path = path_ + "/" + name;
    auto file = safetensors::File::Open(path);
    if (!file.ok()) {
      return IsPointer(path) ? Bad(path,
                                   "a pointer of Git LFS in place of the file: "
                                   "\"git lfs pull\" fetches it")
                             : file.status();
    }
    for (const ModelShard& shard : shards_) {
      if (shard.file.identity() == file->identity()) {
        return Bad(path, fmt::format("the same file as {}", shard.name));
      }
    }
    for (const safetensors::Tensor& t : file->tensors()) {
      const auto [place, fresh] = by_name_.emplace(t.name, tensors_.size());
      if (!fresh) {
        return Bad(
            path_,
            fmt::format("tensor \"{}\" is in {} and in {}",
                        t.name.substr(0, 200),
                        shards_[tensors_[place->second].shard].name, name));
      }
      tensors_.push_back({t, shards_.size()});
    }
    shards_.push_back({name, path, *std::move(file)});
  }
  return absl::OkStatus();
}

absl::Status Model::CheckIndex() {
  const std::string path = path_ + "/" + index_name_;
  for (const auto& [name, said] : index_) {
    const ModelTensor* tensor = Find(name);
    if (tensor == nullptr) {
      return Bad(path, fmt::format("tensor \"{}\" is not in {}, which may be "
                                   "of another download",
                                   name.substr(0, 200), said));
    }
    if (shards_[tensor->shard].name != said) {
      return Bad(path, fmt::format("tensor \"{}\" is in {} and not in {}",
                                   name.substr(0, 200),
                                   shards_[tensor->shard].name, said));
    }
  }
  if (index_.size() < tensors_.size()) {
    unlisted_ = tensors_.size() - index_.size();
    notes_.push_back(
        fmt::format("{} tensors are not in {} and are kept all the same",
                    unlisted_, index_name_));
  }
  return absl::OkStatus();
}

const ModelTensor* Model::Find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &tensors_[found->second];
}

std::string Model::model_type() const {
  const auto type = config_.find("model_type");
  return type != config_.end() && type->is_string() ? type->get<std::string>()
                                                    : "";
}

absl::Status Model::Read(const ModelTensor& tensor, size_t offset,
                         absl::Span<std::byte> bytes) const {
  return shards_[tensor.shard].file.Read(tensor.stored, offset, bytes);
}

}  // namespace quantd::checkpoint
