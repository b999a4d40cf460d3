#include "client/quantctl/top/samples.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "absl/strings/ascii.h"

namespace quantd::quantctl {
namespace {

constexpr size_t kMostLabels = 16;
constexpr size_t kMostOfValue = 64;
constexpr double kLargest = 1e18;

bool IsNamePart(char c) {
  return absl::ascii_isalnum(c) || c == '_' || c == ':';
}

std::string_view TakeName(std::string_view* text) {
  size_t size = 0;
  while (size < text->size() && IsNamePart((*text)[size])) ++size;
  const std::string_view name = text->substr(0, size);
  text->remove_prefix(size);
  return name;
}

bool Take(std::string_view* text, char c) {
  if (text->empty() || text->front() != c) return false;
  text->remove_prefix(1);
  return true;
}

// Up to the quote that ends it, which is taken, too.
std::optional<std::string> TakeQuoted(std::string_view* text) {
  std::string value;
  while (!text->empty()) {
    char c = text->front();
    text->remove_prefix(1);
    if (c == '"') return value;
    if (c == '\\') {
      if (text->empty()) return std::nullopt;
      c = text->front() == 'n' ? ' ' : text->front();
      text->remove_prefix(1);
    }
    if (value.size() < kMostOfValue) value += absl::ascii_isprint(c) ? c : '?';
  }
  return std::nullopt;
}

bool TakeLabels(std::string_view* text, Sample* sample) {
  if (!Take(text, '{')) return true;
  while (!Take(text, '}')) {
    if (!sample->labels.empty() && !Take(text, ',')) return false;
    const std::string_view name = TakeName(text);
    if (name.empty() || !Take(text, '=') || !Take(text, '"')) return false;
    auto value = TakeQuoted(text);
    if (!value || sample->labels.size() == kMostLabels) return false;
    sample->labels.emplace_back(name, *std::move(value));
  }
  return true;
}

std::optional<Sample> Read(std::string_view line) {
  Sample sample;
  sample.name = TakeName(&line);
  if (sample.name.empty() || !TakeLabels(&line, &sample) || !Take(&line, ' ')) {
    return std::nullopt;
  }
  // A time, or an exemplar, may follow.
  const std::string_view number = line.substr(0, line.find(' '));
  const char* const end = number.data() + number.size();
  const auto read = std::from_chars(number.data(), end, sample.value);
  const bool good = read.ec == std::errc() && read.ptr == end &&
                    std::abs(sample.value) <= kLargest;
  return good ? std::optional(std::move(sample)) : std::nullopt;
}

}  // namespace

std::string_view Sample::operator[](std::string_view label) const {
  for (const auto& [name, value] : labels) {
    if (name == label) return value;
  }
  return "";
}

size_t ForEachSample(std::string_view page,
                     absl::FunctionRef<void(const Sample&)> visit) {
  size_t malformed = 0;
  while (!page.empty()) {
    std::string_view line = page.substr(0, page.find('\n'));
    page.remove_prefix(std::min(page.size(), line.size() + 1));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.front() == '#') continue;
    if (const auto sample = Read(line)) {
      visit(*sample);
    } else {
      ++malformed;
    }
  }
  return malformed;
}

}  // namespace quantd::quantctl
