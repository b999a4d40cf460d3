#include "client/checkpoint/model.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <iterator>
#include <set>
#include <utility>

#include "client/files/foreign_format.h"
#include "client/files/model_files.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace quantd::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kConfig = "config.json";

absl::Status Bad(const std::string& path, std::string_view why) {
  return absl::InvalidArgumentError(fmt::format("{}: {}", path, why));
}

// Whether `name` is a plain file name without a directory.
bool IsPlainName(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find('/') == std::string_view::npos &&
         name.find('\0') == std::string_view::npos;
}

// The first few names and the number of the others, for a message.
std::string Some(const std::vector<std::string>& names) {
  const size_t shown = std::min(names.size(), size_t{5});
  std::string text =
      fmt::format("{}", fmt::join(names.begin(), names.begin() + shown, ", "));
  if (names.size() > shown) {
    text += fmt::format(" and {} more", names.size() - shown);
  }
  return text;
}

constexpr std::string_view kOne = "model.safetensors";
// Whether engines recognize by the name that the file is not a shard.
bool IsBeside(std::string_view name) {
  return name == kOne || name.starts_with("consolidated") ||
         name.starts_with("adapter");
}

// The number of shards in a shard's name: 2 for
// "model-00001-of-00002.safetensors". 0 if the name has none.
int64_t CountIn(std::string_view shard) {
  constexpr std::string_view kOf = "-of-";
  const size_t at = shard.rfind(kOf);
  if (at == std::string_view::npos) return 0;
  int64_t count = 0;
  const std::string_view digits = shard.substr(at + kOf.size());
  std::from_chars(digits.data(), digits.data() + digits.size(), count);
  return count;
}

}  // namespace

absl::StatusOr<Json> ReadJsonObject(const absl::StatusOr<InputFile>& file,
                                    size_t most) {
  return ReadObject<Json>(
      file, most, [](std::string_view text) { return Json::parse(text); });
}

absl::StatusOr<Json> ReadConfig(const absl::StatusOr<InputFile>& file) {
  return ReadObject<Json>(file, kMaxConfigBytes, &ParsePythonJson);
}

absl::StatusOr<Model> Model::Open(const std::string& path,
                                  const std::vector<std::string>& only) {
  if (path == "-") {
    return Bad(path,
               "a model is a directory and cannot be read from standard input");
  }
  Model model;
  model.path_ = path;
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) {
    return absl::ErrnoToStatus(errno, fmt::format("cannot open {}", path));
  }
  if (S_ISDIR(info.st_mode)) {
    if (auto s = model.OpenDirectory(only); !s.ok()) return s;
    return model;
  }
  if (!path.ends_with(kShardEnding)) {
    const auto file = InputFile::Open(path);
    const std::string other = file.ok() ? ForeignFormat(*file) : "";
    return Bad(
        path,
        fmt::format("expected a directory or a file named *.safetensors{}{}",
                    other.empty() ? "" : ", but ", other));
  }
  model.single_file_ = true;
  const fs::path whole(path);
  model.path_ = whole.has_parent_path() ? whole.parent_path().string() : ".";
  std::vector<std::string> names = {whole.filename().string()};
  if (auto s = model.Choose(only, &names); !s.ok()) return s;
  if (auto s = model.OpenShards(names); !s.ok()) return s;
  return model;
}

