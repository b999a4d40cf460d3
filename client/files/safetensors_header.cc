#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "client/files/safetensors.h"
#include "client/files/shown_name.h"
#include "fmt/format.h"

namespace quantd::safetensors {
namespace {

struct DTypeRow {
  std::string_view name;
  int bits;
};
constexpr DTypeRow kDTypes[] = {
    {"BOOL", 8},        {"U8", 8},          {"I8", 8},      {"I16", 16},
    {"U16", 16},        {"I32", 32},        {"U32", 32},    {"I64", 64},
    {"U64", 64},        {"F16", 16},        {"BF16", 16},   {"F32", 32},
    {"F64", 64},        {"C64", 64},        {"F8_E4M3", 8}, {"F8_E5M2", 8},
    {"F8_E8M0", 8},     {"F4", 4},          {"F6_E2M3", 6}, {"F6_E3M2", 6},
    {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8},
};

// Handles the JSON parser's events, so that no tree is built: that of a header
// of 100 MB would take several times as much memory.
class Reader : public nlohmann::json_sax<nlohmann::json> {
 public:
  const std::string& error() const { return error_; }
  std::vector<Tensor> TakeTensors() { return std::move(tensors_); }
  Metadata TakeMetadata() { return std::move(metadata_); }

  bool null() override { return Misplaced("null"); }
  bool boolean(bool) override { return Misplaced("a boolean"); }
  bool number_integer(number_integer_t value) override {
    return Fail(fmt::format("{}: negative number {}", Where(), value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (state_ != State::kShape && state_ != State::kOffsets) {
      return Misplaced("a number");
    }
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return Fail(fmt::format("{}: number {} is too large", Where(), value));
    }
    if (state_ == State::kOffsets) {
      if (offsets_.size() == 2) {
        return Fail(fmt::format("{}: more than two data_offsets", Where()));
      }
      offsets_.push_back(value);
    } else {
      if (tensor_.shape.size() == kMaxRank) {
        return Fail(
            fmt::format("{}: more than {} dimensions", Where(), kMaxRank));
      }
      tensor_.shape.push_back(static_cast<int64_t>(value));
    }
    return true;
  }
  bool number_float(number_float_t, const string_t& text) override {
    return Fail(fmt::format("{}: {} is not a whole number", Where(), text));
  }
  bool string(string_t& value) override {
    if (state_ == State::kMetadata) {
      metadata_[key_] = std::move(value);
      return true;
    }
    if (state_ == State::kTensor && key_ == "dtype") {
      tensor_.dtype = std::move(value);
      return true;
    }
    return Misplaced("a string");
  }
  bool binary(binary_t&) override { return Misplaced("binary"); }

  bool start_object(size_t) override {
    if (state_ == State::kStart) {
      state_ = State::kTop;
      return true;
    }
    if (state_ != State::kTop) return Misplaced("an object");
    if (name_ == "__metadata__") {
      state_ = State::kMetadata;
    } else {
      state_ = State::kTensor;
      tensor_ = {};
      tensor_.name = name_;
      offsets_.clear();
      has_shape_ = has_offsets_ = false;
    }
    keys_.clear();
    return true;
  }
  bool key(string_t& value) override {
    // A message could show the name on a terminal, where control characters are
    // dangerous.
    if (state_ == State::kTop && HasControl(value)) {
      return Fail("a tensor's name holds control characters");
    }
    std::set<std::string>& seen = state_ == State::kTop ? names_ : keys_;
    if (!seen.insert(value).second) {
      return Fail(fmt::format("{}: \"{}\" occurs twice", Where(), value));
    }
    (state_ == State::kTop ? name_ : key_) = std::move(value);
    return true;
  }
  bool end_object() override {
    if (state_ == State::kTensor && !FinishTensor()) return false;
    state_ = state_ == State::kTop ? State::kEnd : State::kTop;
    return true;
  }
  bool start_array(size_t) override {
    if (state_ == State::kTensor && key_ == "shape") {
      state_ = State::kShape;
      has_shape_ = true;
      return true;
    }
    if (state_ == State::kTensor && key_ == "data_offsets") {
      state_ = State::kOffsets;
      has_offsets_ = true;
      return true;
    }
    return Misplaced("an array");
  }
  bool end_array() override {
    state_ = State::kTensor;
    return true;
  }
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::json::exception&) override {
    return Fail(fmt::format("not JSON at byte {}", position));
  }

