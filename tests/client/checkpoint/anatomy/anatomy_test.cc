// Tests that a tensor's role follows from its name, type, shape and the
// configuration.
#include "client/checkpoint/anatomy/config_facts.h"
#include "client/checkpoint/anatomy/role.h"
#include "client/checkpoint/anatomy/storage.h"
#include "client/checkpoint/architecture.h"
#include "tests/client/checkpoint/model_writer.h"

namespace quantd::checkpoint {
namespace {

struct RoleCase {
  const char* config;
  const char* module;
  Role role;
  const char* beside = "x";  // another module of the model
};
constexpr char kText[] = R"({"model_type": "llama", "num_hidden_layers": 2})";
constexpr char kTowers[] = R"({"model_type": "v", "vision_config": {},
    "llm_config": {"num_hidden_layers": 2}})";
constexpr char kOmni[] = R"({"model_type": "o", "thinker_config":
    {"audio_config": {}, "text_config": {"num_hidden_layers": 2}}})";
constexpr char kGenerates[] = R"({"architectures":
    ["OddTtsForConditionalGeneration"], "model_type": "odd_tts"})";
constexpr char kMedusa[] = R"({"medusa_num_heads": 2})";
constexpr char kSounds[] = R"({"model_type": "vibevoice",
    "acoustic_tokenizer_config": {}, "decoder_config": {}})";
constexpr char kActs[] = R"({"model_type": "g", "action_head_cfg": {}})";
constexpr char kSpeech[] = R"({"model_type": "csm", "codec_config": {}})";
constexpr char kReads[] = R"({"encoder": {"model_type": "vit"},
    "decoder": {"model_type": "trocr"}})";
constexpr char kTwoTexts[] = R"({"encoder": {"model_type": "bert"},
    "decoder": {"model_type": "bert"}})";
constexpr char kMusic[] = R"({"text_encoder": {"model_type": "t5"},
    "audio_encoder": {"model_type": "encodec"}, "decoder": {}})";
constexpr char kLookup[] = R"({"net_config": {"image_size": 9}})";
constexpr char kPipeline[] = R"({"_class_name": "FluxTransformer2DModel"})";
constexpr char kLlm[] = "language_model.model.layers.0.mlp.down_proj";
constexpr char kThinker[] = "thinker.model.layers.0.mlp.down_proj";
constexpr char kDecoder[] = "model.layers.0.mlp.down_proj";
constexpr char kBlock[] = "double_blocks.0.img_attn.qkv";

