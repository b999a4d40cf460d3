// A server with a memory socket, and requests that use shared memory.
#ifndef QUANTD_TESTS_SERVER_MEMORY_RANGES_FIXTURE_H_
#define QUANTD_TESTS_SERVER_MEMORY_RANGES_FIXTURE_H_

#include <sys/mman.h>

#include <memory>
#include <string>

#include "tests/client/temp_dir.h"
#include "tests/server/memory/door_peer.h"
#include "tests/server/server_fixture.h"

namespace quantd {

inline constexpr size_t kSize = size_t{1} << 20;
inline constexpr int64_t kRows = 64;
inline constexpr size_t kInput = kRows * 2048;
inline constexpr size_t kCodes = kRows * 512;
inline constexpr size_t kScales = 128 * 64;

class Ranges : public ServerTest {
 protected:
  Ranges() {
    options_.memory_socket = directory_ / "door";
    options_.shared_memory_limit = 8 * kSize;
  }

  // Memory that the server has mapped.
  struct Shared {
    std::unique_ptr<Peer> peer;
    std::string name;
    std::byte* data = nullptr;
    std::shared_ptr<void> mapping;
    int socket() const { return peer->socket(); }
  };
  Shared Share(bool read_only = false, size_t size = kSize) const {
    Shared shared;
    const Descriptor memfd = Memfd(size, size);
    shared.data = static_cast<std::byte*>(mmap(
        nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, memfd.get(), 0));
    shared.mapping = std::shared_ptr<void>(
        shared.data, [size](void* data) { munmap(data, size); });
    shared.peer = std::make_unique<Peer>(options_.memory_socket);
    EXPECT_EQ(shared.peer->Offered(memfd, size, read_only),
              OfferAnswer::kTaken);
    shared.name = shared.peer->name;
    return shared;
  }

  static void Set(v1::MemoryRange* range, const std::string& region,
                  uint64_t offset, uint64_t size) {
    range->set_region(region);
    range->set_offset(offset);
    range->set_size(size);
  }
  // Returns a request whose region holds the input at offset 0, followed by
  // codes and scales.
  static v1::QuantizeRequest Lent(const std::string& region) {
    v1::QuantizeRequest request = QuantizeOnes(kRows);
    request.clear_payload();
    Set(request.mutable_memory()->add_inputs(), region, 0, kInput);
    AddOutput(&request, v1::TENSOR_KIND_ROWWISE_DATA, region, kInput, kCodes);
    AddOutput(&request, v1::TENSOR_KIND_ROWWISE_SCALE, region, kInput + kCodes,
              kScales);
    return request;
  }
  static void AddOutput(v1::QuantizeRequest* request, v1::TensorKind kind,
                        const std::string& region, uint64_t offset,
                        uint64_t size) {
    v1::LentOutput* const output = request->mutable_memory()->add_outputs();
    output->set_kind(kind);
    Set(output->mutable_range(), region, offset, size);
  }
  void ExpectRefused(const std::string& message, const std::string& method,
                     const std::string& field, const std::string& expected,
                     const std::string& got) {
    RpcOptions options;
    options.method = method;
    const RpcResult result = Call(channel_, message, options);
    EXPECT_EQ(result.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    ASSERT_TRUE(result.detail.has_value()) << result.status.error_message();
    EXPECT_EQ(result.detail->reason(), v1::ErrorDetail::REASON_INVALID_FIELD);
    EXPECT_EQ(result.detail->field(), field);
    EXPECT_EQ(result.detail->expected(), expected);
    EXPECT_EQ(result.detail->got(), got);
    EXPECT_FALSE(result.request_id.empty());
  }
  void ExpectRefused(const v1::QuantizeRequest& request,
                     const std::string& field, const std::string& expected,
                     const std::string& got) {
    ExpectRefused(request.SerializeAsString(), "Quantize", field, expected,
                  got);
  }
  void ExpectUnknown(const v1::QuantizeRequest& request,
                     const std::string& field) {
    ExpectRefused(request, field,
                  "the name of a region that is shared with this server",
                  "another one");
  }

  void ExpectUnknownEvent(const v1::QuantizeRequest& request,
                          const std::string& field) {
    ExpectRefused(request, field,
                  "the name of an event that is shared with this server",
                  "another one");
  }

  const TempDir directory_;
};

}  // namespace quantd

#endif  // QUANTD_TESTS_SERVER_MEMORY_RANGES_FIXTURE_H_
