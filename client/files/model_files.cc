#include "client/files/model_files.h"

#include <algorithm>
#include <set>
#include <utility>

#include "client/files/foreign_format.h"
#include "client/files/shown_name.h"
#include "client/files/words.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace quantd {
namespace {

constexpr std::string_view kConfig = "config.json";
// Files that quantctl keeps beside its output.
constexpr std::string_view kDraft = ".partial";
constexpr std::string_view kJournal = ".quantd-journal";
// Lists the models of a pipeline, each in its own folder.
constexpr std::string_view kPipeline = "model_index.json";

// Weights in other formats. They would contradict the weights that are written.
constexpr Words kForeign = ".gguf .ggml .h5 .msgpack .ckpt .tflite";
// These are other forms of the weights if they lie in one of kForeignFolders,
// or at the top without safetensors files, or beside safetensors files and are
// large or named like weights. Otherwise they are the only weights of a
// component, or small data such as voices.
constexpr std::string_view kPickled[] = {".bin", ".pt", ".pth"};
constexpr Words kForeignFolders = "original/ onnx/ openvino/ metal/";
constexpr Words kWeightWords = "model consolidated weight checkpoint";
constexpr size_t kSmall = size_t{64} << 20;
constexpr std::string_view kTraining[] = {
    "optimizer",     "scheduler",     "scaler",       "rng_state",
    "training_args", "_optim_states", "_model_states"};

constexpr size_t kShown = 20;

bool IsSetting(std::string_view name) {
  return name == kConfig || std::ranges::count(kQuantizationFiles, name) > 0;
}

// The folder with its '/', and the name within it.
std::pair<std::string_view, std::string_view> SplitPath(std::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return {"", path};
  return {path.substr(0, slash + 1), path.substr(slash + 1)};
}

size_t SizeOf(const ModelFolder& folder, const std::string& name) {
  const auto file = folder.OpenFile(name);
  return file.ok() ? file->size() : 0;
}

class Sorter {
 public:
  Sorter(const ModelFolder& folder, const Listing& listing)
      : folder_(folder), listing_(listing) {
    for (const std::string& path : listing.files) {
      if (path.ends_with(kShardEnding))
        with_shards_.emplace(SplitPath(path).first);
    }
  }

  ModelFiles Sort() {
    for (const std::string& path : listing_.files) Place(path);
    for (const std::string& path : listing_.hidden) {
      out_.interrupted |= path == kJournal;
    }
    Note("left out, the same weights in another form", out_.foreign);
    Note("left out, state of training", training_);
    Note("left out, drafts of an unfinished conversion", drafts_);
    Note("left out, hidden", listing_.hidden);
    Note("copied as they are, unquantized", unread_);
    out_.notes.insert(out_.notes.end(), listing_.unread.begin(),
                      listing_.unread.end());
    return std::move(out_);
  }

 private:
  void Place(const std::string& path) {
    const auto [in, name] = SplitPath(path);
    const bool at_top = in.empty();
    if (path.ends_with(kDraft) || path.ends_with(kJournal)) {
      drafts_.push_back(path);
      out_.interrupted |= at_top && path.ends_with(kJournal);
    } else if (IsTraining(name)) {
      training_.push_back(path);
    } else if (IsForeign(path)) {
      out_.foreign.push_back(path);
    } else if (at_top && name.ends_with(kIndexEnding)) {
      out_.indexes.push_back(path);
    } else if (at_top && name.ends_with(kShardEnding)) {
      out_.shards.push_back(path);
    } else if (at_top && IsSetting(name)) {
      // Only a config at the top is the model's. Sentence encoders have others
      // in their pooling folders.
      out_.settings.push_back(path);
    } else {
      out_.carried.push_back(path);
      if (name.ends_with(kShardEnding) || EndsWithOneOf(name, kPickled)) {
        unread_.push_back(path);
      }
    }
  }

  static bool IsTraining(std::string_view name) {
    return EndsWithOneOf(name, kPickled) && HoldsOneOf(name, kTraining);
  }

  bool IsForeign(const std::string& path) const {
    const auto [in, name] = SplitPath(path);
    // An index counts as a file of the same format as its weights.
    constexpr std::string_view kIndex = ".index.json";
    const std::string_view of =
        name.ends_with(kIndex) ? name.substr(0, name.size() - kIndex.size())
                               : name;
    if (EndsWithOneOf(of, kForeign) || of.find(".onnx") != of.npos) return true;
    const bool variant = of == name && name.ends_with(".json") &&
                         name.find(".safetensors.index.") != name.npos &&
                         !name.ends_with(kIndexEnding);
    if (in.empty() && variant) return true;
    const std::string first = path.substr(0, path.find('/') + 1);
    const bool pickled = EndsWithOneOf(of, kPickled);
    if (std::ranges::count(kForeignFolders, first) > 0) {
      return pickled || of.ends_with(kShardEnding);
    }
    // Loaders look for adapters beside adapter_config.json.
    if (!pickled || name.starts_with("adapter")) return false;
    if (with_shards_.count(std::string(in)) == 0) return in.empty();
    return HoldsOneOf(of, kWeightWords) || SizeOf(folder_, path) > kSmall;
  }

  void Note(std::string_view what, const std::vector<std::string>& names) {
    if (names.empty()) return;
    out_.notes.push_back(
        fmt::format("{}: {}", what, NameFiles(folder_, names)));
  }

