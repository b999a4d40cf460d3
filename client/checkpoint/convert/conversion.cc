#include "client/checkpoint/convert/conversion.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <mutex>
#include <vector>

#include "client/checkpoint/convert/config_writer.h"
#include "client/checkpoint/convert/journal.h"
#include "client/checkpoint/convert/output_directory.h"
#include "client/checkpoint/convert/weight_reader.h"
#include "client/checkpoint/weight_values.h"
#include "fmt/format.h"

namespace quantd::checkpoint {
namespace {

using Clock = std::chrono::steady_clock;

// Hashes everything that the output depends on, except the bytes of the source,
// whose hashes are in the journal.
std::string FingerprintOf(const Model& model, const ConversionPlan& plan) {
  ContentHash hash;
  const auto add = [&](const safetensors::Tensor& t) {
    hash.Add(fmt::format("{} {} {} {}\n", t.name, t.dtype, t.offset, t.size));
    for (const int64_t d : t.shape) hash.Add(fmt::format("{},", d));
  };
  hash.Add(Name(plan.dialect));
  for (const ModelTensor& t : model.tensors()) add(t.stored);
  for (const OutputShard& shard : plan.shards) {
    hash.Add(shard.name);
    for (const safetensors::Tensor& t : shard.tensors) add(t);
  }
  for (const FusedWeights& group : plan.groups) {
    hash.Add("group\n");
    for (const Weight& w : group.weights) {
      hash.Add(fmt::format("{} {} {} {}\n", w.module, w.offset, Name(w.profile),
                           w.input_amax.value_or(-1)));
    }
  }
  for (const CacheScale& scale : plan.cache_scales) {
    hash.Add(fmt::format("{} {}\n", scale.name, scale.value));
  }
  for (const TextFile& file : ConfigFiles(model, plan)) hash.Add(file.text);
  return hash.Hex();
}

class Converter {
 public:
  Converter(const Conversion& conversion, OutputDirectory* out)
      : c_(conversion),
        model_(conversion.model),
        plan_(conversion.plan),
        out_(*out),
        buffer_bytes_(std::min(conversion.pace.piece_bytes, size_t{8} << 20)) {}

  absl::Status Run() {
    const size_t groups = plan_.groups.size();
    const size_t decoded = groups + plan_.decoded.size();
    const size_t units = decoded + plan_.copies.size();
    return ForEachUnit(
        units, c_.pace.at_once, groups == 0 ? 1 : c_.pace.piece_bytes,
        c_.service, [&](size_t unit, absl::Span<std::byte> room) {
          return unit < groups    ? Group(unit, room)
                 : unit < decoded ? Decode(unit, unit - groups)
                                  : Copy(*plan_.copies[unit - decoded]);
        });
  }

  const ConversionResult& result() const { return result_; }

 private:
  void Tell(size_t bytes, bool resumed) {
    const std::lock_guard lock(mutex_);
    (resumed ? result_.resumed_bytes : result_.bytes_in) += bytes;
    if (c_.progress) c_.progress(bytes);
  }

  const UnitHashes* Done(size_t unit) const {
    const auto found = out_.journal().done().find(unit);
    return found == out_.journal().done().end() ? nullptr : &found->second;
  }

  absl::Status HashOutput(std::string_view tensor, size_t offset, size_t size,
                          ContentHash* hash) const {
    std::vector<std::byte> buffer(std::min(size, buffer_bytes_));
    for (size_t done = 0; done < size;) {
      const auto bytes =
          absl::MakeSpan(buffer).first(std::min(buffer.size(), size - done));
      if (auto s = out_.Read(tensor, offset + done, bytes); !s.ok()) return s;
      hash->Add(bytes);
      done += bytes.size();
    }
    return absl::OkStatus();
  }

  // Whether the output of the group matches the journal and its source is
  // unchanged.
  absl::StatusOr<bool> IsWhole(const FusedWeights& group,
                               const UnitHashes& said,
                               absl::Span<std::byte> room) const {
    ContentHash all;
    for (const Weight& w : group.weights) {
      for (const Weight::Output& o : w.outputs) {
        ContentHash one;
        if (auto s = HashOutput(o.name, o.offset, o.size, &one); !s.ok()) {
          return s;
        }
        all.Add(one.Hex());
      }
    }
    if (all.Hex() != said.output) return false;
    const auto source = HashOfSource(model_, group, room);
    if (!source.ok()) return source.status();
    return *source == said.source;
  }

