// What a dialect's library would have written beside the weights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/client/quantctl/convert_fixture.h"
#include "tests/testing/matchers.h"

namespace quantd {
namespace {

using checkpoint::Model;
using testing::HasSubstr;

// To the key what compressed-tensors 0.20 writes for such a model.
TEST_F(Convert, TheConfigurationIsTheLibrarysOwn) {
  WriteLlama(Fresh("m"));
  ASSERT_EQ(
      RunServed({"convert", At("m"), Fresh("made"), "--format", "fp8_dynamic"})
          .code,
      0);
  const auto config = ModelJson::parse(ReadFile(At("made/config.json")));
  EXPECT_EQ(nlohmann::json(config["quantization_config"]),
            nlohmann::json::parse(R"({
    "config_groups": {"FP8_DYNAMIC": {
      "format": "float-quantized",
      "input_activations": {"dynamic": true, "group_size": null,
        "num_bits": 8, "strategy": "token", "symmetric": true,
        "type": "float"},
      "output_activations": null, "targets": ["Linear"],
      "weights": {"dynamic": false, "group_size": null, "num_bits": 8,
        "strategy": "channel", "symmetric": true, "type": "float"}}},
    "format": "float-quantized", "global_compression_ratio": null,
    "ignore": ["lm_head"], "kv_cache_scheme": null,
    "moe_sparsity_config": null, "quant_method": "compressed-tensors",
    "quantization_status": "compressed", "transform_config": {},
    "version": "0.20.0"})"));
}

// ComfyUI knows a layer by a label, and so do we, though the directory has the
// names and the config.json that ModelOpt's would have.
TEST_F(Convert, ComfyIsLabelledAndReadAsWhatItIs) {
  WriteLlama(Fresh("m"));
  ASSERT_EQ(
      RunServed({"convert", At("m"), Fresh("c"), "--dialect", "comfy"}).code,
      0);
  const auto model = Model::Open(At("c"));
  ASSERT_THAT(model, IsOk());
  const auto label =
      BytesOf(*model, model->Find("model.layers.0.mlp.down_proj.comfy_quant"));
  EXPECT_EQ(
      std::string(reinterpret_cast<const char*>(label.data()), label.size()),
      R"({"format": "nvfp4"})");
  const Outcome verified =
      Run({"verify", At("c"), "--original", At("m"), "--server", "local:cpu"});
  EXPECT_EQ(verified.code, 0) << verified.out << verified.err;
  const Outcome compared = Run({"compare", At("m"), At("c"), "--json"});
  EXPECT_EQ(compared.code, 0) << compared.err;
  EXPECT_THAT(compared.out, HasSubstr("comfy"));
}

}  // namespace
}  // namespace quantd
