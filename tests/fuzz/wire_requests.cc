// Random requests with every field, mostly with values that are legal together.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "google/protobuf/descriptor.h"
#include "kernels/plan/support.h"
#include "proto/messages.h"
#include "quantd/plan.h"
#include "tests/fuzz/wire_check.h"
#include "tests/fuzz/wire_messages.h"

namespace quantd::wire {
namespace {

v1::DType AnyFloat(Random& random) {
  return static_cast<v1::DType>(1 + random.Below(3));
}

// Returns a number of the enum, and sometimes an invalid one.
template <typename Enum>
Enum AnyEnum(int count, Random& random) {
  return static_cast<Enum>(random.OneIn(40) ? static_cast<int>(Awkward(random))
                                            : random.Below(count));
}

float AnyFloatValue(Random& random) {
  constexpr float kValues[] = {0, 1, 0.5f, 448, 1e-40f, 3e38f};
  constexpr float kBad[] = {-1, -0.0f, INFINITY, NAN};
  return random.OneIn(30) ? kBad[random.Below(4)] : kValues[random.Below(6)];
}

// Fills a tensor with few elements, so that payloads stay small.
void FillTensor(v1::Tensor* tensor, Random& random) {
  tensor->set_dtype(random.OneIn(30) ? AnyEnum<v1::DType>(8, random)
                                     : AnyFloat(random));
  const int rank = static_cast<int>(1 + random.Below(3));
  for (int i = 0; i + 1 < rank; ++i) tensor->add_shape(random.Below(4));
  tensor->add_shape(random.OneIn(6) ? random.Below(40) : 32 * random.Below(3));
  if (random.OneIn(30)) tensor->add_shape(Awkward(random));
  if (random.OneIn(4)) {
    tensor->set_flatten_axis(static_cast<int>(random.Below(7)) - 3);
  }
}

// Moves the payload, and some outputs, to ranges of shared memory.
template <typename Message>
void MayLend(const std::vector<uint64_t>& inputs, Message* m, Random& random) {
  if (!random.OneIn(12)) return;
  const auto fill = [&](v1::MemoryRange* range, uint64_t size) {
    range->set_region(
        RandomBytes(random.OneIn(30) ? random.Below(20) : 16, random));
    range->set_offset(random.OneIn(30) ? Awkward(random)
                                       : 64 * random.Below(9));
    range->set_size(random.OneIn(30) ? Awkward(random) : size);
  };
  v1::LentMemory& memory = *m->mutable_memory();
  if (!random.OneIn(5)) {
    for (const uint64_t size : inputs) fill(memory.add_inputs(), size);
    if (!random.OneIn(20)) m->clear_payload();
  }
  for (uint64_t i = random.OneIn(3) ? random.Below(3) : 0; i > 0; --i) {
    v1::LentOutput* const output = memory.add_outputs();
    output->set_kind(AnyEnum<v1::TensorKind>(16, random));
    fill(output->mutable_range(), 4 * random.Below(3));
  }
  if (random.OneIn(4)) memory.set_wait_event(RandomBytes(16, random));
  if (random.OneIn(4)) {
    memory.set_record_event(RandomBytes(random.Below(20), random));
  }
}

void FillRht(v1::Rht* rht, Random& random) {
  rht->set_rowwise(random.OneIn(2));
  rht->set_columnwise(random.OneIn(2));
  size_t dimension = 16;
  if (random.OneIn(2)) {
    dimension = size_t{16} << random.Below(random.OneIn(4) ? 4 : 2);
    rht->set_dimension(static_cast<uint32_t>(dimension));
  }
  if (random.OneIn(30)) {
    rht->set_dimension(static_cast<uint32_t>(Awkward(random)));
  }
  if (random.OneIn(2)) {
    rht->set_sign_mask(RandomBytes(
        random.OneIn(20) ? random.Below(20) : dimension / 8, random));
  }
}

TensorDesc Desc(const v1::Tensor& message) {
  TensorDesc tensor;
  tensor.dtype = static_cast<DType>(message.dtype());
  tensor.shape.assign(message.shape().begin(), message.shape().end());
  if (message.has_flatten_axis()) tensor.flatten_axis = message.flatten_axis();
  return tensor;
}

// Returns a plan for the amax, which is legal for every tensor.
absl::StatusOr<Plan> PlanOf(const v1::Tensor& tensor) {
  RhtAmaxOptions options;
  options.rowwise = true;
  return MakeRhtAmaxPlan(Desc(tensor), options);
}

// Returns the size of a tensor's payload, or a random one if it is large.
size_t TensorBytes(const v1::Tensor& tensor, Random& random) {
  const auto plan = PlanOf(tensor);
  if (!plan.ok() || plan->input_bytes() > 4096 || random.OneIn(20)) {
    return random.Below(100);
  }
  return plan->input_bytes();
}

// Fills splits that mostly sum to the rows.
void FillSplits(const v1::Tensor& tensor, v1::Splits* splits, Random& random) {
  const auto plan = PlanOf(tensor);
  uint64_t left = plan.ok() ? std::min<int64_t>(plan->rows(), 100) : 3;
  for (uint64_t i = random.Below(4); i > 0; --i) {
    const uint64_t n = random.Below(left + 1);
    splits->add_rows(n);
    left -= n;
  }
  if (random.OneIn(8)) splits->set_partial(true);
  if (!splits->partial() || random.OneIn(2)) splits->add_rows(left);
  if (random.OneIn(30)) splits->add_rows(Awkward(random));
  if (random.OneIn(30)) splits->clear_rows();
}

void FillForm(v1::Format format, v1::CopyForm* form, Random& random) {
  if (random.OneIn(3)) form->set_scale_layout(AnyEnum<v1::Layout>(3, random));
  if (format == v1::FORMAT_NVFP4_2D || random.OneIn(20)) {
    form->set_compact_scales(random.OneIn(2));
  }
  if (format == v1::FORMAT_NVFP4 || random.OneIn(20)) {
    form->set_row_scaled(random.OneIn(3));
  }
  if (random.OneIn(12)) form->set_scale_256(true);
}

// Adds as many values as a request may need: one, one per group, or some other
// number.
template <typename Field>
void FillFloats(int groups, Field* field, Random& random) {
  const int n = random.OneIn(8) ? static_cast<int>(random.Below(9)) : groups;
  for (int i = 0; i < n; ++i) field->Add(AnyFloatValue(random));
}

void FillAmax(int groups, v1::GivenAmax* amax, Random& random) {
  if (groups == 1 && random.OneIn(2)) {
    amax->set_rowwise(AnyFloatValue(random));
    if (random.OneIn(2)) amax->set_columnwise(AnyFloatValue(random));
  } else {
    FillFloats(groups, amax->mutable_rowwise_values(), random);
  }
  if (random.OneIn(8)) {
    FillFloats(groups, amax->mutable_columnwise_values(), random);
  }
}

std::string Serialized(const google::protobuf::MessageLite& m) {
  return m.SerializeAsString();
}

// Fills a field that has one value.
void FillValue(const google::protobuf::FieldDescriptor* field,
               v1::QuantizeOptions* m, Random& random) {
  using google::protobuf::FieldDescriptor;
  const auto& values = *m->GetReflection();
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_BOOL) {
    values.SetBool(m, field, random.OneIn(2));
  } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_FLOAT) {
    values.SetFloat(m, field, AnyFloatValue(random));
  } else if (field->enum_type() != nullptr) {
    values.SetEnumValue(
        m, field, AnyEnum<int>(field->enum_type()->value_count(), random));
  }
}

