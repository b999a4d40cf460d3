#include "tests/client/fake_server.h"

#include <google/protobuf/any.pb.h>

#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "proto/messages.h"
#include "quantd/plan.h"

namespace quantd {
namespace {

// Appends a length-delimited field, for a hand-written google.rpc.Status {1:
// code, 2: message, 3: details}. All lengths here are below 16 KiB.
void AppendField(int number, const std::string& bytes, std::string* out) {
  *out += static_cast<char>(number << 3 | 2);
  *out += static_cast<char>((bytes.size() & 0x7F) | 0x80);
  *out += static_cast<char>(bytes.size() >> 7);
  *out += bytes;
}

std::string RichStatus(const Scripted& script) {
  google::protobuf::Any other;
  other.set_type_url("type.googleapis.com/google.rpc.RetryInfo");
  google::protobuf::Any any;
  any.set_type_url("type.googleapis.com/quantd.v1.ErrorDetail");
  any.set_value(script.detail->SerializeAsString());
  std::string out = {
      1 << 3, static_cast<char>(script.detail_code.value_or(script.code))};
  AppendField(2, script.message, &out);
  AppendField(3, other.SerializeAsString(), &out);
  AppendField(3, any.SerializeAsString(), &out);
  return out;
}

TensorDesc DescOf(const v1::Tensor& tensor) {
  return {wire::FromProto(tensor.dtype()),
          {tensor.shape().begin(), tensor.shape().end()},
          tensor.flatten_axis()};
}

std::optional<std::vector<int64_t>> SplitsOf(bool present,
                                             const v1::Splits& splits) {
  if (!present) return std::nullopt;
  return std::vector<int64_t>(splits.rows().begin(), splits.rows().end());
}

CopyForm FormOf(const v1::CopyForm& form) {
  return {static_cast<Layout>(form.scale_layout()), form.compact_scales(),
          form.row_scaled(), form.scale_256()};
}

template <typename Values>
std::vector<float> ValuesOf(bool has_one, float one, const Values& values) {
  if (has_one) return {one};
  return {values.begin(), values.end()};
}

template <typename Reply>
void FillRefs(const Plan& plan, Reply* reply) {
  for (const TensorSpec& spec : plan.outputs()) {
    v1::TensorRef* ref = reply->add_tensors();
    ref->set_kind(wire::ToProto(spec.kind));
    ref->set_dtype(wire::ToProto(spec.dtype));
    ref->set_layout(wire::ToProto(spec.layout));
    for (int64_t d : spec.shape) ref->add_shape(d);
    ref->set_offset(spec.offset);
    ref->set_size(spec.size);
    for (size_t o : spec.group_offsets) ref->add_group_offsets(o);
  }
  reply->set_request_id("fake-id");
}

template <typename Request, typename Reply>
void Fill(const Plan& plan, const Request& request, Reply* reply) {
  FillRefs(plan, reply);
  *reply->mutable_options() = request.options();
  std::string payload(plan.output_bytes(), '\0');
  for (size_t i = 0; i < payload.size(); ++i) {
    payload[i] = static_cast<char>(i % 251);
  }
  for (const TensorSpec& spec : plan.outputs()) {
    const float one = 1.0f;
    if (spec.dtype != DType::kF32 || spec.kind == TensorKind::kDequantized) {
      continue;
    }
    for (size_t i = 0; i < spec.size; i += sizeof one) {
      std::memcpy(payload.data() + spec.offset + i, &one, sizeof one);
    }
  }
  reply->set_payload(std::move(payload));
  reply->mutable_report()->set_device("fake:0");
}

}  // namespace

QuantizeOptions OptionsOf(const v1::QuantizeRequest& request) {
  const v1::QuantizeOptions& r = request.options();
  QuantizeOptions o;
  o.format = static_cast<Format>(r.format());
  o.usage = static_cast<Usage>(r.usage());
  o.rht.rowwise = r.rht().rowwise();
  o.rht.columnwise = r.rht().columnwise();
  if (r.rht().dimension() != 0) {
    o.rht.dimension = static_cast<int>(r.rht().dimension());
  }
  if (r.rht().has_sign_mask()) {
    o.rht.sign_mask =
        SignMaskFromBytes(r.rht().sign_mask(), o.rht.dimension).value();
  }
  o.non_finite = static_cast<NonFinite>(r.non_finite());
  const v1::GivenAmax& amax = r.given_amax();
  o.rowwise_amax =
      ValuesOf(amax.has_rowwise(), amax.rowwise(), amax.rowwise_values());
  o.columnwise_amax = ValuesOf(amax.has_columnwise(), amax.columnwise(),
                               amax.columnwise_values());
  o.form = FormOf(r.form());
  o.rounding = static_cast<Rounding>(r.rounding());
  o.stochastic = {r.stochastic().seed(), r.stochastic().seed_offset()};
  o.shard = {r.shard().row_offset(), r.shard().column_offset(),
             r.shard().total_columns()};
  o.nvfp4.four_over_six = static_cast<FourOverSix>(r.four_over_six());
  o.nvfp4.fast_error = r.fast_error();
  if (r.has_amax_estimation_scale()) {
    o.nvfp4.amax_estimation_scale = r.amax_estimation_scale();
  }
  o.fp8.epsilon = r.epsilon();
  if (r.has_power_of_two()) o.fp8.power_of_two = r.power_of_two();
  o.fp8.scale.assign(r.scale().begin(), r.scale().end());
  if (r.has_history()) {
    o.fp8.history =
        HistoryOptions{{r.history().amax().begin(), r.history().amax().end()},
                       static_cast<HistoryRule>(r.history().rule()),
                       r.history().margin()};
  }
  if (r.has_scale_rule()) {
    o.mx.scale_rule = static_cast<ScaleRule>(r.scale_rule());
  }
  o.splits = SplitsOf(r.has_splits(), r.splits());
  o.partial_splits = r.splits().partial();
  o.want_amax = r.amax();
  o.dbias = r.dbias();
  o.dbias_dtype = wire::FromProto(r.dbias_dtype());
  o.statistics = r.statistics();
  o.profile = static_cast<Profile>(r.profile());
  return o;
}

FakeServer::FakeServer() {
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                           &port_);
  builder.SetMaxReceiveMessageSize(-1);
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
}