const RoleCase kRoles[] = {
    // Language models.
    {kText, "model.layers.0.mlp.down_proj", Role::kLinear},
    {kText, "model.layers.0.self_attn.qkv_proj", Role::kLinear},
    {kText, "lm_head", Role::kHead},
    {kText, "embed_out", Role::kHead},
    {kText, "output_projection", Role::kHead},
    {kText, "proj_out", Role::kHead},
    {kText, "model.transformer.ff_out", Role::kHead},
    {kText, "model.transformer.blocks.0.ff_out", Role::kLinear},
    {kText, "decoder.lm_heads.0", Role::kHead},
    {kText, "text_lm_head", Role::kHead},
    {kText, "language_model.output", Role::kHead},
    {kText, "pred_layer.proj", Role::kHead},
    {kText, "predictions.dense", Role::kHead},
    {kText, "qa_outputs.start_logits.dense_0", Role::kHead},
    {kText, "vocab_transform", Role::kHead},
    {kText, "encoder.layer.0.output.dense", Role::kLinear},
    {kText, "esm.contact_head.regression", Role::kHead},
    {kText, "encoder.layers.0.attn_head.proj", Role::kLinear},
    {kText, "fc", Role::kHead},
    {kText, "model.layers.0.mlp.fc", Role::kUnknown},
    {kText, "model.embed_tokens", Role::kEmbedding},
    {kText, "embedding_model.layers.0.mlp.up_proj", Role::kLinear},
    {kText, "model.layers.0.input_layernorm", Role::kNorm},
    {kText, "model.layers.0.mlp.gate", Role::kRouter},
    {kText, "model.layers.0.mlp.gate.wg", Role::kRouter},
    {kText, "model.layers.0.moe.gate", Role::kRouter},
    {kText, "rwkv.blocks.0.attention.gate", Role::kGate},
    {kText, "model.layers.0.block_sparse_moe.router.layer", Role::kRouter},
    {kText, "model.layers.0.moe.gate_proj", Role::kLinear},
    {kText, "model.layers.0.self_attn.indexer.wk", Role::kIndexer},
    {kText, "model.layers.0.self_attn.indexer.weights_proj", Role::kIndexer},
    {kText, "model.layers.0.linear_attn.in_proj_ba", Role::kGate},
    {kText, "model.layers.0.linear_attn.in_proj_b", Role::kGate},
    {kText, "model.layers.0.linear_attn.in_proj_qkvz", Role::kLinear},
    {kText, "hydra_head.0.1", Role::kMultiToken},
    {kText, "draft_model.layers.0.mlp.up_proj", Role::kMultiToken},
    {kText, "eagle_module.layers.0.mlp.up_proj", Role::kMultiToken},
    {kText, "speculator.proj.0", Role::kMultiToken},
    {kText, "model.layers.0.mamba.dt_proj", Role::kGate},
    // MTP heads and draft models.
    {kText, "model.layers.2.mlp.down_proj", Role::kMultiToken},
    {kText, "transformer.h.2.mlp.c_fc", Role::kMultiToken},
    {kText, "transformer.blocks.1.ffn.w1", Role::kLinear},
    {kText, "mtp.layers.0.mlp.down_proj", Role::kMultiToken},
    {R"({"model_type": "x", "n_layer": 2})", "h.2.mlp.c_fc", Role::kMultiToken},
    {R"({"text_config": {"language_config": {"n_layers": 2}}})",
     "layers.2.mlp.c_fc", Role::kMultiToken},
    {R"({"num_hidden_layers": 2, "is_encoder_decoder": true})",
     "model.decoder.layers.2.fc1", Role::kLinear},
    {R"({"num_hidden_layers": 2, "decoder_layers": 4})",
     "model.decoder.layers.3.fc1", Role::kLinear},
    {kTowers, "language_model.model.layers.2.mlp.down_proj", Role::kMultiToken},
    {kOmni, "thinker.model.layers.2.mlp.down_proj", Role::kMultiToken},
    {kMedusa, "0.1", Role::kMultiToken},
    {kMedusa, "1.0.linear", Role::kMultiToken},
    {R"({"model_type": "medusa"})", "blocks.0.layers.0", Role::kMultiToken},
    {R"({"medusa_num_heads": 2, "num_hidden_layers": 2})",
     "model.layers.0.mlp.up_proj", Role::kLinear},
    {kText, "0.auto_model.encoder.layer.0.output.dense", Role::kLinear},
    // Towers, by name.
    {kText, "mlp1.1", Role::kUnknown},
    {kTowers, "mlp1.1", Role::kVision, kLlm},
    {kText, "model.connector.modality_projection.proj", Role::kVision},
    {kText, "resampler.kv_proj", Role::kVision},
    {kText, "vpm.encoder.layers.40.mlp.fc1", Role::kVision},
    {kText, "apm.layers.0.fc1", Role::kVision},
    {kText, "model.mm_projector.0", Role::kVision},
    {kText, "model.sam_model.blocks.0.attn.qkv", Role::kVision},
    {kText, "aligner.layers.0", Role::kVision},
    {kText, "gen_aligner.layers.0", Role::kVision},
    {kText, "visual.merger.mlp.0", Role::kVision},
    {kText, "qformer.encoder.layer.0.attention.attention.query", Role::kVision},
    {kText, "language_projection", Role::kUnknown},
    {kText, "model.embed_vision.embedding_projection", Role::kVision},
    {kText, "model.speech_encoder.encoders.0.linear", Role::kVision},
    // Towers, because they are not below the language model.
    {kTowers, "language_model.model.layers.0.mlp.down_proj", Role::kLinear},
    {kTowers, "language_model.lm_head", Role::kHead, kLlm},
    {kTowers, "lm_head", Role::kHead, kLlm},
    {kTowers, "vit.blocks.9.fc", Role::kVision, kLlm},
    {kTowers, "encoder.layers.9.fc", Role::kVision, kLlm},
    {kTowers, "glm_bridge", Role::kVision, kLlm},
    {kTowers, "vae2llm", Role::kVision, kLlm},
    {kTowers, "llm2vae", Role::kVision, kLlm},
    {kTowers, "llm_model.layers.0.mlp.up_proj", Role::kLinear},
    {kTowers, "mllm.model.layers.0.mlp.up_proj", Role::kLinear, kLlm},
    {kTowers, "vit.blocks.9.fc", Role::kVision, kDecoder},
    {kTowers, "model.layers.1.mlp.up_proj", Role::kLinear, kDecoder},
    {kTowers, "model.layers.2.mlp.up_proj", Role::kMultiToken, kDecoder},
    {kTowers, "mtp.fc", Role::kMultiToken, kDecoder},
    {kSounds, "model.acoustic_tokenizer.stages.0.linear1", Role::kVision, kLlm},
    {kSounds, "model.prediction_head.layers.0.ffn.up_proj", Role::kVision,
     kLlm},
    {kActs, "action_head.model.transformer_blocks.0.attn1.to_q", Role::kVision,
     kLlm},
    {"{}", "action_time_mlp_in", Role::kVision},
    {"{}", "state_proj", Role::kUnknown},
    {kOmni, "talker.model.layers.0.mlp.up_proj", Role::kVision, kThinker},
    {kOmni, "dit.layers.0.mlp.up_proj", Role::kVision, kThinker},
    {kOmni, "thinker.model.layers.0.mlp.up_proj", Role::kLinear},
    // Models within a model, by their own part of the configuration.
    {kSpeech, "codec_model.decoder_transformer.layers.0.fc1", Role::kVision},
    {kSpeech, "backbone_model.layers.0.mlp.up_proj", Role::kLinear},
    {kSpeech, "depth_decoder.model.layers.0.mlp.up_proj", Role::kLinear},
    {kReads, "encoder.encoder.layer.0.attention.attention.key", Role::kVision},
    {kReads, "decoder.model.decoder.layers.0.encoder_attn.q_proj",
     Role::kLinear},
    {kTwoTexts, "encoder.encoder.layer.0.output.dense", Role::kLinear},
    {kMusic, "enc_to_dec_proj", Role::kVision},
    {kMusic, "audio_encoder.encoder.layers.0.fc", Role::kVision},
    {kMusic, "text_encoder.encoder.block.0.layer.0.SelfAttention.q",
     Role::kLinear},
    {kMusic, "decoder.model.decoder.layers.0.fc1", Role::kLinear},
    {kLookup, "model.net.layers.0.fc", Role::kVision},
    {kLookup, "model.layers.0.mlp.fc1", Role::kLinear},
    // Without a known language model nothing is a tower.
    {kTowers, "net.0.fc1", Role::kUnknown},
    // Diffusion models.
    {"{}", "double_blocks.0.img_attn.qkv", Role::kLinear},
    {"{}", "double_blocks.0.img_mod.lin", Role::kCondition},
    {"{}", "single_blocks.0.modulation.lin", Role::kCondition},
    {"{}", "blocks.0.mod_x", Role::kCondition, kBlock},
    {"{}", "double_layers.0.modC.1", Role::kCondition, kBlock},
    {"{}", "double_layers.0.mlpX.c_fc", Role::kLinear, kBlock},
    {"{}", "visual_transformer_blocks.0.attn.to_query", Role::kLinear},
    {"{}", "text_transformer_blocks.0.text_modulation.out_layer",
     Role::kCondition},
    {"{}", "nerf_blocks.0.param_generator.fc", Role::kCondition, kBlock},
    {kPipeline, "caption_projection.0.linear", Role::kCondition},
    {"{}", "model.diffusion_model.joint_blocks.0.x_block.mlp.fc1",
     Role::kLinear},
    {"{}", "joint_blocks.0.x_block.adaLN_modulation.1", Role::kCondition},
    {"{}", "img_in", Role::kCondition, kBlock},
    {"{}", "txt_in.individual_token_refiner.blocks.0.self_attn.qkv",
     Role::kCondition, kBlock},
    {"{}", "time_in.in_layer", Role::kCondition, kBlock},
    {"{}", "vector_in.in_layer", Role::kCondition, kBlock},
    {"{}", "guidance_in.out_layer", Role::kCondition, kBlock},
    {"{}", "final_layer.linear", Role::kCondition, kBlock},
    {"{}", "final_layer.adaLN_modulation.1", Role::kCondition, kBlock},
    {"{}", "time_embedding.0", Role::kCondition, kBlock},
    {"{}", "cond_stage_model.encoder.layers.0.fc1", Role::kCondition, kBlock},
    {kPipeline, "single_transformer_blocks.0.proj_out", Role::kLinear},
    {kPipeline, "transformer_blocks.0.attn.to_q", Role::kLinear},
    {kPipeline, "transformer_blocks.0.ff.net.0.proj", Role::kLinear},
    {kPipeline, "transformer_blocks.0.norm1.linear", Role::kCondition},
    {kPipeline, "transformer_blocks.0.img_mod.1", Role::kCondition},
    {kPipeline, "blocks.0.self_attn.q", Role::kLinear},
    {kPipeline, "norm_out.linear", Role::kCondition},
    {kPipeline, "proj_out", Role::kCondition},
    {kPipeline, "x_embedder", Role::kCondition},
    {kPipeline, "context_embedder", Role::kCondition},
    {kPipeline, "time_text_embed.timestep_embedder.linear_1", Role::kCondition},
    {kPipeline, "condition_embedder.time_proj", Role::kCondition},
    {"{}", "double_blocks.0.img_attn.odd", Role::kUnknown, kBlock},
    {"{}", "refiner.blocks.0.attn.qkv", Role::kCondition, kBlock},
    // A linear layer needs a known name, a known parent module and a layer
    // around both.
    {kText, "model.layers.0.laurel.linear_left", Role::kUnknown},
    {kText, "model.layers.0.per_layer_projection", Role::kUnknown},
    {kText, "model.layers.0.memory.q_proj", Role::kUnknown},
    {kText, "mlp.up_proj", Role::kUnknown},
    {kText, "model.frame_mlp.layers.0.fc1", Role::kUnknown},
    // Text models and speech models share the ending of this class name.
    {kGenerates, "decoder.model.layers.0.mlp.up_proj", Role::kLinear},
    {kGenerates, "odd_tts.encoder.block.0.layer.0.SelfAttention.q",
     Role::kLinear},
    {kGenerates, "backbone_model.layers.0.mlp.up_proj", Role::kLinear},
    {kGenerates, "generator.blocks.0.attn.q_proj", Role::kUnknown},
    {kGenerates, "flow.decoder.estimator.blocks.0.attn1.to_q", Role::kUnknown},
    {kText, "model.memory_attn.0.q_proj", Role::kUnknown},
    {kText, "model.layers.0.mlp.up_proj.0", Role::kLinear},
    {kText, "model.layers.0.self_attn.q_proj.base_layer", Role::kLinear},
    {kText, "model.layers.0.self_attn.q_proj.linear", Role::kLinear},
    {kText, "model.layers.0.mlp.linear", Role::kUnknown},
    // A diffusion language model has a model_type.
    {R"({"model_type": "llada", "n_layers": 1})",
     "model.transformer.blocks.0.ff_out", Role::kLinear},
};