absl::Status Model::OpenDirectory(const std::vector<std::string>& only) {
  auto folder = ModelFolder::Open(path_);
  if (!folder.ok()) return folder.status();
  folder_ = *std::move(folder);
  auto files = FindModelFiles(folder_, path_);
  if (!files.ok()) return files.status();
  const std::vector<std::string>& found = files->shards;
  notes_ = std::move(files->notes);
  others_ = std::move(files->carried);
  has_config_ = std::ranges::count(files->settings, kConfig) > 0;
  if (auto s = ChooseIndex(files->indexes); !s.ok()) return s;
  std::vector<std::string> names = found;
  if (!index_name_.empty()) {
    if (auto s = ReadIndex(); !s.ok()) return s;
    std::set<std::string> listed;
    for (const auto& [tensor, shard] : index_) listed.insert(shard);
    names.assign(listed.begin(), listed.end());
  } else if (std::ranges::count(found, kOne) > 0 &&
             std::ranges::all_of(found, IsBeside)) {
    // Ignores the other files: adapters, or the same weights for other
    // programs.
    names = {std::string(kOne)};
  } else if (const int64_t shards = found.size() == 1 ? CountIn(found[0]) : 0;
             shards > 1) {
    return Bad(path_,
               fmt::format("{} is 1 of {} shards, but the other shards and the "
                           "index are missing: download them again, or pass "
                           "the path of that file to convert it alone",
                           found[0], shards));
  } else if (found.size() > 1) {
    return Bad(path_, fmt::format("there are {} .safetensors files, but no "
                                  "index that lists the shards: {}; download "
                                  "their .safetensors.index.json, too, or name "
                                  "the one file that is the model",
                                  found.size(), Some(found)));
  }
  std::set_difference(found.begin(), found.end(), names.begin(), names.end(),
                      std::back_inserter(strays_));
  // Adapters are copied, because loaders look for them beside
  // adapter_config.json.
  const auto adapters = std::stable_partition(
      strays_.begin(), strays_.end(),
      [](const std::string& name) { return !name.starts_with("adapter"); });
  const std::vector<std::string> carried(adapters, strays_.end());
  strays_.erase(adapters, strays_.end());
  others_.insert(others_.end(), carried.begin(), carried.end());
  if (!carried.empty()) {
    notes_.push_back(fmt::format("copied as they are, unquantized: {}",
                                 NameFiles(folder_, carried)));
  }
  if (!strays_.empty()) {
    notes_.push_back(fmt::format("left out, {}: {}",
                                 index_name_.empty()
                                     ? fmt::format("not part of {}", kOne)
                                     : fmt::format("not in {}", index_name_),
                                 NameFiles(folder_, strays_)));
  }
  if (auto s = Choose(only, &names); !s.ok()) return s;
  std::vector<std::string> missing = names;
  std::erase_if(missing, [&](const std::string& name) {
    return std::ranges::binary_search(found, name);
  });
  if (!missing.empty()) {
    return Bad(path_, fmt::format("missing {} of the {} shards in {}: {}",
                                  missing.size(), names.size(), index_name_,
                                  Some(missing)));
  }
  if (has_config_) {
    auto json = ReadConfig(folder_.OpenFile(std::string(kConfig)));
    if (!json.ok()) return json.status();
    config_ = *std::move(json);
  }
  if (auto s = OpenShards(names); !s.ok()) return s;
  return index_name_.empty() ? absl::OkStatus() : CheckIndex();
}

// Prefers the usual index. Mistral's models have a second one for
// consolidated*.safetensors, which hold the weights in Mistral's own form.
absl::Status Model::ChooseIndex(const std::vector<std::string>& indexes) {
  if (indexes.empty()) return absl::OkStatus();
  constexpr std::string_view kUsual = "model.safetensors.index.json";
  const bool usual = std::ranges::count(indexes, kUsual) > 0;
  if (indexes.size() > 1 && !usual) {
    return Bad(path_, fmt::format("there are {} indexes ({}): keep only the "
                                  "one that lists the shards",
                                  indexes.size(), Some(indexes)));
  }
  index_name_ = usual ? kUsual : indexes[0];
  std::vector<std::string> others = indexes;
  std::erase(others, index_name_);
  if (!others.empty()) {
    notes_.push_back(fmt::format("left out, because {} is used: {}",
                                 index_name_, NameFiles(folder_, others)));
  }
  return absl::OkStatus();
}

absl::Status Model::Choose(const std::vector<std::string>& only,
                           std::vector<std::string>* names) {
  if (only.empty()) return absl::OkStatus();
  const std::set<std::string> wanted(only.begin(), only.end());
  for (const std::string& name : wanted) {
    if (std::ranges::count(*names, name) > 0) continue;
    return Bad(path_,
               fmt::format("{} is not a shard of this model; its shards are {}",
                           name.substr(0, 200), Some(*names)));
  }
  if (wanted.count(names->front()) == 0) others_.clear();
  left_ = names->size() - wanted.size();
  if (left_ > 0) {
    notes_.push_back(
        fmt::format("{} of {} shards are left out: weights in them do not "
                    "share an amax with converted weights",
                    left_, names->size()));
  }
  names->assign(wanted.begin(), wanted.end());
  std::erase_if(index_, [&](const auto& i) { return !wanted.count(i.second); });
  return absl::OkStatus();
}

