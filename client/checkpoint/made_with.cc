#include "client/checkpoint/stored.h"
#include "fmt/format.h"
#include "kernels/plan/profile/profile.h"

namespace quantd::checkpoint {
namespace {

constexpr char kKey[] = "quantd.numerics";

std::string KeyOf(const std::string& module) {
  return fmt::format("{}.{}", kKey, module);
}

std::string FittedKeyOf(const std::string& module) {
  return "quantd.fitted." + module;
}

}  // namespace

void SayMadeWith(Profile profile, safetensors::Metadata* metadata) {
  (*metadata)[kKey] = Name(profile);
}

void SayMadeWith(const std::string& module, const MadeWith& made,
                 safetensors::Metadata* metadata) {
  (*metadata)[KeyOf(module)] =
      fmt::format("{} {}", Name(made.profile), Name(made.layout->format));
}

void DropMadeWith(safetensors::Metadata* metadata) {
  std::erase_if(*metadata, [](const auto& entry) {
    return entry.first.starts_with("quantd.");
  });
}

std::string ProfileSaid(const Model& model) {
  for (const ModelShard& shard : model.shards()) {
    const auto found = shard.file.metadata().find(kKey);
    if (found != shard.file.metadata().end()) return found->second;
  }
  return "";
}

MadeWith MadeWithOf(const Model& model, const StoredWeight& w) {
  MadeWith made = {w.layout, w.layout->profile};
  if (const auto all = ParseProfile(ProfileSaid(model))) made.profile = *all;
  const auto& metadata =
      model.shards()[w.part(PartSource::kCodes)->shard].file.metadata();
  const auto found = metadata.find(KeyOf(w.module));
  if (found == metadata.end()) return made;
  const std::string& text = found->second;
  const size_t space = text.find(' ');
  const auto profile = ParseProfile(text.substr(0, space));
  const auto format = space == std::string::npos
                          ? std::nullopt
                          : ParseWeightFormat(text.substr(space + 1));
  if (!profile || !format || StoredAs(*format) != w.layout->format) return made;
  made.profile = *profile;
  made.layout = FindLayout(w.layout->dialect, *format);
  return made;
}

void SayFitted(const std::string& module, safetensors::Metadata* metadata) {
  (*metadata)[FittedKeyOf(module)] = "scales";
}

bool IsFitted(const Model& model, const StoredWeight& w) {
  const auto& metadata =
      model.shards()[w.part(PartSource::kCodes)->shard].file.metadata();
  return metadata.find(FittedKeyOf(w.module)) != metadata.end();
}

}  // namespace quantd::checkpoint
