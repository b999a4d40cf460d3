// A program that uses all parts of gRPC that quantd needs: service, health, TLS
// credentials and reflection. It starts a server and calls it. A static build
// also checks that no shared gRPC, protobuf or Abseil is linked.
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>

#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/health_check_service_interface.h"
#include "quantd.grpc.pb.h"

namespace {

class Info final : public quantd::v1::Quantd::Service {
  grpc::Status GetServerInfo(grpc::ServerContext*,
                             const quantd::v1::GetServerInfoRequest*,
                             quantd::v1::GetServerInfoReply* reply) override {
    reply->set_version("linked");
    return grpc::Status::OK;
  }
};

int Fail(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  return 1;
}

}  // namespace

int main() {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  if (grpc::SslCredentials({}) == nullptr) return Fail("no TLS");
  Info service;
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                           &port);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (!server) return Fail("no server");
  auto stub = quantd::v1::Quantd::NewStub(grpc::CreateChannel(
      "127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  quantd::v1::GetServerInfoReply reply;
  const grpc::Status status = stub->GetServerInfo(&context, {}, &reply);
  if (!status.ok()) return Fail(status.error_message());
  if (reply.version() != "linked") return Fail("wrong reply");
#ifdef QUANTD_STATIC
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    for (const char* name :
         {"libgrpc", "libprotobuf", "libabsl", "libssl", "libstdc++"}) {
      if (line.find(name) != std::string::npos) return Fail(line);
    }
  }
#endif
  return 0;
}