  const ModelFolder& folder_;
  const Listing& listing_;
  std::set<std::string> with_shards_;  // folders
  std::vector<std::string> training_, drafts_, unread_;
  ModelFiles out_;
};

// Whether a file of this name would be read as a part of the model.
bool IsOwn(const std::string& name) {
  return name.ends_with(kIndexEnding) || name.ends_with(kShardEnding) ||
         IsSetting(name);
}

// Names are written into JSON, which must be valid UTF-8.
absl::Status CheckNames(const ModelFiles& files, std::string_view path) {
  for (const auto* names : {&files.shards, &files.indexes}) {
    for (const std::string& name : *names) {
      if (ShownName(name) == name) continue;
      return absl::InvalidArgumentError(fmt::format(
          "{}/{}: the name has control characters or is not UTF-8; rename it",
          path, ShownName(name)));
    }
  }
  return absl::OkStatus();
}

// The folders of `path` that hold weights, as a list for a message. Empty if no
// folder has weights.
std::string PartsOf(const Listing& listing, std::string_view path) {
  std::vector<std::string> parts;
  for (const std::string& name : listing.files) {
    const std::string part = name.substr(0, name.rfind('/'));
    if (!name.ends_with(kShardEnding) || part == name) continue;
    if (parts.empty() || parts.back() != part) parts.push_back(part);
  }
  std::ranges::stable_partition(parts, [](const auto& part) {
    return part.starts_with("transformer") || part.starts_with("unet");
  });
  if (parts.size() > kShown) parts.resize(kShown);
  for (std::string& part : parts) {
    part = fmt::format("{}/{}", path, ShownName(part));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

// The reason why the folder has no weights to convert. Empty if it has some.
std::string WhyNone(const ModelFiles& files, const Listing& listing,
                    std::string_view path) {
  const bool pipeline = std::ranges::count(files.carried, kPipeline) > 0;
  if (!pipeline && !(files.shards.empty() && files.indexes.empty())) return "";
  const std::string parts = PartsOf(listing, path);
  if (pipeline) {
    return fmt::format("a pipeline of several models ({}); {}{}", kPipeline,
                       parts.empty() ? "none of its folders has weights"
                                     : "name one of its folders: ",
                       parts);
  }
  if (files.interrupted) {
    return "an unfinished conversion: run the same convert command again to "
           "resume it";
  }
  for (const std::string& name : files.foreign) {
    if (name.find('/') != name.npos && !parts.empty()) continue;
    return fmt::format(
        "holds {} but no .safetensors file; save the model as safetensors "
        "first, in Python with transformers: "
        "AutoModelForCausalLM.from_pretrained(\"{}\"{}).save_pretrained("
        "\"NEW\")",
        ShownName(name), path,
        name.ends_with(".gguf")
            ? fmt::format(", gguf_file=\"{}\"", ShownName(name))
            : "");
  }
  if (!parts.empty()) {
    return fmt::format(
        "holds no .safetensors file, but its folders do; name one: {}", parts);
  }
  return listing.files.empty() ? "holds no file" : "holds no .safetensors file";
}

absl::Status CheckFile(const ModelFolder& folder, const std::string& name) {
  const auto file = folder.OpenFile(name);
  if (!file.ok()) return file.status();
  if (!IsLfsPointer(*file)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{}: {}", file->path(), ForeignFormat(*file)));
}

}  // namespace

std::string NameFiles(const ModelFolder& folder,
                      const std::vector<std::string>& names) {
  std::vector<std::string> shown;
  size_t files = 0, bytes = 0;
  for (const std::string& name : names) {
    if (shown.size() < kShown) shown.push_back(ShownName(name));
    if (name.ends_with('/')) continue;
    ++files;
    bytes += SizeOf(folder, name);
  }
  std::string text = fmt::format("{}", fmt::join(shown, ", "));
  if (names.size() > shown.size()) {
    text += fmt::format(" and {} more", names.size() - shown.size());
  }
  if (files == 0) return text;
  return text + fmt::format(" ({} file{}, {} byte{})", files,
                            files == 1 ? "" : "s", bytes,
                            bytes == 1 ? "" : "s");
}

absl::StatusOr<ModelFiles> FindModelFiles(const ModelFolder& folder,
                                          std::string_view path) {
  const auto listing = folder.List();
  if (!listing.ok()) return listing.status();
  ModelFiles files = Sorter(folder, *listing).Sort();
  for (const std::string& name : listing->folders) {
    const std::string plain = name.substr(0, name.size() - 1);
    if (plain.find('/') != plain.npos || !IsOwn(plain)) continue;
    if (auto s = folder.OpenFile(plain).status(); !s.ok()) return s;
  }
  if (auto s = CheckNames(files, path); !s.ok()) return s;
  if (const std::string why = WhyNone(files, *listing, path); !why.empty()) {
    return absl::InvalidArgumentError(fmt::format("{}: {}", path, why));
  }
  for (const auto* names : {&files.settings, &files.carried}) {
    for (const std::string& name : *names) {
      if (auto s = CheckFile(folder, name); !s.ok()) return s;
    }
  }
  for (const auto* names : {&files.indexes, &files.shards}) {
    for (const std::string& name : *names) {
      if (auto s = folder.OpenFile(name).status(); !s.ok()) return s;
    }
  }
  return files;
}

}  // namespace quantd