FakeServer::~FakeServer() {
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
}

std::string FakeServer::target() const {
  return "127.0.0.1:" + std::to_string(port_);
}

void FakeServer::Script(std::vector<Scripted> scripts) {
  std::lock_guard lock(mutex_);
  scripts_.assign(scripts.begin(), scripts.end());
}

int FakeServer::calls() const {
  std::lock_guard lock(mutex_);
  return calls_;
}

v1::QuantizeRequest FakeServer::last_request() const {
  std::lock_guard lock(mutex_);
  return last_request_;
}

void FakeServer::KeepRequests() {
  std::lock_guard lock(mutex_);
  keep_requests_ = true;
}

std::vector<v1::QuantizeRequest> FakeServer::requests() const {
  std::lock_guard lock(mutex_);
  return requests_;
}

v1::DequantizeRequest FakeServer::last_dequantize() const {
  std::lock_guard lock(mutex_);
  return last_dequantize_;
}

v1::RhtAmaxRequest FakeServer::last_rht_amax() const {
  std::lock_guard lock(mutex_);
  return last_rht_amax_;
}

std::string FakeServer::last_metadata(const std::string& key) const {
  std::lock_guard lock(mutex_);
  const auto it = last_metadata_.find(key);
  return it == last_metadata_.end() ? "" : it->second;
}

std::vector<std::chrono::steady_clock::time_point> FakeServer::times() const {
  std::lock_guard lock(mutex_);
  return times_;
}

void FakeServer::WaitForHanging(int count) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return hanging_ >= count; });
}

