#include "tests/client/fake_server.h"

#include <google/protobuf/any.pb.h>

#include <cstring>
#include <thread>
#include <utility>

#include "proto/messages.h"
#include "proto/wire.h"
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

const grpc::Status kNoPlan(grpc::StatusCode::INTERNAL, "the fake cannot plan");

template <typename Reply>
void FillRefs(const Plan& plan, Reply* reply) {
  for (const TensorSpec& spec : plan.outputs()) {
    *reply->add_tensors() = wire::ToProto(spec);
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

template <typename Request, typename Reply>
grpc::Status FakeServer::Answer(wire::Method method,
                                grpc::ServerContext* context,
                                const Request& request, Reply* reply,
                                Request* last, Scripted* script) {
  const grpc::Status status = Play(context, script);
  {
    std::lock_guard lock(mutex_);
    *last = request;
  }
  if (!status.ok()) return status;
  const std::string bytes = request.SerializeAsString();
  const std::string_view whole = bytes;
  const auto parsed = wire::ParseRequest(method, {&whole, 1});
  if (!parsed.ok()) return kNoPlan;
  Fill(*parsed->plan, request, reply);
  return grpc::Status::OK;
}

grpc::Status FakeServer::Quantize(grpc::ServerContext* context,
                                  const v1::QuantizeRequest* request,
                                  v1::QuantizeReply* reply) {
  if (std::lock_guard lock(mutex_); keep_requests_) {
    requests_.push_back(*request);
  }
  Scripted script;
  const grpc::Status status = Answer(wire::Method::kQuantize, context, *request,
                                     reply, &last_request_, &script);
  if (!status.ok()) return status;
  if (request->options().statistics()) {
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
  const std::string bytes = request->SerializeAsString();
  const std::string_view whole = bytes;
  const auto plan = wire::ParseDescribeRequest({&whole, 1});
  if (!plan.ok()) return kNoPlan;
  FillRefs(**plan, reply);
  reply->set_input_bytes((*plan)->input_bytes());
  reply->set_output_bytes((*plan)->output_bytes());
  reply->set_scratch_bytes((*plan)->scratch_bytes());
  return grpc::Status::OK;
}

grpc::Status FakeServer::Dequantize(grpc::ServerContext* context,
                                    const v1::DequantizeRequest* request,
                                    v1::DequantizeReply* reply) {
  Scripted script;
  return Answer(wire::Method::kDequantize, context, *request, reply,
                &last_dequantize_, &script);
}

grpc::Status FakeServer::RhtAmax(grpc::ServerContext* context,
                                 const v1::RhtAmaxRequest* request,
                                 v1::RhtAmaxReply* reply) {
  Scripted script;
  return Answer(wire::Method::kRhtAmax, context, *request, reply,
                &last_rht_amax_, &script);
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
