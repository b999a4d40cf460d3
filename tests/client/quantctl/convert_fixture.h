// Converts models and examines the resulting directories.
#ifndef QUANTD_TESTS_CLIENT_QUANTCTL_CONVERT_FIXTURE_H_
#define QUANTD_TESTS_CLIENT_QUANTCTL_CONVERT_FIXTURE_H_

#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "client/checkpoint/model.h"
#include "tests/client/checkpoint/model_writer.h"
#include "tests/client/quantctl/cli_fixture.h"

namespace quantd {

using Files = std::map<std::string, std::string>;

class Convert : public Cli {
 protected:
  static Files FilesOf(const std::string& path) {
    Files files;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(path)) {
      if (!entry.is_regular_file()) continue;
      files[std::filesystem::relative(entry.path(), path).string()] =
          ReadFile(entry.path().string());
    }
    return files;
  }
  static std::vector<std::string> NamesOf(const Files& files) {
    std::vector<std::string> names;
    for (const auto& [name, bytes] : files) names.push_back(name);
    return names;
  }
  static std::string Fresh(std::string_view name) {
    const std::string path = At(name);
    std::filesystem::remove_all(path);
    return path;
  }
  // Converts a model, which must succeed.
  static void MustConvert(std::string_view from, std::string_view to,
                          std::vector<std::string> options = {}) {
    options.insert(options.begin(), {"convert", At(from), Fresh(to)});
    const Outcome run = RunServed(std::move(options));
    ASSERT_EQ(run.code, 0) << run.err;
  }
  static std::vector<std::byte> BytesOf(const checkpoint::Model& model,
                                        const checkpoint::ModelTensor* t) {
    std::vector<std::byte> bytes(t == nullptr ? 0 : t->stored.size);
    if (t != nullptr) {
      EXPECT_THAT(model.Read(*t, 0, absl::MakeSpan(bytes)), IsOk());
    }
    return bytes;
  }
  static float FloatOf(const checkpoint::Model& model,
                       const checkpoint::ModelTensor* t) {
    float value = 0;
    const auto bytes = BytesOf(model, t);
    if (bytes.size() == 4) std::memcpy(&value, bytes.data(), 4);
    return value;
  }
  static std::map<std::string, WrittenTensor> Llama() {
    std::map<std::string, WrittenTensor> all;
    for (const auto& shard : LlamaShards()) {
      for (const WrittenTensor& t : shard) all[t.name] = t;
    }
    return all;
  }
};

}  // namespace quantd

#endif  // QUANTD_TESTS_CLIENT_QUANTCTL_CONVERT_FIXTURE_H_
