#include "client/checkpoint/python_json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "client/files/file.h"
#include "fmt/format.h"

namespace quantd::checkpoint {
namespace {

// A word that Python accepts as a number. Before parsing, it is replaced by a
// string that begins with a zero character, which marks it.
struct Word {
  std::string_view text;
  double value;
};
constexpr Word kWords[] = {
    {"-Infinity", -std::numeric_limits<double>::infinity()},
    {"Infinity", std::numeric_limits<double>::infinity()},
    {"NaN", std::numeric_limits<double>::quiet_NaN()},
};
constexpr std::string_view kMarkInFile = "\\u0000";

std::string Quoted(std::string_view word) {
  std::string text = "\"";
  text.append(kMarkInFile).append(word).append("\"");
  return text;
}

// Whether the word before `rest` is a key, because a colon follows.
bool IsKey(std::string_view rest) {
  const size_t at = rest.find_first_not_of(" \t\r\n");
  return at != std::string_view::npos && rest[at] == ':';
}

// Whether the text is an integer beyond 64 bits. It stays a marked string, so
// that all its digits are written again.
bool IsHuge(std::string_view number) {
  const bool negative = number.starts_with('-');
  const char* digits = number.data() + negative;
  const char* end = number.data() + number.size();
  if (digits == end || *digits == '0') return false;
  int64_t value = 0;
  uint64_t most = 0;
  const auto read = negative ? std::from_chars(number.data(), end, value)
                             : std::from_chars(digits, end, most);
  return read.ec == std::errc::result_out_of_range && read.ptr == end;
}

// The word or the number with which the text begins, or "".
std::string_view NumberIn(std::string_view text) {
  for (const Word& word : kWords) {
    if (text.starts_with(word.text)) return word.text;
  }
  return text.substr(0, text.find_first_not_of("+-.0123456789Ee"));
}

bool IsMarked(std::string_view number) {
  return IsHuge(number) || std::ranges::any_of(kWords, [&](const Word& word) {
           return word.text == number;
         });
}

std::string WithTexts(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  bool in_text = false;
  for (size_t i = 0; i < json.size();) {
    const std::string_view number = in_text ? "" : NumberIn(json.substr(i));
    if (!number.empty()) {
      i += number.size();
      const bool marked = IsMarked(number) && !IsKey(json.substr(i));
      out += marked ? Quoted(number) : std::string(number);
      continue;
    }
    if (json[i] == '"') in_text = !in_text;
    if (in_text && json[i] == '\\' && i + 1 < json.size()) out += json[i++];
    out += json[i++];
  }
  return out;
}

// Removes the quotes and marks around numbers, except from keys. Makes one
// pass, since a file may consist of them only.
std::string WithoutQuotes(std::string_view text) {
  const std::string start = Quoted("").substr(0, 1 + kMarkInFile.size());
  std::string out;
  for (;;) {
    const size_t at = text.find(start);
    out.append(text.substr(0, at));
    if (at == std::string_view::npos) return out;
    text.remove_prefix(at);
    const std::string_view number = NumberIn(text.substr(start.size()));
    const std::string_view rest = text.substr(start.size() + number.size());
    if (IsMarked(number) && rest.starts_with('"') && !rest.starts_with("\":")) {
      out.append(number);
      text = rest.substr(1);
    } else {
      out += text.front();
      text.remove_prefix(1);
    }
  }
}

template <typename Change>
void ForEachLeaf(Json* json, const Change& change) {
  if (!json->is_structured()) return change(json);
  for (Json& item : *json) ForEachLeaf(&item, change);
}

void ToNumber(Json* leaf) {
  if (!leaf->is_string()) return;
  const std::string_view text = leaf->get_ref<const std::string&>();
  if (text.empty() || text.front() != '\0') return;
  for (const Word& word : kWords) {
    if (text.substr(1) == word.text) {
      *leaf = word.value;
      return;
    }
  }
}

void ToText(Json* leaf) {
  if (!leaf->is_number_float()) return;
  const double x = leaf->get<double>();
  if (std::isfinite(x)) return;
  const Word& word = kWords[std::isnan(x) ? 2 : x > 0 ? 1 : 0];
  *leaf = std::string(1, '\0').append(word.text);
}

}  // namespace

absl::StatusOr<std::string> ReadText(const absl::StatusOr<InputFile>& file,
                                     size_t most) {
  if (!file.ok()) return file.status();
  if (file->size() > most) {
    return absl::InvalidArgumentError(
        fmt::format("{}: the file has {} bytes, more than the limit of {}",
                    file->path(), file->size(), most));
  }
  std::string text(file->size(), '\0');
  const auto status =
      file->ReadAt(0, {reinterpret_cast<std::byte*>(text.data()), text.size()});
  if (!status.ok()) return status;
  return text;
}

bool NestsTooDeep(std::string_view json) {
  int depth = 0;
  bool in_text = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (c == '"') in_text = !in_text;
    if (in_text) {
      if (c == '\\') ++i;
    } else if (c == '[' || c == '{') {
      if (++depth > kMostNested) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

Json ParsePythonJson(std::string_view text) {
  Json json = Json::parse(WithTexts(text));
  ForEachLeaf(&json, ToNumber);
  return json;
}

std::string PythonJsonText(const Json& json, int indent) {
  Json with_texts = json;
  ForEachLeaf(&with_texts, ToText);
  const std::string text =
      with_texts.dump(indent, ' ', false, Json::error_handler_t::replace);
  return WithoutQuotes(text);
}

const Json* Member(const Json* object, std::string_view key) {
  if (object == nullptr || !object->is_object()) return nullptr;
  const auto found = object->find(std::string(key));
  return found == object->end() ? nullptr : &*found;
}

std::optional<std::string> TextOf(const Json* value) {
  if (value == nullptr || !value->is_string()) return std::nullopt;
  return value->get<std::string>();
}

std::optional<int64_t> IntegerOf(const Json* value) {
  if (value == nullptr || !value->is_number_integer()) return std::nullopt;
  return value->get<int64_t>();
}

std::string Shown(const Json* value) {
  constexpr size_t kMost = 60;
  if (value == nullptr) return "nothing";
  std::string text = PythonJsonText(*value, -1);
  if (text.size() > kMost) text = text.substr(0, kMost) + "...";
  return text;
}

}  // namespace quantd::checkpoint
