// Fuzzes directories of models: config.json, hf_quant_config.json and the
// index, beside fixed small shards. The first byte of the input chooses the
// shards. The three texts follow, separated by a line "====".
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "client/checkpoint/architecture.h"
#include "client/checkpoint/check/declared.h"
#include "client/checkpoint/lint/lint.h"
#include "client/checkpoint/model.h"
#include "client/checkpoint/plan.h"
#include "client/checkpoint/stored.h"
#include "client/files/safetensors.h"
#include "fmt/format.h"
#include "tests/fuzz/targets/target.h"

namespace quantd::checkpoint {
namespace {

namespace fs = std::filesystem;
using fuzz::Check;

// The parts of a weight in each dialect, by the endings of their names.
struct Part {
  const char* ending;
  const char* dtype;
  std::vector<int64_t> shape;
};
const std::vector<std::vector<Part>>& Dialects() {
  static const std::vector<std::vector<Part>> dialects = {
      {{".weight", "BF16", {32, 32}}},
      {{".weight_packed", "U8", {32, 16}},
       {".weight_scale", "F8_E4M3", {32, 2}},
       {".weight_global_scale", "F32", {1}}},
      {{".weight", "U8", {32, 16}},
       {".weight_scale", "F8_E4M3", {32, 2}},
       {".weight_scale_2", "F32", {}},
       {".input_scale", "F32", {}}},
      {{".weight", "F8_E4M3", {32, 32}}, {".weight_scale_inv", "F32", {1, 1}}},
      {{".weight", "F8_E4M3", {32, 32}}, {".weight_scale", "F32", {32, 1}}},
      {{".weight", "F8_E4M3", {32, 32}}, {".weight_scale", "U8", {32, 1}}},
  };
  return dialects;
}

constexpr char kShard[] = "model-00001-of-00001.safetensors";

void WriteShard(const std::string& path, const std::vector<Part>& parts) {
  std::vector<safetensors::Tensor> planned;
  const auto add = [&](std::string name, const char* dtype,
                       std::vector<int64_t> shape) {
    size_t bytes = static_cast<size_t>(safetensors::BitsOf(dtype)) / 8;
    for (const int64_t d : shape) bytes *= static_cast<size_t>(d);
    planned.push_back({std::move(name), dtype, std::move(shape), 0, bytes});
  };
  add("model.embed_tokens.weight", "BF16", {16, 32});
  add("lm_head.weight", "BF16", {16, 32});
  add("model.layers.0.input_layernorm.weight", "BF16", {32});
  for (const char* module : {"self_attn.q_proj", "self_attn.k_proj",
                             "self_attn.v_proj", "self_attn.o_proj"}) {
    for (const Part& part : parts) {
      add(fmt::format("model.layers.0.{}{}", module, part.ending), part.dtype,
          part.shape);
    }
  }
  auto writer = safetensors::Writer::Create(path, planned, {{"format", "pt"}});
  Check(writer.ok(), writer.status().ToString());
  for (const safetensors::Tensor& t : planned) {
    const std::vector<std::byte> bytes(t.size, std::byte{0x3c});
    const auto status = writer->Append(t.name, bytes);
    Check(status.ok(), status.ToString());
  }
  const auto status = writer->Commit();
  Check(status.ok(), status.ToString());
}

void WriteText(const std::string& path, std::string_view text) {
  if (text.empty()) {
    std::remove(path.c_str());
    return;
  }
  FILE* const file = std::fopen(path.c_str(), "wb");
  Check(file != nullptr, "fopen");
  Check(std::fwrite(text.data(), 1, text.size(), file) == text.size(),
        "fwrite");
  std::fclose(file);
}

// A file beside the shard, or in its place. There is a folder for each list.
// Some of these files must cause an error for any texts.
struct Extra {
  const char* name;
  const char* text;  // nullptr: a whole shard
};
const std::vector<std::vector<Extra>>& Extras() {
  static const std::vector<std::vector<Extra>> extras = {
      {{"model.safetensors", nullptr}, {"consolidated.safetensors", nullptr}},
      {{"model-00001-of-00001.safetensors", nullptr},
       {"stray.safetensors", nullptr},
       {"tokenizer.json", "{}"},
       {"pooling/config.json", "{}"},
       {".hidden", ""}},
      {{"pytorch_model.bin", "x"}},
      {{"x.quantd-journal", "x"}},
      {{kShard, "version https://git-lfs.github.com/spec/v1\n"}},
      {{"a.safetensors.index.json", "{}"}, {kShard, nullptr}},
      {{"tokenizer.json", "{}"}},
  };
  return extras;
}

// Folders for all dialects on a file system in memory, removed at the end.
class Folders {
 public:
  Folders() {
    std::string name = fs::is_directory("/dev/shm") ? "/dev/shm" : "/tmp";
    name += "/quantd-fuzz.XXXXXX";
    Check(mkdtemp(name.data()) != nullptr, "mkdtemp");
    root_ = name;
    for (size_t i = 0; i < Dialects().size(); ++i) {
      fs::create_directory(path(i));
      WriteShard(path(i) + "/" + kShard, Dialects()[i]);
    }
    for (size_t i = 0; i < Extras().size(); ++i) {
      const std::string folder = path(Dialects().size() + i);
      fs::create_directories(folder + "/pooling");
      for (const Extra& extra : Extras()[i]) {
        const std::string name = folder + "/" + extra.name;
        if (extra.text == nullptr) {
          WriteShard(name, Dialects()[0]);
        } else {
          WriteText(name, extra.text);
        }
      }
    }
  }
  ~Folders() {
    std::error_code ignored;
    fs::remove_all(root_, ignored);
  }
  std::string path(size_t number) const {
    return fmt::format("{}/{}", root_, number);
  }
  static size_t count() { return Dialects().size() + Extras().size(); }

