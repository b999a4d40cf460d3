#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/unknown_field_set.h>

#include <string>
#include <string_view>

#include "quantd.pb.h"
#include "server/observe/server_info.h"

namespace quantd {
namespace {

using google::protobuf::UnknownField;
using google::protobuf::UnknownFieldSet;

constexpr std::string_view kServiceNames[] = {
    "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection", "quantd.v1.Quantd"};

// Serializes a message with one field.
std::string Field(int number, const std::string& bytes) {
  UnknownFieldSet fields;
  fields.AddLengthDelimited(number, bytes);
  std::string text;
  fields.SerializeToString(&text);
  return text;
}

std::string Error(const std::string& message) {
  // ErrorResponse {int32 error_code = 1; string error_message = 2}.
  return Field(7, "\x08\x05" + Field(2, message));
}

// Without imported files: ours import none.
std::string File(const google::protobuf::FileDescriptor* file,
                 const std::string& name) {
  if (file == nullptr) return Error("not known: " + name);
  google::protobuf::FileDescriptorProto proto;
  file->CopyTo(&proto);
  return Field(4, Field(1, proto.SerializeAsString()));
}

// Returns the serialized ServerReflectionResponse; empty if the request is
// malformed. Field numbers are those of reflection.proto. Request: 3
// file_by_filename, 4 file_containing_symbol, 7 list_services. Response: 2
// original_request, 4 file_descriptor_response, 6 list_services_response, 7
// error_response.
std::string Respond(absl::Span<const std::string_view> request) {
  std::string text;
  for (const std::string_view piece : request) text += piece;
  UnknownFieldSet fields;
  if (!fields.ParseFromString(text)) return "";
  // Links the service's messages in, so that the pool has them.
  const auto& pool = *v1::QuantizeRequest::descriptor()->file()->pool();
  std::string answer = Error("no message has extensions");
  for (int i = 0; i < fields.field_count(); ++i) {
    const UnknownField& field = fields.field(i);
    if (field.type() != UnknownField::TYPE_LENGTH_DELIMITED) continue;
    const std::string& asked = field.length_delimited();
    if (field.number() == 3) {
      answer = File(pool.FindFileByName(asked), asked);
    } else if (field.number() == 4) {
      answer = File(pool.FindFileContainingSymbol(asked), asked);
    } else if (field.number() == 7) {
      std::string services;
      for (const std::string_view service : kServiceNames) {
        services += Field(1, Field(1, std::string(service)));
      }
      answer = Field(6, services);
    }
  }
  return Field(2, text) + answer;
}

}  // namespace

bool IsReflection(std::string_view path) {
  return path == "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo" ||
         path ==
             "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";
}

SmallMethod Reflection() {
  SmallMethod method;
  method.after = SmallMethod::kNextRequest;
  method.answer = [](absl::Span<const std::string_view> message,
                     std::string_view) {
    SmallAnswer answer;
    answer.reply = Respond(message);
    if (answer.reply.empty()) {
      answer.failure = Failure::Of(grpc::StatusCode::INVALID_ARGUMENT,
                                   "not a ServerReflectionRequest");
    }
    return answer;
  };
  return method;
}

}  // namespace quantd
