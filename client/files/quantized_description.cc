#include "client/files/quantized_description.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "client/files/sign_mask_text.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "proto/messages.h"

namespace quantd::client {
namespace {

using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using nlohmann::json;

// Most descriptions have about 300 bytes. A list of splits is the longest part.
constexpr size_t kMaxDescription = 2 << 20;

// Fields of QuantizeOptions that a description omits or writes in a form of
// their own. Every other field has a key of its name, also if it lies inside a
// message: a new option is kept without a line here, unless its type is new.
constexpr std::string_view kOthers[] = {"given_amax", "scale", "history",
                                        "statistics", "rht",   "splits",
                                        "shard",      "dbias", "dbias_dtype"};

bool HasKey(const FieldDescriptor& field) {
  return std::ranges::count(kOthers, field.name()) == 0;
}

// The word of a number: "mse" for FOUR_OVER_SIX_MSE.
std::string WordOf(const EnumDescriptor& type, int number) {
  if (&type == v1::Profile_descriptor()) {
    return std::string(Name(static_cast<Profile>(number)));
  }
  // In the name of number 0, one word follows the prefix of all names.
  const size_t prefix = type.FindValueByNumber(0)->name().rfind('_') + 1;
  const auto* value = type.FindValueByNumber(number);
  return value == nullptr ? ""
                          : absl::AsciiStrToLower(value->name()).substr(prefix);
}

// Writes all fields that are set.
void Write(const Message& m, json* j) {
  const auto& values = *m.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  values.ListFields(m, &fields);
  for (const FieldDescriptor* field : fields) {
    if (!HasKey(*field)) continue;
    const std::string key(field->name());
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE:
        Write(values.GetMessage(m, field), j);
        break;
      case FieldDescriptor::CPPTYPE_BOOL:
        (*j)[key] = values.GetBool(m, field);
        break;
      case FieldDescriptor::CPPTYPE_FLOAT:
        (*j)[key] = values.GetFloat(m, field);
        break;
      case FieldDescriptor::CPPTYPE_UINT64:
        (*j)[key] = values.GetUInt64(m, field);
        break;
      default:
        (*j)[key] = WordOf(*field->enum_type(), values.GetEnumValue(m, field));
    }
  }
}

json DescribeRht(const RhtOptions& rht) {
  const SignMask mask = rht.sign_mask.value_or(DefaultSignMask(rht.dimension));
  return {{"rowwise", rht.rowwise},
          {"columnwise", rht.columnwise},
          {"dimension", rht.dimension},
          {"sign_mask", SignMaskToHex(mask, rht.dimension)}};
}

// Reads the fields of a JSON object. ok() is false after a required field was
// missing or had the wrong type.
class Fields {
 public:
  explicit Fields(const json& object) : object_(object) {}
  bool ok() const { return ok_; }
  void Refuse() { ok_ = false; }

  bool Has(const std::string& key) const { return object_.contains(key); }
  std::string Text(const std::string& key) {
    const json* v = Find(key);
    if (v == nullptr || !v->is_string()) return Fail(std::string());
    return v->get<std::string>();
  }
  bool Flag(const std::string& key) {
    const json* v = Find(key);
    if (v == nullptr || !v->is_boolean()) return Fail(false);
    return v->get<bool>();
  }
  int Small(const std::string& key) {
    const json* v = Find(key);
    if (v == nullptr || !v->is_number_integer()) return Fail(0);
    const auto value = v->get<int64_t>();
    if (value < -1000 || value > 1000) return Fail(0);
    return static_cast<int>(value);
  }
  uint64_t Unsigned(const std::string& key) {
    const json* v = Find(key);
    if (v == nullptr || !v->is_number_unsigned()) return Fail(uint64_t{0});
    return v->get<uint64_t>();
  }
  float Number(const std::string& key) {
    const json* v = Find(key);
    if (v == nullptr || !v->is_number()) return Fail(0.0f);
    // Read as double, which represents every fp32 number exactly.
    const double value = v->get<double>();
    if (!(std::fabs(value) <= std::numeric_limits<float>::max())) {
      return Fail(0.0f);
    }
    return static_cast<float>(value);
  }
  std::vector<int64_t> Sizes(const std::string& key) {
    const json* v = Find(key);
    if (v == nullptr || !v->is_array()) return Fail(std::vector<int64_t>());
    std::vector<int64_t> sizes;
    for (const json& d : *v) {
      if (!d.is_number_unsigned()) return Fail(sizes);
      // Values from 2^63 become negative. MakeQuantizePlan refuses those.
      sizes.push_back(static_cast<int64_t>(d.get<uint64_t>()));
    }
    return sizes;
  }
  int Word(const std::string& key, const EnumDescriptor& type) {
    const std::string text = Text(key);
    for (int i = 0; i < type.value_count(); ++i) {
      const int number = type.value(i)->number();
      if (text == WordOf(type, number) && text != "unspecified") return number;
    }
    return Fail(0);
  }
  template <typename T>
  T Parsed(std::optional<T> value) {
    return value ? *value : Fail(T{});
  }