TEST(AnatomyTest, EveryModuleHasARole) {
  TempDir dir;
  for (const RoleCase& c : kRoles) {
    SCOPED_TRACE(c.module);
    WriteModel(dir / "m", ModelJson::parse(c.config),
               {{Bf16(std::string(c.module) + ".weight", {1, 1}),
                 Bf16(std::string(c.beside) + ".weight", {1, 1})}});
    ASSERT_OK_AND_ASSIGN(const auto model, Model::Open(dir / "m"));
    ASSERT_OK_AND_ASSIGN(const auto architecture, Architecture::Of(model, {}));
    EXPECT_EQ(Describe(architecture.RoleOf(c.module)), Describe(c.role));
  }
}

TEST(AnatomyTest, ModelKindFollowsFromClassOrType) {
  struct Case {
    const char* config;
    ModelKind kind;
  };
  using K = ModelKind;
  for (const Case& c : {
           Case{"{}", K::kUnnamed},
           {R"({"architectures": ["NewForCausalLM"]})", K::kLanguage},
           {R"({"architectures": ["BertModel"]})", K::kLanguage},
           {R"({"architectures": ["XLMRobertaForSequenceClassification"]})",
            K::kLanguage},
           {R"({"model_type": "deberta-v2"})", K::kLanguage},
           {R"({"_class_name": "FluxTransformer2DModel"})", K::kDiffusion},
           {R"({"_class_name": "AutoencoderKL"})", K::kOther},
           // Models of other kinds whose layers have the names of language
           // models.
           {R"({"architectures": ["HubertForSequenceClassification"]})",
            K::kOther},
           {R"({"architectures": ["EsmForProteinFolding"], "model_type":
            "esm"})",
            K::kOther},
           {R"({"architectures": ["Dinov2Model"]})", K::kOther},
           {R"({"model_type": "glm4v_vision"})", K::kOther},
           {R"({"type": "pi0"})", K::kOther},
           // A known language model as a part of another model.
           {R"({"architectures": ["OpenVLAForActionPrediction"],
            "text_config": {"model_type": "llama"}})",
            K::kHolder},
           {R"({"architectures": ["Gr00t"], "backbone_cfg": {"text_config":
            {"model_type": "qwen3"}}})",
            K::kOther},
       }) {
    EXPECT_EQ(ClassIn(Json::parse(c.config)).kind, c.kind) << c.config;
  }
}