 private:
  enum class State { kStart, kTop, kMetadata, kTensor, kShape, kOffsets, kEnd };

  bool Fail(std::string text) {
    if (error_.empty()) error_ = std::move(text);
    return false;
  }
  // Names come from the file and may be long. Messages show 200 characters.
  std::string Where() const {
    if (state_ == State::kStart || state_ == State::kTop) return "header";
    return fmt::format("tensor \"{}\"", name_.substr(0, 200));
  }
  bool Misplaced(std::string_view what) {
    return Fail(fmt::format("{}: {} is not allowed here", Where(), what));
  }
  bool FinishTensor() {
    if (tensor_.dtype.empty() || !has_shape_ || !has_offsets_ ||
        offsets_.size() != 2) {
      return Fail(
          fmt::format("{}: needs dtype, shape and two data_offsets", Where()));
    }
    if (offsets_[0] > offsets_[1]) {
      return Fail(fmt::format("{}: data_offsets [{}, {}] end before they begin",
                              Where(), offsets_[0], offsets_[1]));
    }
    const int bits = BitsOf(tensor_.dtype);
    if (bits == 0) {
      return Fail(fmt::format("{}: unknown dtype \"{}\"", Where(),
                              tensor_.dtype.substr(0, 40)));
    }
    uint64_t total = bits;
    bool overflow = false;
    for (int64_t d : tensor_.shape) {
      overflow |=
          __builtin_mul_overflow(total, static_cast<uint64_t>(d), &total);
    }
    if (overflow) return Fail(fmt::format("{}: shape overflows", Where()));
    tensor_.offset = offsets_[0];
    tensor_.size = offsets_[1] - offsets_[0];
    if (total % 8 != 0 || total / 8 != tensor_.size) {
      return Fail(fmt::format(
          "{}: {} bytes of data, but its dtype and shape need {} bits", Where(),
          tensor_.size, total));
    }
    tensors_.push_back(std::move(tensor_));
    return true;
  }

  State state_ = State::kStart;
  std::string error_;
  std::string name_;  // the current key of the top object
  std::string key_;   // the current key inside its value
  std::set<std::string> names_;
  std::set<std::string> keys_;
  Tensor tensor_;
  std::vector<uint64_t> offsets_;
  bool has_shape_ = false;
  bool has_offsets_ = false;
  std::vector<Tensor> tensors_;
  Metadata metadata_;
};

}  // namespace

int BitsOf(std::string_view dtype) {
  for (const DTypeRow& row : kDTypes) {
    if (row.name == dtype) return row.bits;
  }
  return 0;
}

absl::StatusOr<Header> ParseHeader(std::string_view json, size_t buffer_size) {
  if (json.empty() || json.front() != '{') {
    return absl::InvalidArgumentError("header: does not begin with '{'");
  }
  Reader reader;
  const bool parsed =
      nlohmann::json::sax_parse(json.begin(), json.end(), &reader);
  if (!parsed) return absl::InvalidArgumentError(reader.error());
  Header header;
  header.tensors = reader.TakeTensors();
  header.metadata = reader.TakeMetadata();
  // Empty tensors sort first, so that one between two others is accepted.
  std::ranges::stable_sort(
      header.tensors, [](const Tensor& a, const Tensor& b) {
        return std::pair(a.offset, a.size) < std::pair(b.offset, b.size);
      });
  size_t end = 0;
  for (const Tensor& t : header.tensors) {
    if (t.offset != end) {
      return absl::InvalidArgumentError(fmt::format(
          "tensor \"{}\": begins at byte {} of the buffer, {}",
          t.name.substr(0, 200), t.offset,
          t.offset < end ? "inside another tensor"
                         : fmt::format("but byte {} was expected", end)));
    }
    end += t.size;
    if (end > buffer_size) {
      return absl::InvalidArgumentError(fmt::format(
          "tensor \"{}\": ends at byte {} of a buffer of {} bytes; the file is "
          "truncated or its header is wrong",
          t.name.substr(0, 200), end, buffer_size));
    }
  }
  if (end != buffer_size) {
    return absl::InvalidArgumentError(
        fmt::format("{} bytes follow the last tensor", buffer_size - end));
  }
  return header;
}

}  // namespace quantd::safetensors
