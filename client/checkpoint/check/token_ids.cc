#include "client/checkpoint/check/token_ids.h"

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "client/checkpoint/model.h"
#include "fmt/format.h"

namespace quantd::checkpoint {
namespace {

constexpr char kItem[] = "[]";  // the key of what lies in a list

// Hears a tokenizer.json. "model.vocab" has a number for each word, or is a
// list in the order of the numbers; "added_tokens" is a list of objects.
class TokenListener : public nlohmann::json_sax<Json> {
 public:
  int64_t largest() const { return largest_; }
  const std::string& error() const { return error_; }

  bool null() override { return true; }
  bool boolean(bool value) override {
    if (IsAt({"added_tokens", kItem, "special"})) special_ = value;
    return true;
  }
  bool number_integer(number_integer_t value) override {
    if (IsAt({"added_tokens", kItem, "id"})) added_ = value;
    if (IsWord()) Take(value);
    return true;
  }
  bool number_unsigned(number_unsigned_t value) override {
    constexpr auto kMost = std::numeric_limits<int64_t>::max();
    return number_integer(static_cast<int64_t>(
        std::min(value, static_cast<number_unsigned_t>(kMost))));
  }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(size_t) override {
    if (IsAt({"added_tokens", kItem})) {
      added_ = -1;
      special_ = false;
    }
    return Enter("");
  }
  bool key(string_t& name) override {
    place_.back() = name;
    return true;
  }
  bool end_object() override {
    place_.pop_back();
    if (IsAt({"added_tokens", kItem}) && !special_) Take(added_);
    return true;
  }
  bool start_array(size_t) override {
    if (IsAt({"model", "vocab", kItem})) Take(pieces_++);
    return Enter(kItem);
  }
  bool end_array() override {
    place_.pop_back();
    return true;
  }
  bool parse_error(size_t byte, const std::string&,
                   const nlohmann::detail::exception&) override {
    error_ = fmt::format("it goes wrong at byte {}", byte);
    return false;
  }

 private:
  // Whether what is heard lies there.
  bool IsAt(std::initializer_list<std::string_view> keys) const {
    return std::equal(place_.begin(), place_.end(), keys.begin(), keys.end());
  }
  bool IsWord() const {
    return place_.size() == 3 && place_[0] == "model" && place_[1] == "vocab";
  }
  bool Enter(const char* key) {
    if (place_.size() >= static_cast<size_t>(kMostNested)) {
      error_ = fmt::format("more than {} objects and lists within each other",
                           kMostNested);
      return false;
    }
    place_.emplace_back(key);
    return true;
  }
  void Take(int64_t id) { largest_ = std::max(largest_, id); }

  std::vector<std::string> place_;  // the keys on the way there
  int64_t largest_ = -1;
  int64_t pieces_ = 0;  // of a list of words
  int64_t added_ = -1;  // the token that is heard of
  bool special_ = false;
  std::string error_;
};

}  // namespace

absl::StatusOr<int64_t> LargestTokenId(const std::string& path) {
  const auto text = ReadText(path, kMaxTokenizerBytes);
  if (!text.ok()) return text.status();
  TokenListener listener;
  if (!Json::sax_parse(*text, &listener)) {
    return absl::InvalidArgumentError(
        fmt::format("{}: no JSON: {}", path, listener.error()));
  }
  return listener.largest();
}

}  // namespace quantd::checkpoint
