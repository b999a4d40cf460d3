#include "tests/testing/golden.h"

#include <bit>
#include <cstring>
#include <sstream>

namespace quantd {

// Defined in a file generated from the JSON at build time.
extern const char kGoldenJson[];
extern const char kFormatsJson[];
extern const char kProfilesJson[];
extern const char kLibrariesJson[];

namespace {

// Expands "a b*3" to a b b b.
template <typename T, typename Parse>
std::vector<T> Words(const nlohmann::json& text, Parse parse) {
  std::vector<T> out;
  std::istringstream stream(text.get<std::string>());
  std::string word;
  while (stream >> word) {
    const size_t star = word.find('*');
    const int count =
        star == std::string::npos ? 1 : std::stoi(word.substr(star + 1));
    out.insert(out.end(), count, parse(word.substr(0, star)));
  }
  return out;
}

template <typename T>
std::vector<T> Hexes(const nlohmann::json& text) {
  return Words<T>(text, [](const std::string& word) {
    return static_cast<T>(std::stoul(word, nullptr, 16));
  });
}

std::vector<float> Decimals(const nlohmann::json& text) {
  return Words<float>(text, [](const std::string& word) {
    return static_cast<float>(std::stod(word));
  });
}

oracle::ScaleRule RuleOf(const std::string& name) {
  if (name == "floor") return oracle::ScaleRule::kFloor;
  if (name == "ceil") return oracle::ScaleRule::kCeil;
  if (name == "even") return oracle::ScaleRule::kEven;
  return oracle::ScaleRule::kUp;
}

FormatVector Parse(const nlohmann::json& row) {
  FormatVector v;
  v.name = row["name"];
  v.spec.element = oracle::Element::kBF16;
  v.spec.format = static_cast<oracle::Format>(row["format"].get<int>());
  v.spec.rows = row["rows"];
  v.spec.cols = row["cols"];
  v.spec.columnwise = row.value("columnwise", false);
  v.spec.rowwise = !v.spec.columnwise;
  v.spec.epsilon = row.value("epsilon", 0.0f);
  v.spec.rule = RuleOf(row.value("rule", "up"));
  if (row.contains("power_of_two")) v.spec.power_of_two = row["power_of_two"];
  if (row.contains("scale")) v.spec.scale = {row["scale"]};
  if (row.value("propagate", false)) {
    v.spec.policy = oracle::Policy::kPropagate;
  }
  if (row.contains("history")) {
    v.spec.history = {Decimals(row["history"]), row.value("most_recent", false),
                      row.value("margin", 0)};
    v.history = Decimals(row["rolled"]);
    v.next_scale = {
        std::bit_cast<float>(Hexes<uint32_t>(row["next_scale"]).at(0))};
  }
  v.input = oracle::FromValues(v.spec.element, Decimals(row["x"]));
  v.data = Hexes<uint8_t>(row["data"]);
  v.scales = Hexes<uint32_t>(row["scales"]);
  if (row.contains("amax")) v.amax = Decimals(row["amax"]);
  v.decoded = Decimals(row["decoded"]);
  return v;
}

}  // namespace

const nlohmann::json& Golden() {
  static const auto& json =
      *new nlohmann::json(nlohmann::json::parse(kGoldenJson));
  return json;
}

oracle::Bytes GoldenTensor(oracle::Element e, const nlohmann::json& bits) {
  const size_t size = oracle::ElementSize(e);
  oracle::Bytes out;
  for (uint32_t v : bits) {
    out.resize(out.size() + size);
    std::memcpy(&out[out.size() - size], &v, size);
  }
  return out;
}

oracle::Bytes GoldenBytes(const nlohmann::json& bytes) {
  return bytes.get<oracle::Bytes>();
}

float GoldenFloat(const nlohmann::json& bits) {
  return std::bit_cast<float>(bits.get<uint32_t>());
}

const std::vector<FormatVector>& FormatVectors() {
  static const auto& vectors = *new std::vector<FormatVector>([] {
    std::vector<FormatVector> all;
    for (const auto& row : nlohmann::json::parse(kFormatsJson)) {
      all.push_back(Parse(row));
    }
    return all;
  }());
  return vectors;
}

const nlohmann::json& GoldenProfiles() {
  static const auto& json =
      *new nlohmann::json(nlohmann::json::parse(kProfilesJson));
  return json;
}

const nlohmann::json& GoldenLibraries() {
  static const auto& json =
      *new nlohmann::json(nlohmann::json::parse(kLibrariesJson));
  return json;
}

oracle::Bytes GoldenHex(const nlohmann::json& digits) {
  const auto text = digits.get<std::string>();
  oracle::Bytes out;
  for (size_t i = 0; i + 2 <= text.size(); i += 2) {
    out.push_back(
        static_cast<uint8_t>(std::stoul(text.substr(i, 2), nullptr, 16)));
  }
  return out;
}

std::vector<uint32_t> ScalesOf(const oracle::QuantizeSpec& spec,
                               const oracle::Copy& copy) {
  const bool rotated = spec.columnwise ? spec.rotate_columns : spec.rotate_rows;
  const oracle::Layout layout = oracle::MakeLayout(
      {spec.format, spec.rows, spec.cols, spec.columnwise,
       rotated ? spec.dimension : 0, spec.swizzled, spec.compact,
       oracle::ScaleSizeOf(spec.profile, spec.format, spec.element)});
  if (copy.scale.size() != layout.ScaleBytes()) return {};
  if (oracle::IsTensor(spec.format)) {
    return {layout.GetScale(copy.scale.data(), 0, 0)};
  }
  std::vector<uint32_t> scales;
  for (int64_t line = 0; line < layout.lines; ++line) {
    for (int64_t b = 0; b < layout.blocks; ++b) {
      scales.push_back(layout.GetScale(copy.scale.data(), line, b));
    }
  }
  return scales;
}

}  // namespace quantd