struct StorageCase {
  const char* name;
  const char* dtype;
  std::vector<int64_t> shape;
  Storage storage;
  const char* module = "";
};

TEST(AnatomyTest, StorageFollowsFromNameTypeAndShape) {
  using S = Storage;
  const StorageCase cases[] = {
      {"a.weight", "BF16", {2, 2}, S::kPlain},
      {"a.weight", "F16", {2}, S::kPlain},
      {"a.norm.scale", "F32", {2}, S::kPlain},
      {"a.k_scale", "F32", {}, S::kPlain},
      {"a.layer_scale", "F32", {2}, S::kPlain},
      {"logit_scale", "F32", {}, S::kPlain},
      {"a.ls_scales", "F32", {2}, S::kPlain},
      {"a.attn.bias", "U8", {1, 1, 4, 4}, S::kBuffer},
      {"a.attn.bias", "BOOL", {1, 1, 4, 4}, S::kBuffer},
      {"a.position_ids", "I64", {1, 4}, S::kBuffer},
      {"a.relative_position_index", "I64", {4, 4}, S::kBuffer},
      {"a.gate.tid2eid", "I32", {4, 4}, S::kBuffer},
      {"a.num_batches_tracked", "I64", {}, S::kBuffer},
      {"a.inv_freq", "F64", {4}, S::kBuffer},
      {"a.freqs_cis", "C64", {4, 4}, S::kBuffer},
      {"spiece_model", "U8", {99}, S::kBuffer},
      // Encoded numbers.
      {"a.bitmask", "U8", {4, 1}, S::kCodes, "a"},
      {"a.dense_weights", "I32", {9}, S::kCodes, "a"},
      {"a.weight", "F64", {2, 2}, S::kCodes, "a"},
      {"a.weight", "C64", {2, 2}, S::kCodes, "a"},
      {"a.weight", "I8", {2, 2}, S::kCodes, "a"},
      {"a.weight", "U8", {4, 1}, S::kCodes, "a"},
      {"a.weight", "U8", {4}, S::kCodes, "a"},
      {"a.weight", "U32", {2, 2}, S::kCodes, "a"},
      {"a.weight", "F8_E4M3", {2, 2}, S::kCodes, "a"},
      {"a.weight", "F8_E5M2", {2, 2}, S::kCodes, "a"},
      {"a.weight", "F4", {2, 2}, S::kCodes, "a"},
      {"a.table", "I32", {2, 2}, S::kCodes, "a.table"},
      {"experts.down_proj", "U8", {2, 2, 2}, S::kCodes, "experts.down_proj"},
      {"experts.w2_blocks", "U8", {2, 2, 2, 16}, S::kCodes, "experts.w2"},
      {"a.weight_packed", "I32", {2, 2}, S::kCodes, "a"},
      {"a.qweight", "I32", {2, 2}, S::kCodes, "a"},
      {"a.trellis", "I16", {2, 2, 2}, S::kCodes, "a"},
      {"a.weight.rowwise_data", "U8", {4}, S::kCodes, "a"},
      // Factors from which a module computes its weight at run time.
      {"a.parametrizations.weight.original0", "F32", {2, 1}, S::kFactor, "a"},
      {"a.parametrizations.weight.0._u", "BF16", {2}, S::kFactor, "a"},
      {"a.parametrizations.weight.0.mask", "BOOL", {2, 2}, S::kFactor, "a"},
      {"a.weight_g", "BF16", {2, 1}, S::kFactor, "a"},
      {"a.weight_v", "BF16", {2, 2}, S::kFactor, "a"},
      {"a.weight_u", "BF16", {2}, S::kFactor, "a"},
      {"a.weight_orig", "BF16", {2, 2}, S::kFactor, "a"},
      {"a.weight_mask", "BF16", {2, 2}, S::kFactor, "a"},
      {"a.weight_mask", "BOOL", {2, 2}, S::kFactor, "a"},
      {"a.bias_orig", "BF16", {2}, S::kFactor, "a"},
      // Companions of encoded weights.
      {"experts.down_proj_weight_scale",
       "F8_E4M3",
       {2, 2, 2},
       S::kCompanion,
       "experts.down_proj"},
      {"experts.down_proj_weight_scale_2",
       "F32",
       {},
       S::kCompanion,
       "experts.down_proj"},
      {"experts.w2_scales", "U8", {2, 2, 2}, S::kCompanion, "experts.w2"},
      {"a.weight_scale", "BF16", {2, 2}, S::kCompanion, "a"},
      {"a.weight_scale_inv", "F32", {2, 2}, S::kCompanion, "a"},
      {"a.scale", "F8_E8M0", {2, 2}, S::kCompanion, "a"},
      {"a.weight_shape", "I64", {2}, S::kCompanion, "a"},
      {"a.weight_zero_point", "I8", {2}, S::kCompanion, "a"},
      {"a.g_idx", "I32", {2}, S::kCompanion, "a"},
      {"a.SCB", "F32", {2}, S::kCompanion, "a"},
      {"a.weight.absmax", "U8", {2}, S::kCompanion, "a"},
      {"a.weight.quant_state.bitsandbytes__nf4", "U8", {9}, S::kCompanion, "a"},
      {"a.weight_quantizer._amax", "F32", {2, 1}, S::kCompanion, "a"},
      {"a.scale_weight", "F32", {}, S::kCompanion, "a"},
  };
  for (const StorageCase& c : cases) {
    SCOPED_TRACE(std::string(c.name) + " " + c.dtype);
    const TensorStorage found = StorageOf({c.name, c.dtype, c.shape, 0, 0});
    EXPECT_EQ(found.storage, c.storage);
    EXPECT_EQ(found.module, c.module);
  }
}

