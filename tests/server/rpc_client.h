// A client that sends raw bytes as messages, valid or not, and can stop at any
// point.
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
  // The detail in grpc-status-details-bin, if present and well formed.
  std::optional<v1::ErrorDetail> detail;
  std::string request_id;
  std::string pushback;  // the trailer grpc-retry-pushback-ms
};

struct RpcOptions {
  std::string method = "Quantize";
  // The metadata quantd-request-bytes, if any.
  std::optional<std::string> declared;
  absl::Duration deadline = absl::Minutes(2);
  std::string authorization;  // the metadata of that name; empty: none
  // Further metadata, as pairs of key and value.
  std::vector<std::pair<std::string, std::string>> metadata = {};
};

// Connects, in plain text unless `credentials` are given.
std::shared_ptr<grpc::Channel> Dial(
    const std::string& address,
    const std::shared_ptr<grpc::ChannelCredentials>& credentials =
        grpc::InsecureChannelCredentials());

// A call in steps. Each step must return before the next one begins.
class RpcCall {
 public:
  // Sends the headers.
  RpcCall(const std::shared_ptr<grpc::Channel>& channel,
          const RpcOptions& options);
  // Calls any method, given as "/package.Service/Method".
  RpcCall(const std::shared_ptr<grpc::Channel>& channel,
          const std::string& path, const RpcOptions& options);
  ~RpcCall();

  bool Send(const std::string& message);
  bool Send(const grpc::Slice& message);
  bool HalfClose();
  // Returns the next message, or nullopt after the last one.
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

// Makes a unary call.
RpcResult Call(const std::shared_ptr<grpc::Channel>& channel,
               const std::string& request, const RpcOptions& options = {});

// Returns a legal Quantize request with rows x 1024 ones in bf16.
v1::QuantizeRequest QuantizeOnes(int64_t rows);

// Returns whether the condition becomes true within a minute.
bool Eventually(const std::function<bool()>& condition);

}  // namespace quantd

#endif  // QUANTD_TESTS_SERVER_RPC_CLIENT_H_
