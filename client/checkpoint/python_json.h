// Reads and writes JSON as Python's library and transformers do: NaN, Infinity
// and -Infinity are numbers, and integers keep all their digits.
#ifndef QUANTD_CLIENT_CHECKPOINT_PYTHON_JSON_H_
#define QUANTD_CLIENT_CHECKPOINT_PYTHON_JSON_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "client/files/file.h"
#include "fmt/format.h"

namespace quantd::checkpoint {

using Json = nlohmann::ordered_json;

// Reads a file of at most `most` bytes.
absl::StatusOr<std::string> ReadText(const absl::StatusOr<InputFile>& file,
                                     size_t most);

// The most levels of nesting that are accepted; real files have at most ten.
// Copying, comparing and writing JSON are recursive, so that a file with
// nothing but brackets would overflow the stack.
inline constexpr int kMostNested = 200;
bool NestsTooDeep(std::string_view json);

// Throws the exceptions of nlohmann's parser. NestsTooDeep(text) must be false.
Json ParsePythonJson(std::string_view text);
// Writes JSON with `indent` spaces for each level, or on one line if it is -1.
std::string PythonJsonText(const Json& json, int indent);

// Returns nullptr if `object` is not an object or has no member `key`.
const Json* Member(const Json* object, std::string_view key);
// Returns nullopt if `value` is nullptr or not a string.
std::optional<std::string> TextOf(const Json* value);
std::optional<int64_t> IntegerOf(const Json* value);
// The value as JSON for a message, cut to 60 characters; "nothing" for nullptr.
std::string Shown(const Json* value);
inline std::string Shown(const Json& value) { return Shown(&value); }

// Reads a JSON object from a file of at most `most` bytes. `T` is a JSON type
// that keeps the order of keys, or one that finds a key among very many
// quickly. INVALID_ARGUMENT names the file and its fault.
template <typename T>
absl::StatusOr<T> ReadObject(const absl::StatusOr<InputFile>& file, size_t most,
                             T (*parse)(std::string_view)) {
  const auto text = ReadText(file, most);
  if (!text.ok()) return text.status();
  const auto bad = [&](std::string_view why) {
    return absl::InvalidArgumentError(fmt::format("{}: {}", file->path(), why));
  };
  if (NestsTooDeep(*text)) {
    return bad(fmt::format("the JSON has more than {} levels of nesting",
                           kMostNested));
  }
  try {
    T json = parse(*text);
    if (!json.is_object()) {
      return bad(
          fmt::format("expected a JSON object, got {}", json.type_name()));
    }
    return json;
  } catch (const typename T::parse_error& e) {
    return bad(fmt::format("invalid JSON at byte {}", e.byte));
  } catch (const typename T::exception&) {
    return bad("the JSON has a number that is out of range");
  }
}

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_PYTHON_JSON_H_