 private:
  const json* Find(const std::string& key) {
    const auto it = object_.find(key);
    return it == object_.end() ? nullptr : &*it;
  }
  template <typename T>
  T Fail(T value) {
    Refuse();
    return value;
  }
  const json& object_;
  bool ok_ = true;
};

// Reads what Write wrote. A key that is missing leaves its field unset.
void Read(Fields* f, Message* m) {
  const auto& values = *m->GetReflection();
  for (int i = 0; i < m->GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* field = m->GetDescriptor()->field(i);
    const std::string key(field->name());
    const bool message = field->message_type() != nullptr;
    if (!HasKey(*field) || (!message && !f->Has(key))) continue;
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE:
        Read(f, values.MutableMessage(m, field));
        break;
      case FieldDescriptor::CPPTYPE_BOOL:
        values.SetBool(m, field, f->Flag(key));
        break;
      case FieldDescriptor::CPPTYPE_FLOAT:
        values.SetFloat(m, field, f->Number(key));
        break;
      case FieldDescriptor::CPPTYPE_UINT64:
        values.SetUInt64(m, field, f->Unsigned(key));
        break;
      default:
        values.SetEnumValue(m, field, f->Word(key, *field->enum_type()));
    }
  }
}

RhtOptions ParseRht(Fields* f) {
  RhtOptions rht;
  rht.rowwise = f->Flag("rowwise");
  rht.columnwise = f->Flag("columnwise");
  rht.dimension = f->Small("dimension");
  // A mask is only meaningful for a dimension that can be legal.
  if (rht.dimension < 16 || rht.dimension > 128) {
    f->Refuse();
    return rht;
  }
  const std::string mask = f->Text("sign_mask");
  // Describe writes all digits of the mask, with leading zeros.
  if (mask.size() != 2 + static_cast<size_t>(rht.dimension) / 4) f->Refuse();
  rht.sign_mask = f->Parsed(SignMaskFromHex(mask, rht.dimension));
  // Nothing rotates, so the mask and the dimension are not kept.
  if (!rht.rowwise && !rht.columnwise) return {};
  return rht;
}

// Reads the fields that have a form of their own, except the rotation.
void ReadOwnForms(Fields* f, QuantizeOptions* o) {
  if (f->Has("splits")) o->splits = f->Sizes("splits");
  if (f->Has("partial_splits")) {
    o->partial_splits = f->Flag("partial_splits");
  }
  if (f->Has("shard")) {
    const std::vector<int64_t> shard = f->Sizes("shard");
    if (shard.size() == 3) {
      o->shard = {shard[0], shard[1], shard[2]};
    } else {
      f->Refuse();
    }
  }
  if (f->Has("dbias")) {
    o->dbias = true;
    o->dbias_dtype = f->Parsed(ParseDType(f->Text("dbias")));
  }
}

}  // namespace

std::string Describe(const QuantizedDescription& d) {
  QuantizeOptions o = d.options;
  // The rule that a missing key means, except under a profile with another one.
  if (o.mx.scale_rule == ScaleRule::kUp && o.profile == Profile::kTe) {
    o.mx.scale_rule.reset();
  }
  json j = {{"shape", d.tensor.shape},
            {"dtype", Name(d.tensor.dtype)},
            {"flatten_axis", d.tensor.flatten_axis},
            {"non_finite", Name(o.non_finite)},
            {"rht", DescribeRht(o.rht)}};
  Write(wire::ToProto(o), &j);
  if (o.splits) j["splits"] = *o.splits;
  if (o.partial_splits) j["partial_splits"] = true;
  if (o.rounding == Rounding::kStochastic) {
    j["seed"] = o.stochastic.seed;
    j["seed_offset"] = o.stochastic.seed_offset;
    j["shard"] = {o.shard.row_offset, o.shard.column_offset,
                  o.shard.total_columns};
  }
  if (o.dbias) {
    j["dbias"] = Name(o.dbias_dtype == DType::kUnspecified ? d.tensor.dtype
                                                           : o.dbias_dtype);
  }
  return j.dump();
}

absl::StatusOr<QuantizedDescription> ParseDescription(const std::string& text) {
  const auto bad = [] {
    return absl::InvalidArgumentError(
        "its description in the metadata is malformed");
  };
  if (text.size() > kMaxDescription) return bad();
  const json object = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object() || !object.contains("rht") ||
      !object["rht"].is_object()) {
    return bad();
  }
  Fields f(object);
  for (const char* key : {"format", "usage", "non_finite", "scale_layout"}) {
    if (!f.Has(key)) return bad();
  }
  v1::QuantizeOptions message;
  Read(&f, &message);
  absl::StatusOr<QuantizeOptions> options = wire::FromProto(message);
  if (!options.ok()) return bad();
  QuantizedDescription d;
  d.options = *std::move(options);
  ReadOwnForms(&f, &d.options);
  d.tensor.shape = f.Sizes("shape");
  d.tensor.dtype = f.Parsed(ParseDType(f.Text("dtype")));
  d.tensor.flatten_axis = f.Small("flatten_axis");
  Fields rht(object["rht"]);
  d.options.rht = ParseRht(&rht);
  if (!f.ok() || !rht.ok()) return bad();
  return d;
}

}  // namespace quantd::client
