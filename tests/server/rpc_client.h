// A client for tests on raw bytes: it can send what no well-behaved client
// sends, and stop anywhere.
#ifndef QUANTD_TESTS_SERVER_RPC_CLIENT_H_
#define QUANTD_TESTS_SERVER_RPC_CLIENT_H_

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "quantd.pb.h"

namespace quantd {

struct RpcResult {
  grpc::Status status;
  std::string reply;
  // From grpc-status-details-bin, if present and well formed.
  std::optional<v1::ErrorDetail> detail;
  std::string request_id;
  std::string pushback;  // the trailer grpc-retry-pushback-ms
};

struct RpcOptions {
  std::string method = "Quantize";
  // The metadata quantd-request-bytes; nullopt: none.
  std::optional<std::string> declared;
  absl::Duration deadline = absl::Minutes(2);
  std::string authorization;  // the metadata; empty: none
  // Further metadata, key and value.
  std::vector<std::pair<std::string, std::string>> metadata = {};
};

// In plain text unless `credentials` are given.
std::shared_ptr<grpc::Channel> Dial(
    const std::string& address,
    const std::shared_ptr<grpc::ChannelCredentials>& credentials =
        grpc::InsecureChannelCredentials());

// One call in steps. Each step must be finished before the next.
class RpcCall {
 public:
  // Sends the headers.
  RpcCall(const std::shared_ptr<grpc::Channel>& channel,
          const RpcOptions& options);
  // For any service: "/package.Service/Method".
  RpcCall(const std::shared_ptr<grpc::Channel>& channel,
          const std::string& path, const RpcOptions& options);
  ~RpcCall();

  bool Send(const std::string& message);
  bool Send(const grpc::Slice& message);
  bool HalfClose();
  // The next message; nullopt after the last.
  std::optional<std::string> Receive();
  void Cancel() { context_.TryCancel(); }
  // Waits for the status.
  RpcResult Finish();

 private:
  bool Step();

  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
};

// A whole unary call.
RpcResult Call(const std::shared_ptr<grpc::Channel>& channel,
               const std::string& request, const RpcOptions& options = {});

// A legal Quantize request of rows x 1024 bf16 ones.
v1::QuantizeRequest QuantizeOnes(int64_t rows);

// Whether the condition becomes true within a minute.
bool Eventually(const std::function<bool()>& condition);

}  // namespace quantd

#endif  // QUANTD_TESTS_SERVER_RPC_CLIENT_H_