absl::Status Model::ReadIndex() {
  const std::string path = path_ + "/" + index_name_;
  const auto json = ReadObject<nlohmann::json>(
      folder_.OpenFile(index_name_), safetensors::kMaxHeaderBytes,
      [](std::string_view text) { return nlohmann::json::parse(text); });
  if (!json.ok()) return json.status();
  const auto map = json->find("weight_map");
  if (map == json->end() || !map->is_object() || map->empty()) {
    return Bad(path, "it has no weight_map with tensors");
  }
  for (const auto& [tensor, shard] : map->items()) {
    if (!shard.is_string()) {
      return Bad(
          path,
          fmt::format("tensor \"{}\": expected the name of a shard, got {}",
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
    auto file = safetensors::File::Open(single_file_ ? InputFile::Open(path)
                                                     : folder_.OpenFile(name));
    if (!file.ok()) return file.status();
    for (const ModelShard& shard : shards_) {
      if (shard.file.identity() == file->identity()) {
        return Bad(path, fmt::format("it is the same file as {}", shard.name));
      }
    }
    shards_.push_back({name, path, *std::move(file)});
  }
  return TakeTensors();
}

// Collects the tensors of all shards. The index decides between two copies of a
// tensor, and between the plain and the packed form of a weight.
absl::Status Model::TakeTensors() {
  const auto is_said = [this](const std::string& name, size_t shard) {
    const auto said = index_.find(name);
    return said != index_.end() && said->second == shards_[shard].name;
  };
  std::set<size_t> stale;
  for (size_t i = 0; i < shards_.size(); ++i) {
    for (const safetensors::Tensor& t : shards_[i].file.tensors()) {
      const size_t here = tensors_.size();
      const auto [place, fresh] = by_name_.emplace(t.name, here);
      tensors_.push_back({t, i});
      if (fresh) continue;
      const size_t other = tensors_[place->second].shard;
      if (is_said(t.name, i)) {
        stale.insert(std::exchange(place->second, here));
      } else if (is_said(t.name, other)) {
        stale.insert(here);
      } else {
        return Bad(path_, fmt::format("tensor \"{}\" is in both {} and {}",
                                      t.name.substr(0, 200),
                                      shards_[other].name, shards_[i].name));
      }
    }
  }
  for (size_t i = 0; i < tensors_.size() && !index_.empty(); ++i) {
    constexpr std::string_view kPlain = ".weight";
    const std::string& name = tensors_[i].name();
    const size_t cut = name.rfind(kPlain);
    if (index_.count(name) > 0 || cut == std::string::npos) continue;
    const std::string plain = name.substr(0, cut + kPlain.size());
    const std::string packed = plain + "_packed";
    // If both forms exist, scales belong to the packed form.
    if (name == plain ? index_.count(packed) > 0
                      : index_.count(plain) > 0 && index_.count(packed) == 0 &&
                            by_name_.count(packed) > 0) {
      stale.insert(i);
    }
  }
  if (stale.empty()) return absl::OkStatus();
  const ModelTensor& first = tensors_[*stale.begin()];
  notes_.push_back(
      fmt::format("{} tensors are left out, for example {} of {}, because {} "
                  "names another copy or form of them",
                  stale.size(), first.name().substr(0, 200),
                  shards_[first.shard].name, index_name_));
  size_t at = 0;
  std::erase_if(tensors_, [&](const auto&) { return stale.count(at++) > 0; });
  by_name_.clear();
  for (const auto& t : tensors_) by_name_.emplace(t.name(), by_name_.size());
  return absl::OkStatus();
}

absl::Status Model::CheckIndex() {
  const std::string path = path_ + "/" + index_name_;
  for (const auto& [name, said] : index_) {
    const ModelTensor* tensor = Find(name);
    if (tensor == nullptr) {
      return Bad(
          path, fmt::format("tensor \"{}\" is not in {}, where the index lists "
                            "it; the two may be from different downloads",
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
    notes_.push_back(fmt::format("{} tensors are not in {}, but are copied",
                                 unlisted_, index_name_));
  }
  return absl::OkStatus();
}

const ModelTensor* Model::Find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &tensors_[found->second];
}

std::string Model::model_type() const {
  return TextOf(Member(&config_, "model_type")).value_or("");
}

absl::Status Model::Read(const ModelTensor& tensor, size_t offset,
                         absl::Span<std::byte> bytes) const {
  return shards_[tensor.shard].file.Read(tensor.stored, offset, bytes);
}

absl::StatusOr<std::vector<std::byte>> Model::ReadAll(
    const ModelTensor& tensor) const {
  std::vector<std::byte> bytes(tensor.stored.size);
  if (auto s = Read(tensor, 0, absl::MakeSpan(bytes)); !s.ok()) return s;
  return bytes;
}

absl::Status Model::ReadInPieces(
    const ModelTensor& tensor, size_t most,
    absl::FunctionRef<absl::Status(size_t, absl::Span<const std::byte>)> take)
    const {
  const size_t size = tensor.stored.size;
  std::vector<std::byte> buffer(std::min(size, most));
  for (size_t done = 0; done < size; done += buffer.size()) {
    const auto bytes =
        absl::MakeSpan(buffer).first(std::min(buffer.size(), size - done));
    if (auto s = Read(tensor, done, bytes); !s.ok()) return s;
    if (auto s = take(done, bytes); !s.ok()) return s;
  }
  return absl::OkStatus();
}

}  // namespace quantd::checkpoint