 private:
  std::string root_;
};

std::string_view NextText(std::string_view* rest) {
  constexpr std::string_view kBetween = "\n====\n";
  const size_t at = rest->find(kBetween);
  const std::string_view text = rest->substr(0, at);
  rest->remove_prefix(at == std::string_view::npos ? rest->size()
                                                   : at + kBetween.size());
  return text;
}

void Look(const Model& model) {
  const Declared declared(model);
  declared.HasCacheScales();
  const auto architecture = Architecture::Of(model, {});
  Check(architecture.ok(), "no architecture");
  for (const ModelTensor& tensor : model.tensors()) {
    const std::string_view module = ModuleOf(tensor.name());
    declared.AlgorithmOf(module);
    declared.GroupOf(module);
    declared.ignored();
    architecture->RoleOf(module);
    architecture->FusionKey(module, 32);
  }
  if (const auto stored = FindStored(model); stored.ok()) {
    for (const StoredWeight& w : stored->weights) declared.NeedsInputScale(w);
  }
  const auto plan = MakeConversionPlan(model, Selection{});
  if (!plan.ok()) {
    Check(!plan.status().message().empty(), "an error without a message");
  }
  const auto linted = Lint(model);
  if (!linted.ok()) return;
  for (const Finding& finding : linted->findings) {
    Check(!finding.text.empty(), "a finding without a message");
  }
}

}  // namespace
}  // namespace quantd::checkpoint

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using quantd::checkpoint::Model;
  static const quantd::checkpoint::Folders folders;
  quantd::fuzz::Input input(data, size);
  const uint8_t choice = input.Byte();
  const std::string path = folders.path(choice % folders.count());
  std::string_view rest = input.Rest();
  for (const char* name : {"config.json", "hf_quant_config.json",
                           "model.safetensors.index.json"}) {
    quantd::checkpoint::WriteText(path + "/" + name,
                                  quantd::checkpoint::NextText(&rest));
  }
  // Sometimes opens the shard alone.
  const auto model = Model::Open(
      choice < 224 ? path : path + "/" + quantd::checkpoint::kShard);
  if (model.ok()) {
    quantd::checkpoint::Look(*model);
    return 0;
  }
  quantd::fuzz::CheckRefusal(
      model.status(),
      {absl::StatusCode::kInvalidArgument, absl::StatusCode::kNotFound});
  quantd::checkpoint::LintUnopened(path, model.status());
  return 0;
}
