#include "tests/fuzz/wire_messages.h"

#include <algorithm>
#include <cstring>

#include "kernels/plan.h"
#include "proto/wire.h"
#include "tests/proto/raw_message.h"

namespace quantd::wire {
namespace {

std::string RandomBytes(size_t n, Random& random) {
  std::string out(n, '\0');
  for (size_t i = 0; i < n; i += sizeof(uint64_t)) {
    const uint64_t word = random.Next();
    std::memcpy(out.data() + i, &word, std::min(n - i, sizeof word));
  }
  return out;
}

// Numbers that parsers stumble over, and small ones.
uint64_t Awkward(Random& random) {
  switch (random.Below(8)) {
    case 0:
      return random.Next();
    case 1:
      return (uint64_t{1} << random.Below(64)) - random.Below(2);
    case 2:
      return ~uint64_t{0} - random.Below(20);
    case 3:
      return 0x7fffffff - random.Below(32);
    default:
      return random.Below(20);
  }
}

uint64_t AnyField(Random& random) {
  switch (random.Below(6)) {
    case 0:
      return kPayloadField;
    case 1:
      return random.Below(20000);
    case 2:
      return Awkward(random);
    default:
      return 1 + random.Below(10);
  }
}

v1::DType AnyFloat(Random& random) {
  return static_cast<v1::DType>(1 + random.Below(3));
}

// A number of the enum, and now and then one that is none.
template <typename Enum>
Enum AnyEnum(int count, Random& random) {
  return static_cast<Enum>(random.OneIn(20) ? static_cast<int>(Awkward(random))
                                            : random.Below(count));
}

// Some elements, so that payloads stay small.
void FillTensor(v1::Tensor* tensor, Random& random) {
  tensor->set_dtype(random.OneIn(30) ? AnyEnum<v1::DType>(8, random)
                                     : AnyFloat(random));
  const int rank = static_cast<int>(1 + random.Below(3));
  for (int i = 0; i + 1 < rank; ++i) tensor->add_shape(random.Below(3));
  tensor->add_shape(16 * random.Below(3));
  if (random.OneIn(30)) tensor->add_shape(Awkward(random));
  if (random.OneIn(4)) {
    tensor->set_flatten_axis(static_cast<int>(random.Below(7)) - 3);
  }
}

void FillRht(v1::Rht* rht, Random& random) {
  rht->set_rowwise(random.OneIn(2));
  rht->set_columnwise(random.OneIn(2));
  if (random.OneIn(2)) rht->set_dimension(16);
  if (random.OneIn(30)) {
    rht->set_dimension(static_cast<uint32_t>(Awkward(random)));
  }
  if (random.OneIn(2)) {
    rht->set_sign_mask(
        RandomBytes(random.OneIn(20) ? random.Below(20) : 2, random));
  }
}

TensorDesc Desc(const v1::Tensor& message) {
  TensorDesc tensor;
  tensor.dtype = static_cast<DType>(message.dtype());
  tensor.shape.assign(message.shape().begin(), message.shape().end());
  if (message.has_flatten_axis()) tensor.flatten_axis = message.flatten_axis();
  return tensor;
}

// The size a tensor's own payload has, if that is a small one.
size_t TensorBytes(const v1::Tensor& tensor, Random& random) {
  const auto plan = MakeApplyRhtPlan(Desc(tensor), {});
  if (!plan.ok() || plan->input_bytes() > 4096 || random.OneIn(20)) {
    return random.Below(100);
  }
  return plan->input_bytes();
}

std::string Serialized(const google::protobuf::MessageLite& m) {
  return m.SerializeAsString();
}

std::string QuantizeBytes(Random& random) {
  v1::QuantizeRequest m;
  FillTensor(m.mutable_tensor(), random);
  m.set_format(random.OneIn(30) ? AnyEnum<v1::Format>(2, random)
                                : v1::FORMAT_NVFP4);
  m.set_usage(AnyEnum<v1::Usage>(4, random));
  m.set_non_finite(AnyEnum<v1::NonFinite>(3, random));
  if (random.OneIn(2)) FillRht(m.mutable_rht(), random);
  if (random.OneIn(3)) {
    m.mutable_given_amax()->set_rowwise(static_cast<float>(random.Below(9)));
  }
  if (random.OneIn(9)) m.mutable_given_amax()->set_columnwise(-1.0f);
  m.set_payload(RandomBytes(TensorBytes(m.tensor(), random), random));
  return Serialized(m);
}

std::string DequantizeBytes(Random& random) {
  v1::DequantizeRequest m;
  FillTensor(m.mutable_tensor(), random);
  m.set_format(v1::FORMAT_NVFP4);
  m.set_usage(static_cast<v1::Usage>(random.Below(3)));
  m.set_output(AnyFloat(random));
  if (random.OneIn(3)) FillRht(m.mutable_inverse_rht(), random);
  if (random.OneIn(3)) m.set_amax(static_cast<float>(random.Below(9)));
  DequantizeOptions options;
  options.format = Format::kNvfp4;
  options.output = DType::kF32;
  if (m.usage() != v1::USAGE_UNSPECIFIED) {
    options.usage = static_cast<Usage>(m.usage());
  }
  const auto plan = MakeDequantizePlan(Desc(m.tensor()), options);
  if (!plan.ok() || plan->input_bytes() > 8192) {
    m.set_payload(RandomBytes(random.Below(100), random));
    return Serialized(m);
  }
  size_t bytes = 0;
  for (const TensorSpec& input : plan->inputs()) bytes += input.size;
  if (random.OneIn(2)) {
    bytes += random.Below(64);
    for (const TensorSpec& input : plan->inputs()) {
      if (random.OneIn(12)) continue;
      v1::TensorRef* ref = m.add_tensors();
      ref->set_kind(ToProto(input.kind));
      if (random.OneIn(2)) ref->set_dtype(ToProto(input.dtype));
      if (random.OneIn(2)) ref->set_layout(v1::LAYOUT_LINEAR);
      for (int64_t d : input.shape) ref->add_shape(d);
      ref->set_offset(random.Below(bytes - input.size + 1));
      ref->set_size(input.size);
      if (random.OneIn(20)) ref->set_offset(Awkward(random));
      if (random.OneIn(20)) ref->set_size(Awkward(random));
    }
    std::reverse(m.mutable_tensors()->begin(), m.mutable_tensors()->end());
  } else if (m.has_amax() && random.OneIn(2)) {
    bytes -= sizeof(float);
  }
  m.set_payload(RandomBytes(bytes, random));
  return Serialized(m);
}

std::string RhtAmaxBytes(Random& random) {
  v1::RhtAmaxRequest m;
  FillTensor(m.mutable_tensor(), random);
  m.set_rowwise(random.OneIn(2));
  m.set_rowwise_rht(random.OneIn(2));
  m.set_columnwise(random.OneIn(2));
  m.set_columnwise_rht(random.OneIn(2));
  if (random.OneIn(2)) FillRht(m.mutable_rht(), random);
  m.set_non_finite(AnyEnum<v1::NonFinite>(3, random));
  m.set_payload(RandomBytes(TensorBytes(m.tensor(), random), random));
  return Serialized(m);
}

std::string ApplyRhtBytes(Random& random) {
  v1::ApplyRhtRequest m;
  FillTensor(m.mutable_tensor(), random);
  m.set_inverse(random.OneIn(2));
  m.set_output(AnyEnum<v1::DType>(4, random));
  if (random.OneIn(2)) FillRht(m.mutable_rht(), random);
  m.set_payload(RandomBytes(TensorBytes(m.tensor(), random), random));
  return Serialized(m);
}

std::string ReplyBytes(Random& random) {
  v1::QuantizeReply m;
  FillTensor(m.mutable_tensor(), random);
  for (uint64_t i = random.Below(4); i > 0; --i) {
    v1::TensorRef* ref = m.add_tensors();
    ref->set_kind(AnyEnum<v1::TensorKind>(12, random));
    ref->set_offset(Awkward(random));
    ref->add_shape(random.Below(9));
  }
  m.mutable_report()->set_device("cpu:0");
  m.set_request_id(random.OneIn(2) ? "0123456789" : "\xC3\xA9");
  m.set_payload(RandomBytes(random.Below(100), random));
  return Serialized(m);
}

}  // namespace

std::string LegalMessage(int type, Random& random) {
  switch (type) {
    case 0:
      return QuantizeBytes(random);
    case 1:
      return DequantizeBytes(random);
    case 2:
      return RhtAmaxBytes(random);
    case 3:
      return ApplyRhtBytes(random);
    default:
      return ReplyBytes(random);
  }
}

std::string RawFields(int depth, Random& random) {
  std::string out;
  for (uint64_t i = random.Below(6); i > 0; --i) {
    const uint64_t field = AnyField(random);
    const int type = static_cast<int>(random.Below(random.OneIn(10) ? 8 : 6));
    out += Tag(field, type,
               static_cast<int>(random.OneIn(10) ? random.Below(7) : 0));
    switch (type) {
      case kVarint:
        out += Varint(Awkward(random),
                      static_cast<int>(random.OneIn(8) ? random.Below(13) : 0));
        break;
      case kFixed64:
        out += RandomBytes(8, random);
        break;
      case kDelimited: {
        const std::string content = depth > 0 && random.OneIn(2)
                                        ? RawFields(depth - 1, random)
                                        : RandomBytes(random.Below(20), random);
        const uint64_t length =
            random.OneIn(15) ? Awkward(random) : content.size();
        out +=
            Varint(length,
                   static_cast<int>(random.OneIn(10) ? random.Below(7) : 0)) +
            content;
        break;
      }
      case kStartGroup:
        if (depth > 0) out += RawFields(depth - 1, random);
        if (!random.OneIn(10)) out += Tag(field, kEndGroup);
        break;
      case kFixed32:
        out += RandomBytes(4, random);
        break;
      default:
        break;
    }
  }
  return out;
}

void Mutate(std::string* message, Random& random) {
  std::string& m = *message;
  const size_t at = random.Below(m.size() + 1);
  const size_t n = random.Below(std::min<size_t>(m.size() - at, 24) + 1);
  // Most of a message is payload; its tags and lengths are at the front.
  const size_t front = random.Below(std::min<size_t>(m.size(), 40) + 1);
  switch (random.Below(10)) {
    case 0:
      if (at < m.size()) m[at] ^= static_cast<char>(1 << random.Below(8));
      break;
    case 1:
      if (front < m.size()) m[front] = static_cast<char>(random.Next());
      break;
    case 2:
      m.resize(at);
      break;
    case 3:
      m.insert(front, RandomBytes(random.Below(6), random));
      break;
    case 4:
      m.insert(at, std::string(m.substr(at, n)));
      break;
    case 5:
      m.erase(front, n);
      break;
    case 6:
      m.insert(front,
               Varint(Awkward(random), static_cast<int>(random.Below(13))));
      break;
    case 7: {
      // Deep groups, around the limit of 100.
      const size_t groups =
          random.OneIn(4) ? 98 + random.Below(5) : random.Below(6);
      std::string nest;
      for (size_t i = 0; i < groups; ++i) nest += Tag(9, kStartGroup);
      nest += RawFields(1, random);
      for (size_t i = 0; i < groups; ++i) nest += Tag(9, kEndGroup);
      m.insert(random.OneIn(2) ? 0 : m.size(), nest);
      break;
    }
    case 8:
      m.insert(random.OneIn(2) ? 0 : m.size(), RawFields(2, random));
      break;
    default:
      // A second payload, whole message or part of one.
      m += random.OneIn(2) ? Payload(RandomBytes(random.Below(9), random))
                           : m.substr(0, front);
      break;
  }
}

std::string AnyMessage(int type, Random& random) {
  std::string message;
  switch (random.Below(8)) {
    case 0:
      message = RawFields(4, random);
      break;
    case 1:
      message = RandomBytes(random.Below(60), random);
      break;
    case 2:
      return LegalMessage(type, random);
    case 3:  // of another type
      message = LegalMessage(static_cast<int>(random.Below(5)), random);
      break;
    default:
      message = LegalMessage(type, random);
      break;
  }
  for (uint64_t i = random.Below(4); i > 0; --i) Mutate(&message, random);
  return message;
}

std::vector<std::string_view> AnyCut(std::string_view message, Random& random) {
  std::vector<size_t> cuts;
  if (random.OneIn(8)) {
    // Byte by byte at the front, where the tags are.
    for (size_t i = 0; i < std::min<size_t>(message.size(), 64); ++i) {
      cuts.push_back(i);
    }
  }
  for (uint64_t i = random.Below(10); i > 0; --i) {
    cuts.push_back(random.Below(message.size() + 1));
    if (random.OneIn(4)) cuts.push_back(cuts.back());  // an empty slice
    if (random.OneIn(4) && cuts.back() < message.size()) {
      cuts.push_back(cuts.back() + 1);  // a slice of one byte
    }
  }
  std::sort(cuts.begin(), cuts.end());
  return Cut(message, cuts);
}

}  // namespace quantd::wire