  absl::Status Group(size_t unit, absl::Span<std::byte> room) {
    const FusedWeights& group = plan_.groups[unit];
    const auto start = Clock::now();
    size_t bytes = 0;
    for (const Weight& w : group.weights) {
      bytes += w.size_bytes();
      if (!w.stored) continue;
      if (auto s = CountZeros(*w.stored); !s.ok()) return s;
    }
    if (const UnitHashes* said = Done(unit)) {
      const auto whole = IsWhole(group, *said, room);
      if (!whole.ok()) return whole.status();
      if (*whole) {
        Tell(bytes, /*resumed=*/true);
        Report({&group, 0, std::nullopt, 0, /*resumed=*/true});
        return absl::OkStatus();
      }
    }
    size_t told = 0;
    const Encoder encoder = {model_, *c_.service, &out_, c_.statistics};
    const auto made = encoder.Encode(group, room, [&](size_t some) {
      told += some;
      Tell(some, /*resumed=*/false);
    });
    if (!made.ok()) return made.status();
    if (auto s = out_.journal().Append(unit, made->hashes); !s.ok()) return s;
    {
      const std::lock_guard lock(mutex_);
      result_.lost.insert(result_.lost.end(), made->lost.begin(),
                          made->lost.end());
    }
    // The encoder does not count the scales of a source that is quantized.
    if (told < bytes) Tell(bytes - told, /*resumed=*/false);
    const std::chrono::duration<double> seconds = Clock::now() - start;
    Report({&group, made->amax, made->statistics, seconds.count(), false});
    return absl::OkStatus();
  }

  absl::Status CountZeros(const StoredWeight& w) {
    for (int64_t e = 0; e < w.experts; ++e) {
      const auto bad = WeightValues(model_, w, e).BadScalesOfZeros();
      if (!bad.ok()) return bad.status();
      if (bad->empty()) continue;
      const std::lock_guard lock(mutex_);
      if (result_.zero_blocks == 0) result_.zero_module = w.name_of(e);
      result_.zero_blocks += bad->size();
    }
    return absl::OkStatus();
  }

  void Report(const GroupDone& done) {
    const std::lock_guard lock(mutex_);
    if (c_.done) c_.done(done);
  }

  absl::Status Decode(size_t unit, size_t index) {
    const DecodedWeight& weight = plan_.decoded[index];
    const auto source = HashOfParts(model_, weight);
    if (!source.ok()) return source.status();
    size_t bytes = 0;
    for (const StoredWeight& w : weight.weights()) {
      if (auto s = CountZeros(w); !s.ok()) return s;
      bytes += w.size_bytes();
    }
    const size_t size = weight.tensor().size;
    if (const UnitHashes* said = Done(unit);
        said != nullptr && said->source == *source) {
      ContentHash there;
      if (auto s = HashOutput(weight.name, 0, size, &there); !s.ok()) return s;
      if (there.Hex() == said->output) {
        Tell(bytes, /*resumed=*/true);
        return absl::OkStatus();
      }
    }
    const auto s = DecodeWeight(
        model_, weight, [&](size_t offset, absl::Span<const std::byte> b) {
          return out_.Write(weight.name, offset, b);
        });
    if (!s.ok()) return s;
    // Hashes the file, because pieces may be written in any order.
    ContentHash output;
    if (auto h = HashOutput(weight.name, 0, size, &output); !h.ok()) return h;
    Tell(bytes, /*resumed=*/false);
    return out_.journal().Append(unit, {*source, output.Hex()});
  }

  // Copies a tensor byte for byte. Copies it again after an interruption,
  // because checking it would read as many bytes.
  absl::Status Copy(const ModelTensor& tensor) {
    return model_.ReadInPieces(
        tensor, buffer_bytes_,
        [&](size_t offset, absl::Span<const std::byte> bytes) {
          const auto s = out_.Write(tensor.name(), offset, bytes);
          if (s.ok()) Tell(bytes.size(), /*resumed=*/false);
          return s;
        });
  }

  const Conversion& c_;
  const Model& model_;
  const ConversionPlan& plan_;
  OutputDirectory& out_;
  const size_t buffer_bytes_;
  std::mutex mutex_;
  ConversionResult result_;
};

}  // namespace

absl::StatusOr<ConversionResult> Convert(const Conversion& conversion,
                                         const std::string& out) {
  const Model& model = conversion.model;
  const ConversionPlan& plan = conversion.plan;
  auto directory =
      OutputDirectory::Open(model, plan, out, FingerprintOf(model, plan));
  if (!directory.ok()) return directory.status();
  Converter converter(conversion, directory->get());
  if (auto s = converter.Run(); !s.ok()) return s;
  for (const CacheScale& scale : plan.cache_scales) {
    std::byte bytes[sizeof(scale.value)];
    std::memcpy(bytes, &scale.value, sizeof(bytes));
    const auto s = (*directory)->Write(scale.name, 0, bytes);
    if (!s.ok()) return s;
  }
  if (auto s = (*directory)->Finish(ConfigFiles(model, plan)); !s.ok()) {
    return s;
  }
  return converter.result();
}

}  // namespace quantd::checkpoint
