// A server in this process that follows a script.
#ifndef QUANTD_TESTS_CLIENT_FAKE_SERVER_H_
#define QUANTD_TESTS_CLIENT_FAKE_SERVER_H_

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "proto/wire.h"
#include "quantd.grpc.pb.h"
#include "quantd.pb.h"
#include "quantd/plan.h"

namespace quantd {

// The script of one call.
struct Scripted {
  grpc::StatusCode code = grpc::StatusCode::OK;
  std::string message;
  std::optional<v1::ErrorDetail> detail;
  // The code inside google.rpc.Status, if it differs from the code of the call.
  std::optional<grpc::StatusCode> detail_code;
  std::string pushback;    // trailer grpc-retry-pushback-ms, empty: none
  std::string request_id;  // trailer
  bool hang = false;       // until the client disconnects
  // Changes a good reply before it is sent.
  std::function<void(v1::QuantizeReply*)> spoil;
};

// Listens on a free loopback port. Every call takes the next script; without
// one it succeeds. Successful replies have the parts that the plan demands.
// Byte i of the payload is i % 251, but fp32 parts are all 1, except for
// decoded values.
class FakeServer final : public v1::Quantd::Service {
 public:
  FakeServer();
  ~FakeServer() override;

  std::string target() const;
  void Script(std::vector<Scripted> scripts);

  int calls() const;
  // Returns the last request of Quantize or DescribeQuantize.
  v1::QuantizeRequest last_request() const;
  // Starts to record requests; requests() returns those received since then.
  void KeepRequests();
  std::vector<v1::QuantizeRequest> requests() const;
  v1::DequantizeRequest last_dequantize() const;
  v1::RhtAmaxRequest last_rht_amax() const;
  // Returns metadata of the last call, or "" if it lacks that key.
  std::string last_metadata(const std::string& key) const;
  // Returns the arrival times of all calls.
  std::vector<std::chrono::steady_clock::time_point> times() const;
  // Waits until at least `count` calls hang.
  void WaitForHanging(int count);

  grpc::Status Quantize(grpc::ServerContext* context,
                        const v1::QuantizeRequest* request,
                        v1::QuantizeReply* reply) override;
  grpc::Status DescribeQuantize(grpc::ServerContext* context,
                                const v1::QuantizeRequest* request,
                                v1::DescribeQuantizeReply* reply) override;
  grpc::Status Dequantize(grpc::ServerContext* context,
                          const v1::DequantizeRequest* request,
                          v1::DequantizeReply* reply) override;
  grpc::Status RhtAmax(grpc::ServerContext* context,
                       const v1::RhtAmaxRequest* request,
                       v1::RhtAmaxReply* reply) override;
  grpc::Status GetServerInfo(grpc::ServerContext* context,
                             const v1::GetServerInfoRequest* request,
                             v1::GetServerInfoReply* reply) override;

 private:
  // Plays the next script and returns it in `script`, except for `spoil`, which
  // the caller applies.
  grpc::Status Play(grpc::ServerContext* context, Scripted* script);
  // Does so, and keeps the request in `last`. If the call succeeds, fills the
  // reply as its plan demands.
  template <typename Request, typename Reply>
  grpc::Status Answer(wire::Method method, grpc::ServerContext* context,
                      const Request& request, Reply* reply, Request* last,
                      Scripted* script);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Scripted> scripts_;
  int calls_ = 0;
  int hanging_ = 0;
  v1::QuantizeRequest last_request_;
  bool keep_requests_ = false;
  std::vector<v1::QuantizeRequest> requests_;
  v1::DequantizeRequest last_dequantize_;
  v1::RhtAmaxRequest last_rht_amax_;
  std::map<std::string, std::string> last_metadata_;
  std::vector<std::chrono::steady_clock::time_point> times_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace quantd

#endif  // QUANTD_TESTS_CLIENT_FAKE_SERVER_H_
