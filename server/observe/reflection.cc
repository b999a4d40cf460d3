#include "server/observe/reflection.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/unknown_field_set.h>

#include <atomic>
#include <set>
#include <utility>

#include "proto/net/received_message.h"
#include "quantd.pb.h"
#include "server/config/sizing.h"
#include "server/gate/gate.h"

namespace quantd {
namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::FileDescriptor;
using google::protobuf::UnknownField;
using google::protobuf::UnknownFieldSet;

constexpr size_t kLongestRequest = 4096;
constexpr int kMaxStreams = 64;

// Fields of ServerReflectionRequest.
enum Ask {
  kFileByName = 3,
  kFileOfSymbol = 4,
  kFileOfExtension = 5,
  kExtensionsOfType = 6,
  kListServices = 7,
};
// Fields of ServerReflectionResponse.
enum Answer {
  kOriginal = 2,
  kFiles = 4,
  kExtensions = 5,
  kServices = 6,
  kError = 7,
};

constexpr std::string_view kServiceNames[] = {
    "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection", "quantd.v1.Quantd"};

std::string Serialize(const UnknownFieldSet& fields) {
  std::string text;
  fields.SerializeToString(&text);
  return text;
}

std::string MakeError(grpc::StatusCode code, const std::string& message) {
  UnknownFieldSet error;
  error.AddVarint(1, static_cast<uint64_t>(code));
  error.AddLengthDelimited(2, message);
  return Serialize(error);
}

// The file and all that it imports.
void AddFile(const FileDescriptor* file, std::set<const FileDescriptor*>* seen,
             UnknownFieldSet* files) {
  if (!seen->insert(file).second) return;
  google::protobuf::FileDescriptorProto proto;
  file->CopyTo(&proto);
  files->AddLengthDelimited(1, proto.SerializeAsString());
  for (int i = 0; i < file->dependency_count(); ++i) {
    AddFile(file->dependency(i), seen, files);
  }
}

class ReflectionHandler final : public CallHandler {
 public:
  ReflectionHandler(CallEnvironment* env, IncomingCall* call)
      : env_(env), call_(call), since_(absl::ToUnixNanos(env->now())) {
    open_.fetch_add(1);
  }
  ~ReflectionHandler() override { open_.fetch_sub(1); }

  void Begin() override {
    if (open_ > kMaxStreams) {
      return Finish(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED,
                                 "too many streams of reflection are open"));
    }
    Read();
  }

  void OnRead(bool ok) override {
    if (!ok) return Finish(grpc::Status::OK);  // the client has no more to ask
    lease_.HoldReceiving(ReceiveNeed(message_.size()));
    const std::string answer = message_.size() <= kLongestRequest
                                   ? AnswerReflection(message_.Pieces())
                                   : "";
    message_.Clear();
    if (answer.empty()) {
      return Finish(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT,
                                 "not a ServerReflectionRequest"));
    }
    since_ = absl::ToUnixNanos(env_->now());
    lease_.HoldReceiving(ReceiveNeed(answer.size()));
    const grpc::Slice slice(answer);
    call_->Write(grpc::ByteBuffer(&slice, 1));
  }

  void OnWritten(bool ok) override {
    lease_.Reset();
    if (ok && !ended_) Read();
  }

  void OnWatch(absl::Time now) override {
    // No stream is open for long without a question.
    const absl::Time since = absl::FromUnixNanos(since_);
    if (ended_ || now - since <= env_->max_receive) return;
    ended_ = true;
    call_->Cancel();
  }

 private:
  void Read() {
    lease_ = env_->gate->Track(ReceiveNeed(0), call_->connection()->host());
    since_ = absl::ToUnixNanos(env_->now());
    call_->Read(message_.buffer());
  }
  void Finish(const grpc::Status& status) {
    ended_ = true;
    if (call_->ClaimAnswer()) call_->Finish(status);
  }

  static inline std::atomic<int> open_ = 0;

  CallEnvironment* const env_;
  IncomingCall* const call_;
  std::atomic<bool> ended_{false};
  std::atomic<int64_t> since_;
  Lease lease_;
  ReceivedMessage message_;
};

}  // namespace

bool IsReflection(std::string_view path) {
  return path == "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo" ||
         path ==
             "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";
}

std::unique_ptr<CallHandler> MakeReflectionHandler(CallEnvironment* env,
                                                   IncomingCall* call) {
  return std::make_unique<ReflectionHandler>(env, call);
}

std::string AnswerReflection(absl::Span<const std::string_view> request) {
  std::string text;
  for (const std::string_view piece : request) text += piece;
  UnknownFieldSet fields;
  if (!fields.ParseFromString(text)) return "";
  UnknownFieldSet answer;
  answer.AddLengthDelimited(kOriginal, text);
  const UnknownField* ask = nullptr;
  for (int i = 0; i < fields.field_count(); ++i) {
    const UnknownField& field = fields.field(i);
    if (field.number() >= kFileByName && field.number() <= kListServices &&
        field.type() == UnknownField::TYPE_LENGTH_DELIMITED) {
      ask = &field;
    }
  }
  const auto not_found = [&](const std::string& name) {
    answer.AddLengthDelimited(
        kError, MakeError(grpc::StatusCode::NOT_FOUND, "not known: " + name));
  };
  // The messages of the service; linked in, so that the pool has them.
  const FileDescriptor* const own = v1::QuantizeRequest::descriptor()->file();
  const DescriptorPool& pool = *own->pool();
  const std::string name = ask == nullptr ? "" : ask->length_delimited();
  switch (ask == nullptr ? 0 : ask->number()) {
    case kFileByName:
    case kFileOfSymbol: {
      const FileDescriptor* const file =
          ask->number() == kFileByName ? pool.FindFileByName(name)
                                       : pool.FindFileContainingSymbol(name);
      if (file == nullptr) {
        not_found(name);
        break;
      }
      UnknownFieldSet files;
      std::set<const FileDescriptor*> seen;
      AddFile(file, &seen, &files);
      answer.AddLengthDelimited(kFiles, Serialize(files));
      break;
    }
    case kExtensionsOfType: {
      // None of ours has any.
      if (pool.FindMessageTypeByName(name) == nullptr) {
        not_found(name);
        break;
      }
      UnknownFieldSet extensions;
      extensions.AddLengthDelimited(1, name);
      answer.AddLengthDelimited(kExtensions, Serialize(extensions));
      break;
    }
    case kListServices: {
      UnknownFieldSet services;
      for (const std::string_view service : kServiceNames) {
        UnknownFieldSet one;
        one.AddLengthDelimited(1, std::string(service));
        services.AddLengthDelimited(1, Serialize(one));
      }
      answer.AddLengthDelimited(kServices, Serialize(services));
      break;
    }
    case kFileOfExtension:
      not_found("an extension");
      break;
    default:
      answer.AddLengthDelimited(kError,
                                MakeError(grpc::StatusCode::INVALID_ARGUMENT,
                                          "the request asks for nothing"));
  }
  return Serialize(answer);
}

}  // namespace quantd