// Fills options that only some formats have, rarely with a wrong format.
void FillOptions(v1::QuantizeOptions* m, Random& random) {
  const FormatSpec* spec = FindFormat(static_cast<Format>(m->format()));
  const auto wanted = [&](Option option) {
    const bool legal = spec != nullptr && (spec->options & option) != 0;
    return random.OneIn(legal ? 4 : 100);
  };
  const int groups = m->has_splits() ? m->splits().rows_size() : 1;
  if (wanted(kOptRht)) FillRht(m->mutable_rht(), random);
  if (wanted(kOptGivenAmax)) FillAmax(groups, m->mutable_given_amax(), random);
  if (random.OneIn(4)) FillForm(m->format(), m->mutable_form(), random);
  // Options whose field has one value; the fields of others have their lines.
  for (const OptionSpec& option : Options()) {
    const auto* field =
        m->GetDescriptor()->FindFieldByName(std::string(option.field));
    if (field == nullptr || field->is_repeated()) continue;
    if (wanted(option.option) && random.OneIn(2)) FillValue(field, m, random);
  }
  m->set_fast_error(random.OneIn(m->four_over_six() != 0 ? 3 : 100));
  const bool rounds = m->rounding() == v1::ROUNDING_STOCHASTIC;
  if (random.OneIn(rounds ? 2 : 100)) {
    m->mutable_stochastic()->set_seed(random.Next());
    m->mutable_stochastic()->set_seed_offset(Awkward(random));
  }
  if (random.OneIn(rounds ? 2 : 100)) {
    m->mutable_shard()->set_row_offset(128 * random.Below(8) + random.OneIn(4));
    m->mutable_shard()->set_column_offset(
        static_cast<int64_t>(random.OneIn(4) ? Awkward(random) : 16));
    if (random.OneIn(4)) m->mutable_shard()->set_total_columns(1000);
  }
  if (wanted(kOptGivenScale)) {
    FillFloats(groups, m->mutable_scale(), random);
    if (wanted(kOptHistory)) {
      FillFloats(groups * (1 + static_cast<int>(random.Below(4))),
                 m->mutable_history()->mutable_amax(), random);
      m->mutable_history()->set_rule(AnyEnum<v1::HistoryRule>(2, random));
      m->mutable_history()->set_margin(static_cast<int>(random.Below(300)) -
                                       150);
    }
  }
}

