// JSON in the dialect of Python's library, and thus of transformers: NaN,
// Infinity and -Infinity are numbers.
#ifndef QUANTD_CLIENT_CHECKPOINT_PYTHON_JSON_H_
#define QUANTD_CLIENT_CHECKPOINT_PYTHON_JSON_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "client/files/file.h"

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

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_PYTHON_JSON_H_
