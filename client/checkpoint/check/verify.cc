#include "client/checkpoint/check/verify.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "client/checkpoint/architecture.h"
#include "client/checkpoint/check/reading.h"
#include "client/checkpoint/convert/weight_encoder.h"
#include "client/checkpoint/dialect.h"
#include "client/checkpoint/stored.h"
#include "client/checkpoint/weights.h"
#include "fmt/format.h"

namespace quantd::checkpoint {
namespace {

// The original's weights for `s`: one, or all experts of a stack. Empty if the
// original cannot be quantized again; `why` then gives the reason.
std::vector<Weight> PlainOf(const Originals& originals, const StoredWeight& s,
                            std::string* why) {
  std::vector<Weight> weights;
  for (int64_t e = 0; e < s.experts; ++e) {
    const OriginalWeight* found = originals.Find(s, e);
    if (found == nullptr ||
        (found->stored != nullptr && found->stored->has_four_bits())) {
      *why = found == nullptr
                 ? fmt::format(
                       "{}: the original has no weight of that name with the "
                       "shape {} x {}",
                       s.name_of(e), s.rows, s.cols)
                 : fmt::format("{}: the original is itself quantized, as {}",
                               s.name_of(e), found->stored->kind());
      return {};
    }
    weights.push_back(found->plain);
  }
  return weights;
}

// The output tensors of the weights.
std::vector<safetensors::Tensor> PartsOfAll(std::vector<Weight>* weights,
                                            bool stacked) {
  if (!stacked) return PartsOf(&weights->front());
  std::vector<Weight*> experts;
  for (Weight& w : *weights) experts.push_back(&w);
  return PartsOfStack(experts);
}

// Compares newly quantized bytes with those in the quantized model.
class Differing : public PartSink {
 public:
  explicit Differing(const Model& quantized) : quantized_(quantized) {}

  // `there` is the corresponding tensor of the model, which may have another
  // name.
  void Expect(VerifiedPart part, const ModelTensor* there) {
    parts_[part.name] = {part, there};
  }

  absl::Status Write(std::string_view name, size_t offset,
                     absl::Span<const std::byte> bytes) override {
    auto& [part, there] = parts_.at(std::string(name));
    if (part.differing == part.bytes) return absl::OkStatus();
    buffer_.resize(bytes.size());
    const auto s = quantized_.Read(*there, offset, absl::MakeSpan(buffer_));
    if (!s.ok()) return s;
    for (size_t i = 0; i < bytes.size(); ++i) {
      part.differing += bytes[i] != buffer_[i];
    }
    return absl::OkStatus();
  }

  std::vector<VerifiedPart> Take() {
    std::vector<VerifiedPart> parts;
    for (auto& [name, part] : parts_) parts.push_back(std::move(part.first));
    return parts;
  }

 private:
  const Model& quantized_;
  std::map<std::string, std::pair<VerifiedPart, const ModelTensor*>> parts_;
  std::vector<std::byte> buffer_;
};

// Adds to `unmatched` the linear weights of the original that the model lacks.
void AddMissing(const Model& original, const Model& quantized,
                const StoredModel& stored, const std::vector<Weight>& weights,
                std::set<const ModelTensor*> sources,
                std::vector<std::string>* unmatched) {
  for (const Weight& w : weights) sources.insert(w.source);
  const std::set<std::string> modules = stored.modules();
  for (const ModelTensor& t : original.tensors()) {
    constexpr std::string_view kSuffix = ".weight";
    const std::string& name = t.name();
    if (!name.ends_with(kSuffix) || t.stored.shape.size() != 2 ||
        sources.count(&t) > 0 || quantized.Find(name) != nullptr ||
        modules.count(name.substr(0, name.size() - kSuffix.size())) > 0 ||
        name == "lm_head.weight") {
      continue;
    }
    unmatched->push_back(name +
                         ": the quantized model does not have this weight");
  }
}

}  // namespace

uint64_t Verification::bytes() const {
  uint64_t sum = 0;
  for (const VerifiedPart& p : parts) sum += p.bytes;
  return sum;
}

uint64_t Verification::differing() const {
  uint64_t sum = 0;
  for (const VerifiedPart& p : parts) sum += p.differing;
  return sum;
}

absl::StatusOr<Verification> VerifyModel(
    const Model& original, const Model& quantized,
    std::optional<Profile> profile, absl::Span<std::byte> room,
    Service* service, absl::FunctionRef<void(size_t)> progress) {
  const auto stored = FindStored(quantized);
  if (!stored.ok()) return stored.status();
  if (stored->weights.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: no weight is quantized", quantized.path()));
  }
  const auto architecture = Architecture::Of(original, {});
  if (!architecture.ok()) return architecture.status();
  Verification out;
  const auto originals = Originals::Of(original);
  if (!originals.ok()) return originals.status();
  std::vector<Weight> weights;
  std::set<const ModelTensor*> told;
  Differing differing(quantized);
  for (const StoredWeight& s : stored->weights) {
    const MadeWith made = MadeWithOf(quantized, s);
    const Profile used = profile.value_or(made.profile);
    if (out.profile.find(Name(used)) == std::string::npos) {
      out.profile +=
          fmt::format("{}{}", out.profile.empty() ? "" : ", ", Name(used));
    }
    std::string why;
    std::vector<Weight> experts = PlainOf(*originals, s, &why);
    if (experts.empty()) {
      out.unmatched.push_back(why);
      continue;
    }
    if (auto bad = CheckProfileOf(*made.layout, used); !bad.ok()) return bad;
    for (Weight& w : experts) {
      w.layout = made.layout;
      w.profile = used;
    }
    const auto made_parts = PartsOfAll(&experts, s.layout->stacked);
    const auto there = [&](const safetensors::Tensor& part) {
      for (const Weight::Output& o : experts.front().outputs) {
        if (o.name == part.name) return s.part(o.source);
      }
      return quantized.Find(part.name);
    };
    // Comparing bytes of different types would say nothing about the numbers.
    const auto other = std::ranges::find_if(made_parts, [&](const auto& part) {
      return there(part) != nullptr && there(part)->stored.dtype != part.dtype;
    });
    if (other != made_parts.end()) {
      out.unmatched.push_back(
          fmt::format("{}: {} has the type {}, but the profile {} writes {}; "
                      "check the numbers with compare or lint --original",
                      s.module, there(*other)->name(),
                      there(*other)->stored.dtype, Name(used), other->dtype));
      for (const Weight& w : experts) told.insert(w.source);
      continue;
    }
    for (const safetensors::Tensor& part : made_parts) {
      const ModelTensor* own = there(part);
      // All bytes of a part count as different if it is missing or has another
      // size.
      const bool right = own != nullptr && own->stored.size == part.size;
      differing.Expect({part.name, part.size, right ? 0 : part.size}, own);
    }
    for (Weight& w : experts) weights.push_back(std::move(w));
  }
  for (const UnclearWeight& u : stored->unclear) {
    out.unmatched.push_back(fmt::format("{}: {}", u.module, u.why));
  }
  AddMissing(original, quantized, *stored, weights, std::move(told),
             &out.unmatched);
  const Encoder encoder = {original, *service, &differing};
  for (const FusedWeights& group :
       FuseWeights(std::move(weights), *architecture)) {
    const auto made = encoder.Encode(group, room, progress);
    if (!made.ok()) return made.status();
  }
  out.parts = differing.Take();
  return out;
}

}  // namespace quantd::checkpoint
