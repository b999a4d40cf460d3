// Performs the calls of a Client, on servers (client/net/remote.h) or on
// devices of this process (client/local/local_devices.h).
#ifndef QUANTD_CLIENT_CALL_ENDPOINT_H_
#define QUANTD_CLIENT_CALL_ENDPOINT_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/call/call.h"
#include "client/call/call_control.h"
#include "client/call/error_details.h"
#include "client/call/reduction.h"
#include "client/memory/host_pool.h"
#include "client/memory/lending.h"
#include "proto/methods.h"
#include "quantd/buffers.h"
#include "quantd/call_options.h"
#include "quantd/plan.h"
#include "quantd/result.h"

namespace quantd::client {

// Thread-safe. All calls must have ended when it is destroyed.
class Endpoint {
 public:
  virtual ~Endpoint() = default;

  // The target as the caller named it.
  virtual const std::string& target() const = 0;

  // The number of connections to spread calls over. 0 if nothing is sent.
  virtual int connections() const { return 0; }
  // Finds the memory of the call that the server can access, so that its bytes
  // need not be sent. The result's status is an error if the call cannot be
  // made, such as a FieldError for events without device memory.
  virtual Lending Lend(const Call&) { return {}; }
  // Makes the call. Memory of the call is not accessed after this returns.
  virtual absl::StatusOr<Result> Run(const Call& call, Way way,
                                     const OnSent& on_sent) = 0;
  // Makes a call whose plan reduces (kernels/plan/shards.h), and sends the
  // payload once. Returns nullopt if the payload must be sent twice, with
  // RunInTwo.
  virtual std::optional<absl::StatusOr<Result>> RunReduced(const Call&,
                                                           Reduction&) {
    return std::nullopt;
  }
  // Makes a call of a method without a payload. `request` is serialized, as is
  // the reply, which may be malformed.
  virtual absl::StatusOr<std::string> Ask(wire::Method method,
                                          const std::string& request,
                                          const CallLimit& limit,
                                          CallControl& control) = 0;

  // Implement the Client methods of the same names. By default the memory is
  // not shared with any server.
  virtual absl::StatusOr<HostMemory> AllocateHost(size_t bytes);
  virtual absl::StatusOr<HostMemory> RegisterHost(int memfd,
                                                  absl::Span<std::byte> mapping,
                                                  HostUse use);
  absl::StatusOr<HostMemory> TakeHost(size_t bytes);
  // By default device memory comes from the CUDA driver and is not shared, and
  // RegisterEvent is not supported.
  virtual absl::StatusOr<DeviceMemory> AllocateDevice(int ordinal,
                                                      size_t bytes);
  virtual absl::StatusOr<DeviceMemory> RegisterDevice(const void* address);
  virtual absl::StatusOr<DeviceEvent> RegisterEvent(int ordinal, void* event);

 protected:
  Endpoint();
  // Whether memory from AllocateHost may still be reused.
  virtual bool Sound(const HostMemory&) { return true; }
  // Takes memory from the pool for the results that have no destination in
  // `into`, adds destinations for them, and returns the memory. Returns empty
  // memory and adds nothing if all results have destinations, if the others are
  // tiny, or if the pool has no memory for them.
  HostMemory PlaceResults(const Plan& plan, std::vector<Destination>* into);

 private:
  const std::shared_ptr<HostPool> pool_;
};

// Parses a reply of Endpoint::Ask.
template <typename Reply>
absl::StatusOr<Reply> Parsed(const absl::StatusOr<std::string>& reply) {
  if (!reply.ok()) return reply.status();
  Reply parsed;
  if (!parsed.ParseFromString(*reply)) return NotOurMessage();
  return parsed;
}

// The device of the target "local:DEVICE"; empty for "local". Returns nullopt
// for other targets, such as "local:7700", a port of a host named local.
std::optional<std::string_view> LocalDevice(std::string_view target);

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_CALL_ENDPOINT_H_