std::string QuantizeBytes(Random& random) {
  v1::QuantizeRequest m;
  FillTensor(m.mutable_tensor(), random);
  v1::QuantizeOptions& o = *m.mutable_options();
  o.set_format(AnyEnum<v1::Format>(12, random));
  o.set_usage(AnyEnum<v1::Usage>(5, random));
  o.set_non_finite(AnyEnum<v1::NonFinite>(3, random));
  if (random.OneIn(3)) FillSplits(m.tensor(), o.mutable_splits(), random);
  FillOptions(&o, random);
  o.set_amax(random.OneIn(3));
  if (random.OneIn(o.dbias() ? 4 : 100))
    o.set_dbias_dtype(AnyEnum<v1::DType>(8, random));
  m.set_payload(RandomBytes(TensorBytes(m.tensor(), random), random));
  MayLend({m.payload().size()}, &m, random);
  return Serialized(m);
}

// Adds refs for the plan's inputs, at random offsets in a payload of `bytes`.
void FillRefs(const Plan& plan, size_t bytes, v1::DequantizeRequest* m,
              Random& random) {
  for (const TensorSpec& input : plan.inputs()) {
    if (random.OneIn(12)) continue;
    v1::TensorRef* ref = m->add_tensors();
    ref->set_kind(ToProto(input.kind));
    if (random.OneIn(2)) ref->set_dtype(ToProto(input.dtype));
    if (random.OneIn(2)) ref->set_layout(ToProto(input.layout));
    if (random.OneIn(20)) ref->set_layout(AnyEnum<v1::Layout>(3, random));
    if (random.OneIn(40)) ref->set_dtype(AnyEnum<v1::DType>(8, random));
    for (int64_t d : input.shape) ref->add_shape(d);
    ref->set_offset(random.Below(bytes - input.size + 1));
    ref->set_size(input.size);
    if (random.OneIn(2)) {
      for (size_t offset : input.group_offsets) ref->add_group_offsets(offset);
    }
    if (random.OneIn(20)) ref->add_group_offsets(Awkward(random));
    if (random.OneIn(20)) ref->set_offset(Awkward(random));
    if (random.OneIn(20)) ref->set_size(Awkward(random));
    if (random.OneIn(40)) *m->add_tensors() = v1::TensorRef(*ref);
  }
  std::reverse(m->mutable_tensors()->begin(), m->mutable_tensors()->end());
}

