// Requests for tests of the SDK, and scripted failures of their server.
#ifndef QUANTD_TESTS_CLIENT_CALLS_H_
#define QUANTD_TESTS_CLIENT_CALLS_H_

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "quantd/client.h"
#include "tests/client/fake_server.h"
#include "tests/testing/matchers.h"

namespace quantd {

inline std::unique_ptr<Client> Connect(const std::string& target,
                                       ClientOptions options = {}) {
  auto client = Client::Create(target, options);
  EXPECT_THAT(client, IsOk());
  return *std::move(client);
}

inline QuantizeOptions Nvfp4(Usage usage = Usage::kRowwise) {
  QuantizeOptions options;
  options.format = Format::kNvfp4;
  options.usage = usage;
  return options;
}

struct Input {
  explicit Input(std::vector<int64_t> shape) : desc{DType::kBF16, shape} {
    size_t bytes = 2;
    for (int64_t d : shape) bytes *= static_cast<size_t>(d);
    data.assign(bytes, std::byte{1});
  }
  TensorDesc desc;
  std::vector<std::byte> data;
};

inline Scripted Failure(grpc::StatusCode code, std::string message = "no") {
  Scripted s;
  s.code = code;
  s.message = std::move(message);
  return s;
}

inline Scripted Busy(uint32_t delay_ms, std::string pushback = "") {
  Scripted s = Failure(grpc::StatusCode::RESOURCE_EXHAUSTED, "busy");
  s.detail.emplace();
  s.detail->set_reason(v1::ErrorDetail::REASON_BUSY);
  s.detail->set_retry_delay_ms(delay_ms);
  s.pushback = std::move(pushback);
  return s;
}

// Upper limit in seconds for a step that need not wait, on a busy machine. A
// step that wrongly waits takes longer.
constexpr double kAtOnce = 15;

inline double Seconds(std::chrono::steady_clock::time_point since) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - since)
      .count();
}

}  // namespace quantd

#endif  // QUANTD_TESTS_CLIENT_CALLS_H_
