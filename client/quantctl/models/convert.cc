// `quantctl convert`.
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>

#include "client/checkpoint/convert/config_writer.h"
#include "client/checkpoint/convert/conversion.h"
#include "client/checkpoint/convert/output_directory.h"
#include "client/checkpoint/model.h"
#include "client/checkpoint/planner.h"
#include "client/parts/piece_work.h"
#include "client/quantctl/models/models.h"
#include "client/quantctl/signals.h"
#include "fmt/format.h"

namespace quantd::quantctl {
namespace {

using checkpoint::ConversionPlan;
using checkpoint::Dialect;
using checkpoint::GroupDone;
using checkpoint::Json;
using checkpoint::Model;
using checkpoint::Weight;

// What two busy cores gave; a GPU gives many times that.
constexpr double kUsualRate = 1.0 * (1 << 30);

void Event(const Json& json) {
  fmt::print("{}\n", json.dump(-1, ' ', false, Json::error_handler_t::replace));
  std::fflush(stdout);
}

absl::StatusOr<std::map<std::string, float>> ReadInputAmax(
    const std::string& path) {
  std::map<std::string, float> amaxes;
  if (path.empty()) return amaxes;
  const auto json = checkpoint::ReadJsonObject(path, size_t{256} << 20);
  if (!json.ok()) return json.status();
  for (const auto& [module, value] : json->items()) {
    const float amax = value.is_number() ? value.get<float>() : -1.0f;
    if (!std::isfinite(amax) || amax <= 0) {
      return absl::InvalidArgumentError(
          fmt::format("{}: module \"{}\": expected a finite number > 0, got {}",
                      path, module.substr(0, 200), value.dump().substr(0, 40)));
    }
    amaxes[module] = amax;
  }
  if (!amaxes.empty()) return amaxes;
  return absl::InvalidArgumentError(fmt::format("{}: names no module", path));
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

std::string TimeText(double seconds) {
  return seconds < 60 ? fmt::format("{:.0f} s", std::max(1.0, seconds))
                      : fmt::format("{:.0f} min", std::ceil(seconds / 60));
}

struct Kind {
  size_t count = 0;
  const checkpoint::LeftOut* first = nullptr;
};

void PrintPlan(const Options& options, const Model& model,
               const ConversionPlan& plan, uint64_t memory) {
  const std::string type = model.model_type();
  fmt::print("{}: {}, {} tensors in {} file{}, {}\n", model.path(),
             type.empty() ? "a model" : type, model.tensors().size(),
             model.shards().size(), model.shards().size() == 1 ? "" : "s",
             BytesText(plan.bytes_in));
  size_t fused = 0;
  for (const auto& group : plan.groups) fused += group.weights.size() > 1;
  if (plan.groups.empty()) {
    fmt::print("decoded: {}\n", FormatsText(plan));
  } else {
    fmt::print(
        "quantized: {} for {}, with the bytes of {}; {} group{} share an "
        "amax\n",
        FormatsText(plan), Name(plan.dialect),
        Name(plan.groups.front().weights.front().profile), fused,
        fused == 1 ? "" : "s");
    fmt::print("activations: {}\n", ActivationsOf(plan));
  }
  if (options.verbose) {
    for (const auto& group : plan.groups) {
      for (const Weight& w : group.weights) {
        fmt::print(
            "  {} {}x{} {}{}\n", w.module, w.rows, w.cols,
            Name(w.layout->format),
            &w == &group.weights.front()
                ? ""
                : fmt::format(", with {}", group.weights.front().module));
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
      fmt::print("left: {} {}, like {}\n", kind.count, name,
                 kind.first->module);
    }
  }
  for (const std::string& note : plan.notes) fmt::print("note: {}\n", note);
  fmt::print(
      "size: {} to {} ({:.3g} of it); about {} at {}/s; at most about {} of "
      "memory here\n",
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
       {"groups", std::move(groups)},
       {"left_out", std::move(left)},
       {"notes", plan.notes},
       {"bytes_in", plan.bytes_in},
       {"bytes_out", plan.bytes_out},
       {"memory_bytes", memory},
       {"estimated_seconds", static_cast<double>(plan.bytes_in) / kUsualRate}});
}

// What to do with a directory in that dialect.
std::string NextStep(const ConversionPlan& plan, const std::string& out) {
  switch (plan.dialect) {
    case Dialect::kCompressedTensors:
      return fmt::format(
          "vllm serve {0}, or AutoModelForCausalLM.from_pretrained(\"{0}\") "
          "with the package compressed-tensors",
          out);
    case Dialect::kModelOpt:
      return fmt::format("vllm serve {0}, or trtllm-serve {0}", out);
    case Dialect::kDeepSeek:
    case Dialect::kGptOss:
      return fmt::format(
          "vllm serve {0}, or python -m sglang.launch_server --model {0}", out);
    case Dialect::kComfy:
      return fmt::format("move {} below ComfyUI/models/diffusion_models", out);
    case Dialect::kNone:
      break;
  }
  return fmt::format("load {} as any model", out);
}

void PrintGroup(const GroupDone& done) {
  const Weight& first = done.group->weights.front();
  std::vector<std::string> modules;
  uint64_t bytes = 0;
  for (const Weight& w : done.group->weights) {
    modules.push_back(w.module);
    bytes += w.size_bytes();
  }
  Json json = {{"event", "group"},
               {"modules", modules},
               {"format", Name(first.layout->format)},
               {"bytes_in", bytes},
               {"seconds", done.seconds},
               {"resumed", done.resumed}};
  if (done.amax > 0) json["amax"] = done.amax;
  if (done.statistics) {
    const double db = done.statistics->sqnr_db();
    json["sqnr_db"] = std::isfinite(db) ? Json(db) : Json(nullptr);
    json["max_error"] = done.statistics->max_error;
  }
  Event(json);
}

// The mean of what is known, and the worst.
struct Quality {
  double sum = 0;
  size_t count = 0;
  std::optional<double> least = {};
  std::string least_module = {};

  void Add(const GroupDone& done) {
    if (!done.statistics) return;
    const double db = done.statistics->sqnr_db();
    if (!std::isfinite(db)) return;
    sum += db;
    ++count;
    if (least && *least <= db) return;
    least = db;
    least_module = done.group->weights.front().module;
  }
};

// Every shard is open twice.
void AllowManyFiles() {
  rlimit files = {};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
}

checkpoint::ConversionOptions HowTo(const Options& options,
                                    const ConvertOptions& convert,
                                    size_t room) {
  checkpoint::ConversionOptions how;
  how.encode.statistics = convert.statistics;
  // Enough calls for every server, in as many bytes as may be held.
  const auto servers =
      std::count(options.server.begin(), options.server.end(), ',') + 1;
  how.at_once = static_cast<int>(std::min<int64_t>(3 * servers, 64));
  how.piece_bytes = std::min(how.piece_bytes, room);
  const uint64_t most = convert.memory_mib << 20;
  while (checkpoint::MemoryBound(how) > most && how.at_once > 1) --how.at_once;
  while (checkpoint::MemoryBound(how) > most) how.piece_bytes /= 2;
  return how;
}

// The first call that failed; OK: none did.
class FirstFailure {
 public:
  void Note(const absl::Status& status) {
    const std::lock_guard lock(mutex_);
    status_.Update(status);
  }
  absl::Status status() const {
    const std::lock_guard lock(mutex_);
    return status_;
  }

 private:
  mutable std::mutex mutex_;
  absl::Status status_;
};

// A server, a source that changes or is no good, or an output.
int CodeOfConversion(const absl::Status& status, const absl::Status& call) {
  if (!call.ok()) return CodeOf(call);
  const bool source = status.code() == absl::StatusCode::kDataLoss ||
                      status.code() == absl::StatusCode::kInvalidArgument;
  return source ? kBadInput : kCannotWrite;
}

}  // namespace

int RunConvert(const Options& options, const ConvertOptions& convert) {
  AllowManyFiles();
  const Timer timer;
  const auto model = Model::Open(convert.in);
  if (!model.ok()) return Fail(options, kBadInput, model.status());
  checkpoint::Selection selection = convert.selection;
  auto amaxes = ReadInputAmax(convert.input_amax_file);
  if (!amaxes.ok()) return Fail(options, kBadInput, amaxes.status());
  selection.input_amax = *std::move(amaxes);
  const auto plan = MakeConversionPlan(*model, selection);
  if (!plan.ok()) return Fail(options, kBadInput, plan.status());
  if (const auto s = checkpoint::CheckOutput(*model, convert.out); !s.ok()) {
    return Fail(options, kCannotWrite, s);
  }
  auto how = HowTo(options, convert, PieceOptions().request_bytes);
  const uint64_t memory = checkpoint::MemoryBound(how);
  options.json ? PrintPlanEvent(*model, *plan, memory)
               : PrintPlan(options, *model, *plan, memory);
  std::fflush(stdout);
  if (convert.dry_run) return kOk;

  const auto client = Connect(options);
  if (!client.ok()) return Fail(options, kUsage, client.status());
  auto progress = std::make_unique<Progress>(plan->bytes_in);
  // The way back needs no server.
  if (!plan->groups.empty()) {
    const auto pieces = PiecesOf(**client, options, progress.get());
    if (!pieces.ok()) {
      return Fail(options, CodeOf(pieces.status()), pieces.status());
    }
    how = HowTo(options, convert, client::Room(*pieces));
  }
  how.progress = [&](size_t bytes) { progress->Add(bytes); };
  Quality quality;
  how.done = [&](const GroupDone& done) {
    progress->Name(done.group->weights.back().module);
    quality.Add(done);
    if (options.json) PrintGroup(done);
  };
  const std::string again =
      "what is done is kept: the same command goes on from there";
  SayOnSignals(again);
  const CallOptions call = CallOf(options);
  FirstFailure failure;
  const auto result = checkpoint::Convert(
      *model, *plan, convert.out, how,
      [&](const TensorDesc& tensor, absl::Span<const std::byte> bytes,
          const QuantizeOptions& o) {
        auto made = (*client)->Quantize(tensor, bytes, o, call);
        if (!made.ok()) failure.Note(made.status());
        return made;
      });
  progress.reset();
  SayOnSignals("");
  if (!result.ok()) {
    const int code = CodeOfConversion(result.status(), failure.status());
    const int said = Fail(options, code, result.status());
    if (code == kUnreachable) fmt::print(stderr, "  {}.\n", again);
    return said;
  }
  const double seconds = timer.seconds();
  const double rate =
      static_cast<double>(result->bytes_in) / std::max(seconds, 1e-9);
  if (options.json) {
    Json done = {{"event", "done"},
                 {"output", convert.out},
                 {"weights", plan->weights()},
                 {"copied", plan->copies.size()},
                 {"bytes_in", plan->bytes_in},
                 {"bytes_out", plan->bytes_out},
                 {"resumed_bytes", result->resumed_bytes},
                 {"seconds", seconds},
                 {"bytes_in_per_second", rate},
                 {"next", NextStep(*plan, convert.out)},
                 {"exit_code", 0}};
    if (quality.least) {
      done["mean_sqnr_db"] = quality.sum / static_cast<double>(quality.count);
      done["least_sqnr_db"] = *quality.least;
    }
    Event(done);
    return kOk;
  }
  fmt::print(
      "total: {}, {} tensors copied, {} in, {} out ({:.3g} of it), "
      "{:.2f} s, {}/s",
      FormatsText(*plan), plan->copies.size(), BytesText(plan->bytes_in),
      BytesText(plan->bytes_out), Ratio(plan->bytes_out, plan->bytes_in),
      seconds, BytesText(static_cast<uint64_t>(rate)));
  if (result->resumed_bytes > 0) {
    fmt::print(" ({} were done before)", BytesText(result->resumed_bytes));
  }
  if (quality.least) {
    fmt::print(", SQNR {:.2f} dB in the mean, {:.2f} at least ({})",
               quality.sum / static_cast<double>(quality.count), *quality.least,
               quality.least_module);
  }
  fmt::print("\nwrote {}\nnext: {}\n", convert.out,
             NextStep(*plan, convert.out));
  return kOk;
}

}  // namespace quantd::quantctl