grpc::Status FakeServer::Play(grpc::ServerContext* context, Scripted* script) {
  {
    std::lock_guard lock(mutex_);
    ++calls_;
    times_.push_back(std::chrono::steady_clock::now());
    last_metadata_.clear();
    for (const auto& [key, value] : context->client_metadata()) {
      last_metadata_[{key.data(), key.size()}] = {value.data(), value.size()};
    }
    if (!scripts_.empty()) {
      *script = scripts_.front();
      scripts_.pop_front();
    }
    if (script->hang) ++hanging_;
  }
  changed_.notify_all();
  while (script->hang && !context->IsCancelled()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  if (!script->pushback.empty()) {
    context->AddTrailingMetadata("grpc-retry-pushback-ms", script->pushback);
  }
  if (!script->request_id.empty()) {
    context->AddTrailingMetadata("quantd-request-id", script->request_id);
  }
  if (script->code == grpc::StatusCode::OK) return grpc::Status::OK;
  return {script->code, script->message,
          script->detail ? RichStatus(*script) : ""};
}

grpc::Status FakeServer::Quantize(grpc::ServerContext* context,
                                  const v1::QuantizeRequest* request,
                                  v1::QuantizeReply* reply) {
  Scripted script;
  const grpc::Status status = Play(context, &script);
  {
    std::lock_guard lock(mutex_);
    last_request_ = *request;
    if (keep_requests_) requests_.push_back(*request);
  }
  if (!status.ok()) return status;
  const auto plan =
      MakeQuantizePlan(DescOf(request->tensor()), OptionsOf(*request));
  if (!plan.ok()) return {grpc::StatusCode::INTERNAL, "the fake cannot plan"};
  Fill(*plan, *request, reply);
  if (std::get<QuantizeOptions>(plan->options()).statistics) {
    v1::ErrorStatistics* s = reply->mutable_report()->mutable_columnwise();
    s->set_elements(7);
    s->set_clipped(2);
    s->set_flushed(3);
    s->set_max_error(0.5f);
    s->set_signal(100);
    s->set_noise(1);
  }
  if (script.spoil) script.spoil(reply);
  return grpc::Status::OK;
}

grpc::Status FakeServer::DescribeQuantize(grpc::ServerContext* context,
                                          const v1::QuantizeRequest* request,
                                          v1::DescribeQuantizeReply* reply) {
  Scripted script;
  const grpc::Status status = Play(context, &script);
  {
    std::lock_guard lock(mutex_);
    last_request_ = *request;
  }
  if (!status.ok()) return status;
  const auto plan =
      MakeQuantizePlan(DescOf(request->tensor()), OptionsOf(*request));
  if (!plan.ok()) return {grpc::StatusCode::INTERNAL, "the fake cannot plan"};
  FillRefs(*plan, reply);
  reply->set_input_bytes(plan->input_bytes());
  reply->set_output_bytes(plan->output_bytes());
  reply->set_scratch_bytes(plan->scratch_bytes());
  if (script.spoil_description) script.spoil_description(reply);
  return grpc::Status::OK;
}

grpc::Status FakeServer::Dequantize(grpc::ServerContext* context,
                                    const v1::DequantizeRequest* request,
                                    v1::DequantizeReply* reply) {
  Scripted script;
  const grpc::Status status = Play(context, &script);
  {
    std::lock_guard lock(mutex_);
    last_dequantize_ = *request;
  }
  if (!status.ok()) return status;
  const v1::DequantizeOptions& asked = request->options();
  DequantizeOptions options;
  options.format = static_cast<Format>(asked.format());
  options.usage = static_cast<Usage>(asked.usage());
  options.output = wire::FromProto(asked.output());
  options.inverse_rht = asked.has_inverse_rht();
  if (asked.inverse_rht().dimension() != 0) {
    options.rht_dimension = static_cast<int>(asked.inverse_rht().dimension());
  }
  options.form = FormOf(asked.form());
  options.splits = SplitsOf(asked.has_splits(), asked.splits());
  options.partial_splits = asked.splits().partial();
  options.profile = static_cast<Profile>(asked.profile());
  const auto plan = MakeDequantizePlan(DescOf(request->tensor()), options);
  size_t size = 0;
  if (plan.ok()) {
    for (const TensorSpec& spec : plan->inputs()) size += spec.size;
  }
  if (!plan.ok() || request->payload().size() != size) {
    return {grpc::StatusCode::INTERNAL, "the fake cannot plan"};
  }
  Fill(*plan, *request, reply);
  return grpc::Status::OK;
}

grpc::Status FakeServer::RhtAmax(grpc::ServerContext* context,
                                 const v1::RhtAmaxRequest* request,
                                 v1::RhtAmaxReply* reply) {
  Scripted script;
  const grpc::Status status = Play(context, &script);
  {
    std::lock_guard lock(mutex_);
    last_rht_amax_ = *request;
  }
  if (!status.ok()) return status;
  const v1::RhtAmaxOptions& asked = request->options();
  RhtAmaxOptions options;
  options.rowwise = asked.rowwise();
  options.rowwise_rht = asked.rowwise_rht();
  options.columnwise = asked.columnwise();
  options.columnwise_rht = asked.columnwise_rht();
  if (asked.rht().dimension() != 0) {
    options.rht_dimension = static_cast<int>(asked.rht().dimension());
  }
  options.domain = static_cast<AmaxDomain>(asked.domain());
  options.splits = SplitsOf(asked.has_splits(), asked.splits());
  options.partial_splits = asked.splits().partial();
  const auto plan = MakeRhtAmaxPlan(DescOf(request->tensor()), options);
  if (!plan.ok()) return {grpc::StatusCode::INTERNAL, "the fake cannot plan"};
  Fill(*plan, *request, reply);
  return grpc::Status::OK;
}

grpc::Status FakeServer::GetServerInfo(grpc::ServerContext* context,
                                       const v1::GetServerInfoRequest*,
                                       v1::GetServerInfoReply* reply) {
  Scripted script;
  const grpc::Status status = Play(context, &script);
  if (!status.ok()) return status;
  reply->set_version("1.2.3");
  reply->mutable_limits()->set_max_request_bytes(77);
  reply->mutable_limits()->set_max_rank(8);
  v1::Device* device = reply->add_devices();
  device->set_name("fake:0");
  device->set_state(v1::Device::STATE_HEALTHY);
  v1::FormatSupport* format = reply->add_formats();
  format->set_format(v1::FORMAT_NVFP4);
  format->set_name("nvfp4");
  format->add_inputs(v1::DTYPE_BF16);
  format->add_usages(v1::USAGE_BOTH);
  format->add_rht_dimensions(16);
  format->add_options("stochastic");
  return grpc::Status::OK;
}

}  // namespace quantd
