#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <string>
#include <string_view>

#include "client/checkpoint/convert/config_writer.h"
#include "client/quantctl/models/engines.h"
#include "client/quantctl/models/models.h"
#include "fmt/format.h"

namespace quantd::quantctl {
namespace {

using checkpoint::ConversionPlan;
using checkpoint::Dialect;
using checkpoint::Model;
using checkpoint::Weight;

// Assumed bytes per second: the rate of two CPU cores. A GPU is many times
// faster.
constexpr double kUsualRate = 1.0 * (1 << 30);

std::string TimeText(double seconds) {
  return seconds < 60 ? fmt::format("{:.0f} s", std::max(1.0, seconds))
                      : fmt::format("{:.0f} min", std::ceil(seconds / 60));
}

struct Kind {
  size_t count = 0;
  const checkpoint::LeftOut* first = nullptr;
};

}  // namespace

void Event(const Json& json) {
  fmt::print("{}\n", json.dump(-1, ' ', false, Json::error_handler_t::replace));
  std::fflush(stdout);
}

std::string FormatsText(const ConversionPlan& plan) {
  std::string text;
  for (const auto& [format, count] : plan.formats()) {
    text += fmt::format("{}{} weight{} to {}", text.empty() ? "" : ", ", count,
                        count == 1 ? "" : "s", Name(format));
  }
  return text;
}

double Ratio(uint64_t out, uint64_t in) {
  return in == 0 ? 0 : static_cast<double>(out) / static_cast<double>(in);
}

void PrintPlan(const Options& options, const Model& model,
               const ConversionPlan& plan, uint64_t memory) {
  const std::string type = model.model_type();
  fmt::print("{}: {}, {} tensors in {} file{}, {}\n",
             model.single_file() ? model.shards().front().path : model.path(),
             type.empty() ? "a model" : type, model.tensors().size(),
             model.shards().size(), model.shards().size() == 1 ? "" : "s",
             BytesText(plan.bytes_in));
  size_t fused = 0;
  for (const auto& group : plan.groups) fused += group.weights.size() > 1;
  if (plan.groups.empty()) {
    fmt::print("decoded: {}\n", FormatsText(plan));
  } else {
    fmt::print(
        "quantized: {} for {}, with profile {}; {} group{} of weights share an "
        "amax\n",
        FormatsText(plan), Name(plan.dialect),
        Name(plan.groups.front().weights.front().profile), fused,
        fused == 1 ? "" : "s");
    fmt::print("activations: {}\n", ActivationsOf(plan));
    if (!plan.cache_scales.empty()) {
      fmt::print("keys and values: scales of {} FP8 caches\n",
                 plan.cache_scales.size() / 2);
    }
  }
  if (options.verbose) {
    for (const auto& group : plan.groups) {
      for (const Weight& w : group.weights) {
        fmt::print("  {} {}x{} {}{}\n", w.module, w.rows, w.cols,
                   Name(w.layout->format),
                   &w == &group.weights.front()
                       ? ""
                       : fmt::format(", shares an amax with {}",
                                     group.weights.front().module));
      }
    }
  }
  std::map<std::string, Kind> kinds;
  for (const auto& left : plan.left_out) {
    Kind& kind = kinds[left.kind];
    if (kind.count++ == 0) kind.first = &left;
    if (options.verbose) fmt::print("left: {}: {}\n", left.module, left.reason);
  }
  if (!options.verbose) {
    for (const auto& [name, kind] : kinds) {
      fmt::print("left: {} {}, for example {}\n", kind.count, name,
                 kind.first->module);
    }
  }
  for (const std::string& note : plan.notes) fmt::print("note: {}\n", note);
  fmt::print(
      "size: {} become {} ({:.3g} of the input); takes about {} at {}/s and at "
      "most about {} of memory in this process\n",
      BytesText(plan.bytes_in), BytesText(plan.bytes_out),
      Ratio(plan.bytes_out, plan.bytes_in),
      TimeText(static_cast<double>(plan.bytes_in) / kUsualRate),
      BytesText(static_cast<uint64_t>(kUsualRate)), BytesText(memory));
}

void PrintPlanEvent(const Model& model, const ConversionPlan& plan,
                    uint64_t memory) {
  Json groups = Json::array();
  for (const auto& group : plan.groups) {
    Json weights = Json::array();
    for (const Weight& w : group.weights) {
      weights.push_back({{"module", w.module},
                         {"shape", {w.rows, w.cols}},
                         {"format", Name(w.layout->format)},
                         {"bytes_in", w.size_bytes()}});
    }
    groups.push_back(std::move(weights));
  }
  Json left = Json::array();
  for (const auto& l : plan.left_out) {
    left.push_back(
        {{"module", l.module}, {"kind", l.kind}, {"reason", l.reason}});
  }
  Event(
      {{"event", "plan"},
       {"model", model.path()},
       {"model_type", model.model_type()},
       {"dialect", Name(plan.dialect)},
       {"activations", ActivationsOf(plan)},
       {"cache_scales", plan.cache_scales.size()},
       {"groups", std::move(groups)},
       {"left_out", std::move(left)},
       {"notes", plan.notes},
       {"bytes_in", plan.bytes_in},
       {"bytes_out", plan.bytes_out},
       {"memory_bytes", memory},
       {"estimated_seconds", static_cast<double>(plan.bytes_in) / kUsualRate}});
}

namespace {

// The class of transformers with which to load the model.
std::string LoaderOf(const Model& model) {
  const std::string name = ClassOf(model);
  return name.empty() || name.ends_with("ForCausalLM") ? "AutoModelForCausalLM"
                                                       : name;
}

// The argument that the loader needs for a file such as model.fp16.safetensors:
// ", variant="fp16"". "" for usual names.
std::string VariantOf(const Model& model) {
  std::string_view name = model.shards().front().name;
  constexpr std::string_view kStart = "model.";
  constexpr std::string_view kEnd = ".safetensors";
  if (!name.starts_with(kStart) || name.size() <= kStart.size() + kEnd.size()) {
    return "";
  }
  name.remove_prefix(kStart.size());
  name.remove_suffix(kEnd.size());
  return fmt::format(", variant=\"{}\"", name);
}

// Whether the file has an autoencoder and is thus a whole pipeline.
bool HasAutoencoder(const Model& model) {
  return std::ranges::any_of(model.tensors(), [](const auto& t) {
    return t.name().starts_with("first_stage_model.") ||
           t.name().starts_with("vae.");
  });
}

// Recommends commands of engines that had good results with models of this
// kind.
std::string RecommendationOf(const Model& model, const ConversionPlan& plan,
                             const std::string& out) {
  std::string text;
  const auto add = [&](std::string_view engine, const std::string& command) {
    const EngineRun* run = FindEngineRun(engine, model, plan);
    // None of these engines loads parts of a diffusion pipeline.
    if (!IsGood(run) || model.config().contains("_class_name")) return;
    text += fmt::format("{}{} ({} {}: {})", text.empty() ? "" : ", or ",
                        command, engine, run->tried_with.version, run->tried);
  };
  add("vLLM", fmt::format("vllm serve {}", out));
  add("SGLang", fmt::format("python -m sglang.launch_server --model {}", out));
  // transformers supports some formats of experts, but misreads others.
  if (KindOf(model) != "experts") {
    add("transformers",
        fmt::format("{}.from_pretrained(\"{}\"{}) with the package "
                    "compressed-tensors",
                    LoaderOf(model), out, VariantOf(model)));
  }
  if (!text.empty()) return text;
  return fmt::format(
      "no engine was tested with such a model. Try yours with {} and compare "
      "its output with that of the original; lint finds known faults",
      out);
}

}  // namespace

std::string NextStep(const Model& model, const ConversionPlan& plan,
                     const std::string& out) {
  if (model.left() > 0) {
    return fmt::format(
        "{} has only a part of the model: convert the other shards into other "
        "directories, put all shards into one, and join their indexes and the "
        "lists in their config.json",
        out);
  }
  const bool plain = plan.dialect == Dialect::kNone;
  const bool of_comfy = plan.dialect == Dialect::kComfy;
  if (!plain && !of_comfy && model.single_file()) {
    return fmt::format(
        "engines load directories with a config.json, which {} lacks: convert "
        "the model's directory, or add a config.json",
        out);
  }
  if (!plain && !of_comfy && !model.has_config()) {
    return fmt::format(
        "put the model's config.json into {} and convert again: without it, no "
        "engine recognizes {} or its quantization",
        model.path(), out);
  }
  if (!plain && !of_comfy) return RecommendationOf(model, plan, out);
  if (of_comfy && IsText(ClassOf(model))) {
    return fmt::format(
        "ComfyUI loads {} as a text encoder (ComfyUI/models/text_encoders); to "
        "serve it as a language model, convert with --dialect "
        "compressed-tensors",
        out);
  }
  if (of_comfy) {
    return fmt::format(
        "move {} to ComfyUI/models/{}", out,
        HasAutoencoder(model) ? "checkpoints" : "diffusion_models");
  }
  if (plan.experts_apart) {
    return fmt::format(
        "load {} with the engine that ran the quantized model; transformers "
        "cannot load it, because its class reads stacks of experts only",
        out);
  }
  return fmt::format("load {} like any unquantized model", out);
}

}  // namespace quantd::quantctl
