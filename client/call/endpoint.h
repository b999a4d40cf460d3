// The side that does a Client's work: servers (client/net/remote.h), or the
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
#include "client/call/reduction.h"
#include "client/memory/host_pool.h"
#include "client/memory/lending.h"
#include "quantd/buffers.h"
#include "quantd/call_options.h"
#include "quantd/plan.h"
#include "quantd/result.h"
#include "quantd/server_info.h"

namespace quantd::client {

// Thread-safe. All calls are over when it is destroyed.
class Endpoint {
 public:
  virtual ~Endpoint() = default;

  // The target as the caller named it.
  virtual const std::string& target() const = 0;

  // Over how many connections calls may be spread; 0: nothing travels.
  virtual int connections() const { return 0; }
  // The call's memory that need not travel. Its status is that of a call
  // that cannot be made: FieldError for events beside memory that they are not
  // for.
  virtual Lending Lend(const Call&) { return {}; }
  // Makes the call. Its memory is no longer looked at when this returns.
  virtual absl::StatusOr<Result> Run(const Call& call, Way way,
                                     const OnSent& on_sent) = 0;
  // Makes a call on a plan that reduces (kernels/plan/shards.h), whose payload
  // travels once. Nothing: it has to go twice, as by RunInTwo.
  virtual std::optional<absl::StatusOr<Result>> RunReduced(const Call&,
                                                           Reduction&) {
    return std::nullopt;
  }
  // `plan` is one of a Quantize.
  virtual absl::StatusOr<QuantizeDescription> Describe(
      const Plan& plan, const CallLimit& limit, CallControl& control) = 0;
  virtual absl::StatusOr<ServerInfo> GetInfo(const CallLimit& limit,
                                             CallControl& control) = 0;

  // Do what Client's methods of these names do. By default the memory is shared
  // with nobody.
  virtual absl::StatusOr<HostMemory> AllocateHost(size_t bytes);
  virtual absl::StatusOr<HostMemory> RegisterHost(int memfd,
                                                  absl::Span<std::byte> mapping,
                                                  HostUse use);
  absl::StatusOr<HostMemory> TakeHost(size_t bytes);
  // These share it with nobody: with "local" it is known as it is.
  virtual absl::StatusOr<DeviceMemory> AllocateDevice(int ordinal,
                                                      size_t bytes);
  virtual absl::StatusOr<DeviceMemory> RegisterDevice(const void* address);
  virtual absl::StatusOr<DeviceEvent> RegisterEvent(int ordinal, void* event);

 protected:
  Endpoint();
  // Whether memory that AllocateHost made can be used for something else.
  virtual bool Sound(const HostMemory&) { return true; }
  // Places in memory of AllocateHost for what `into` leaves out of a plan's
  // results; nothing where there is no memory for them. The memory is where
  // they lie.
  HostMemory PlaceResults(const Plan& plan, std::vector<Destination>* into);

 private:
  const std::shared_ptr<HostPool> pool_;
};

// The device that "local:DEVICE" names, empty for "local" alone; nothing for
// another target, such as a port of a host of that name.
std::optional<std::string_view> LocalDevice(std::string_view target);

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_CALL_ENDPOINT_H_