TEST(AnatomyTest, ConfigurationsAreFoundAtAnyDepth) {
  Json config = Json::parse(R"({
    "quantization_config": null,
    "thinker_config": {"text_config": {"num_layers": 7, "dim": 5,
        "compression_config": {"format": "x"}, "tie_word_embeddings": true}},
    "llm": {"quantization": {"bits": 4}}, "quantization": "none"})");
  const ConfigFacts facts = FactsOf(config);
  EXPECT_EQ(facts.layers, 7);
  EXPECT_EQ(facts.hidden_size, 5);
  EXPECT_TRUE(facts.tied);
  EXPECT_FALSE(facts.towers);
  const auto said = QuantizationsIn(config);
  ASSERT_EQ(said.size(), 2u);
  EXPECT_EQ(said[0].place, "thinker_config.text_config.compression_config");
  EXPECT_EQ(said[1].place, "llm.quantization");
  EraseQuantizations(&config);
  EXPECT_EQ(config.dump(), Json::parse(R"({
    "thinker_config": {"text_config": {"num_layers": 7, "dim": 5,
        "tie_word_embeddings": true}},
    "llm": {}, "quantization": "none"})")
                               .dump());
}

// A composed model has the head of its decoder.
TEST(HeadNames, AreThoseOfTheDecoder) {
  EXPECT_THAT(HeadNames({{"model_type", "vision-encoder-decoder"},
                         {"encoder", {{"model_type", "bert"}}},
                         {"decoder", {{"model_type", "trocr"}}}}),
              testing::ElementsAre("output_projection", "lm_head"));
}

}  // namespace
}  // namespace quantd::checkpoint
