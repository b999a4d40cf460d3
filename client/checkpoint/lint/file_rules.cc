#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>

#include "client/checkpoint/lint/rules.h"
#include "client/files/safetensors.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace quantd::checkpoint {
namespace {

constexpr std::string_view kFormats[] = {"pt", "tf", "flax", "mlx"};

std::string Shown(const std::string& text) {
  const Json json = text;
  return checkpoint::Shown(&json);
}

class FileRules {
 public:
  FileRules(const LintedModel& linted, Findings* findings)
      : linted_(linted), findings_(*findings) {}

  // Loaders that take all files of a directory take one of the two.
  void CheckStrays() {
    for (const std::string& name : linted_.model.strays()) {
      // Mistral's own form, which loaders by an index leave out.
      const bool listed = !linted_.model.index_name().empty();
      if (listed && name.starts_with("consolidated")) continue;
      const auto file =
          safetensors::File::Open(linted_.model.path() + "/" + name);
      if (!file.ok()) continue;
      for (const safetensors::Tensor& t : file->tensors()) {
        if (linted_.model.Find(t.name) == nullptr) continue;
        findings_.Add("stray-file", name,
                      fmt::format("not in {}, and it has a {} of its own",
                                  listed ? linted_.model.index_name()
                                         : linted_.model.shards().front().name,
                                  t.name));
        break;
      }
    }
  }

  // transformers loads a file with metadata only if it says of whom it is.
  void CheckFormats() {
    if (linted_.model.single_file() || linted_.dialect == Dialect::kComfy) {
      return;
    }
    for (const ModelShard& shard : linted_.model.shards()) {
      const safetensors::Metadata& metadata = shard.file.metadata();
      const auto format = metadata.find("format");
      if (metadata.empty() ||
          (format != metadata.end() &&
           std::find(std::begin(kFormats), std::end(kFormats),
                     format->second) != std::end(kFormats))) {
        continue;
      }
      findings_.Add(
          "file-format", shard.name,
          format == metadata.end()
              ? "its metadata has no \"format\""
              : fmt::format("its metadata has the \"format\" {}, and {} are "
                            "known",
                            Shown(format->second), fmt::join(kFormats, ", ")));
    }
  }

  void CheckNames() {
    for (const ModelTensor& t : linted_.model.tensors()) {
      for (const std::string_view wrapper :
           {"module.", "_orig_mod.", "model.module.", "model._orig_mod."}) {
        if (!t.name().starts_with(wrapper)) continue;
        findings_.Add("wrapped-names", t.name(),
                      fmt::format("its name begins with \"{}\"", wrapper));
        break;
      }
      for (const std::string_view adapter : {".lora_", ".base_layer."}) {
        if (t.name().find(adapter) == std::string::npos) continue;
        findings_.Add("wrapped-names", t.name(),
                      "it is of an adapter that was not merged", "adapter");
        break;
      }
    }
    if (linted_.model.unlisted() > 0) {
      findings_.Add("index", linted_.model.index_name(),
                    fmt::format("{} tensors of its shards are not in it",
                                linted_.model.unlisted()));
    }
  }

 private:
  const LintedModel& linted_;
  Findings& findings_;
};

}  // namespace

void LintFiles(const LintedModel& linted, Findings* findings) {
  FileRules rules(linted, findings);
  rules.CheckFormats();
  rules.CheckNames();
  rules.CheckStrays();
}

}  // namespace quantd::checkpoint