std::string DequantizeBytes(Random& random) {
  v1::DequantizeRequest m;
  FillTensor(m.mutable_tensor(), random);
  v1::DequantizeOptions& o = *m.mutable_options();
  o.set_format(AnyEnum<v1::Format>(12, random));
  o.set_usage(static_cast<v1::Usage>(random.Below(3)));
  o.set_output(AnyFloat(random));
  if (random.OneIn(4)) FillRht(o.mutable_inverse_rht(), random);
  if (random.OneIn(o.has_inverse_rht() ? 200 : 20)) {
    o.set_rotated_dimension(static_cast<uint32_t>(16) << random.Below(4));
  }
  if (random.OneIn(4)) FillForm(o.format(), o.mutable_form(), random);
  if (random.OneIn(4)) FillSplits(m.tensor(), o.mutable_splits(), random);
  if (random.OneIn(5)) m.set_amax(AnyFloatValue(random));
  DequantizeOptions options;
  options.format = static_cast<Format>(o.format());
  options.output = DType::kF32;
  if (o.usage() != v1::USAGE_UNSPECIFIED) {
    options.usage = static_cast<Usage>(o.usage());
  }
  options.inverse_rht = o.has_inverse_rht();
  options.rotated_dimension = static_cast<int>(o.rotated_dimension());
  if (o.inverse_rht().dimension() != 0) {
    options.rht_dimension = static_cast<int>(o.inverse_rht().dimension());
  }
  if (o.form().scale_layout() == v1::LAYOUT_SWIZZLED) {
    options.form.scale_layout = Layout::kSwizzled;
  }
  options.form.compact_scales = o.form().compact_scales();
  options.form.row_scaled = o.form().row_scaled();
  if (o.has_splits()) {
    options.splits = {o.splits().rows().begin(), o.splits().rows().end()};
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
    FillRefs(*plan, bytes, &m, random);
  } else if (m.has_amax() && random.OneIn(2) && bytes >= sizeof(float)) {
    bytes -= sizeof(float);
  }
  m.set_payload(RandomBytes(bytes, random));
  std::vector<uint64_t> inputs;
  for (const TensorSpec& input : plan->inputs()) inputs.push_back(input.size);
  if (m.has_amax() && inputs.size() > 2) inputs.pop_back();
  MayLend(inputs, &m, random);
  if (m.memory().inputs_size() > 0 && !random.OneIn(9)) m.clear_tensors();
  return Serialized(m);
}

std::string RhtAmaxBytes(Random& random) {
  v1::RhtAmaxRequest m;
  FillTensor(m.mutable_tensor(), random);
  v1::RhtAmaxOptions& o = *m.mutable_options();
  o.set_rowwise(random.OneIn(2));
  o.set_rowwise_rht(random.OneIn(2));
  o.set_columnwise(random.OneIn(2));
  o.set_columnwise_rht(random.OneIn(2));
  if (random.OneIn(o.rowwise_rht() || o.columnwise_rht() ? 2 : 50)) {
    FillRht(o.mutable_rht(), random);
  }
  o.set_non_finite(AnyEnum<v1::NonFinite>(3, random));
  o.set_domain(AnyEnum<v1::AmaxDomain>(2, random));
  if (random.OneIn(3)) FillSplits(m.tensor(), o.mutable_splits(), random);
  m.set_payload(RandomBytes(TensorBytes(m.tensor(), random), random));
  MayLend({m.payload().size()}, &m, random);
  return Serialized(m);
}

std::string ApplyRhtBytes(Random& random) {
  v1::ApplyRhtRequest m;
  FillTensor(m.mutable_tensor(), random);
  v1::ApplyRhtOptions& o = *m.mutable_options();
  o.set_inverse(random.OneIn(2));
  o.set_output(AnyEnum<v1::DType>(4, random));
  if (random.OneIn(2)) FillRht(o.mutable_rht(), random);
  m.set_payload(RandomBytes(TensorBytes(m.tensor(), random), random));
  MayLend({m.payload().size()}, &m, random);
  return Serialized(m);
}

std::string ReplyBytes(Random& random) {
  v1::QuantizeReply m;
  FillTensor(m.mutable_tensor(), random);
  for (uint64_t i = random.Below(4); i > 0; --i) {
    v1::TensorRef* ref = m.add_tensors();
    ref->set_kind(AnyEnum<v1::TensorKind>(16, random));
    ref->set_offset(Awkward(random));
    ref->add_shape(random.Below(9));
    if (random.OneIn(3)) ref->add_group_offsets(Awkward(random));
  }
  m.mutable_report()->set_device("cpu:0");
  if (random.OneIn(3)) {
    m.mutable_report()->mutable_rowwise()->set_sqnr_db(INFINITY);
  }
  if (random.OneIn(3)) {
    FillForm(v1::FORMAT_NVFP4_2D, m.mutable_options()->mutable_form(), random);
  }
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
    case kStreamType:
      return StreamMessage(random);
    default:
      return ReplyBytes(random);
  }
}

}  // namespace quantd::wire
