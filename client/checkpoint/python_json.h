// JSON as Python's library reads and writes it, and thus transformers: NaN,
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

// Whole: a file of at most `most` bytes as text.
absl::StatusOr<std::string> ReadText(const absl::StatusOr<InputFile>& file,
                                     size_t most);

// Objects and lists within each other; real files have ten. What copies,
// compares or writes JSON calls itself for each, and a file of brackets alone
// would take all of the stack.
inline constexpr int kMostNested = 200;
bool NestsTooDeep(std::string_view json);

// Throws what nlohmann's own does. `text` must not nest too deep for calls
// that go down with it.
Json ParsePythonJson(std::string_view text);
// `indent`: -1 for one line.
std::string PythonJsonText(const Json& json, int indent);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_PYTHON_JSON_H_
