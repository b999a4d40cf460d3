// JSON as Python's library reads and writes it, and thus transformers: NaN,
// Infinity and -Infinity are numbers.
#ifndef QUANTD_CLIENT_CHECKPOINT_PYTHON_JSON_H_
#define QUANTD_CLIENT_CHECKPOINT_PYTHON_JSON_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace quantd::checkpoint {

using Json = nlohmann::ordered_json;

// Throws what nlohmann's own does. `text` must not nest too deep for calls
// that go down with it.
Json ParsePythonJson(std::string_view text);
// `indent`: -1 for one line.
std::string PythonJsonText(const Json& json, int indent);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_PYTHON_JSON_H_
