// JSON in the dialect of Python's library, and thus of transformers: NaN,
// Infinity and -Infinity are numbers.
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

// Limit of nesting; real files reach ten. Copying, comparing and writing JSON
// are recursive, and a file of brackets alone would overflow the stack.
inline constexpr int kMostNested = 200;
bool NestsTooDeep(std::string_view json);

// Throws the same exceptions as nlohmann's parser. `text` must not nest too
// deep.
Json ParsePythonJson(std::string_view text);
// `indent` -1 writes one line.
std::string PythonJsonText(const Json& json, int indent);

// Reads a JSON object from a file of at most `most` bytes. `T` either keeps the
// order of keys or finds one among very many quickly. INVALID_ARGUMENT names
// the file and what is wrong with it.
template <typename T>
absl::StatusOr<T> ReadObject(const absl::StatusOr<InputFile>& file, size_t most,
                             T (*parse)(std::string_view)) {
  const auto text = ReadText(file, most);
  if (!text.ok()) return text.status();
  const auto bad = [&](std::string_view why) {
    return absl::InvalidArgumentError(fmt::format("{}: {}", file->path(), why));
  };
  if (NestsTooDeep(*text)) {
    return bad(
        fmt::format("JSON of more than {} objects and lists "
                    "within each other",
                    kMostNested));
  }
  try {
    T json = parse(*text);
    if (!json.is_object()) {
      return bad(
          fmt::format("a JSON object was expected, got {}", json.type_name()));
    }
    return json;
  } catch (const typename T::parse_error& e) {
    return bad(fmt::format("no JSON: it goes wrong at byte {}", e.byte));
  } catch (const typename T::exception&) {
    return bad("JSON with a number out of range");
  }
}

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_PYTHON_JSON_H_
