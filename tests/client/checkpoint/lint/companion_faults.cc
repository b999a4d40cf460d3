
#include "tests/client/checkpoint/fault.h"

namespace quantd::checkpoint {
namespace {

Fault FileFault(const char* rule, const std::string& file,
                const std::string& text, const char* says) {
  return {rule,
          Base::kCompressedTensors,
          [](Planted&) {},
          says,
          false,
          [=](const std::string& at) { WriteFile(at + "/" + file, text); }};
}

}  // namespace

// The embeddings have 16 rows.
std::vector<Fault> CompanionFaults() {
  const Base ct = Base::kCompressedTensors;
  std::string pieces;
  for (int i = 0; i < 18; ++i) pieces += R"(["x", -1.5],)";
  pieces.pop_back();
  return {
      FileFault("companion-file", "tokenizer.json", R"({"model": {"vocab": {)",
                "tokenizer.json: not JSON"),
      FileFault("companion-file", "tokenizer.json", std::string(1000, '['),
                "levels of nesting"),
      FileFault("companion-file", "generation_config.json", "[1]",
                "generation_config.json: expected a JSON object, got array"),
      FileFault("companion-file", "tokenizer_config.json",
                R"({"auto_map": {"AutoTokenizer": [null, "mine.Fast"]}})",
                "its \"auto_map\" needs \"mine.py\", which is missing"),
      {"companion-file", ct, Model_([](ModelJson& c) {
         c["auto_map"] = {{"AutoConfig", "owner/name--theirs.Config"},
                          {"AutoModel", "modeling_mine.Mine"}};
       }),
       "its \"auto_map\" needs \"modeling_mine.py\", which is missing"},
      FileFault("tokenizer", "tokenizer.json",
                R"({"model": {"vocab": {"a": 0, "[]": 16}}})",
                "the largest token id is 16, but the embeddings have only 16 "
                "rows"),
      FileFault("tokenizer", "tokenizer.json",
                R"({"model": {"vocab": [)" + pieces + "]}}",
                "the largest token id is 17"),
      FileFault("tokenizer", "tokenizer.json",
                R"({"added_tokens": [{"id": 20, "special": true},
                                     {"id": 19, "special": false}],
                    "model": {"vocab": {"a": 0}}})",
                "the largest token id is 19"),
      FileFault("tokenizer", "generation_config.json",
                R"({"eos_token_id": [1, 99]})",
                "\"eos_token_id\" is 99, but the embeddings have only 16 rows"),
      {"tokenizer", ct, Model_([](ModelJson& c) { c["eos_token_id"] = 16; }),
       "config.json: \"eos_token_id\" is 16"},
      {"config-type", ct,
       Model_([](ModelJson& c) { c["torch_dtype"] = "float8_e4m3fn"; }),
       "\"torch_dtype\" is \"float8_e4m3fn\", but should be float32"},
      {"fused-in-part", ct,
       [](Planted& p) {
         Expert(1, {64, 32})(p);
         const std::string first = "model.layers.0.mlp.experts.0.down_proj";
         p.tensors.erase(first + ".weight");
         for (const WrittenTensor& t : MakeNvfp4(first, 64, 32, p.names).parts)
           p.tensors[t.name] = t;
       },
       "experts.0.down_proj is quantized, but model.layers.0.mlp.experts.1."
       "down_proj is not"},
      {"wrong-shape", ct,
       [](Planted& p) {
         const std::string stack = "model.layers.0.mlp.experts.down_proj";
         p.tensors[stack + "_blocks"] = {stack + "_blocks",
                                         "U8",
                                         {2, 64, 1, 16},
                                         std::vector<std::byte>(2048)};
         p.tensors[stack + "_scales"] = {
             stack + "_scales",
             "U8",
             {2, 64, 1},
             std::vector<std::byte>(128, std::byte{120})};
         Put(stack + "_bias", {2, 32})(p);
       },
       "down_proj_bias: its shape is [2, 32], but should be [2, 64] to fit its "
       "weight"},
  };
}

}  // namespace quantd::checkpoint
