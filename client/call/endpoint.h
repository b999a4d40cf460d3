// Who does what a Client is asked for: servers (client/net/remote.h), or the
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
#include "client/buffers.h"
#include "client/call/call_control.h"
#include "client/call/reduction.h"
#include "client/call_options.h"
#include "client/memory/host_pool.h"
#include "client/result.h"
#include "client/server_info.h"
#include "kernels/plan/plan.h"

namespace quantd::client {

// A band of so many bytes goes as a stream: it is gathered and copied to a
// device while the rest of it comes, for which a message must be whole. Smaller
// ones, of which many are under way, cost a server less as messages.
inline constexpr size_t kFlowingBand = size_t{8} << 20;

// Thread-safe. All calls are over when it is destroyed.
class Endpoint {
 public:
  virtual ~Endpoint() = default;

  // As it was named.
  virtual const std::string& target() const = 0;

  // Computes `plan`. The payload, a piece for each of its inputs, is no longer
  // looked at when this returns. `into` has passed CheckDestinations.
  // FieldError for events beside memory that they are not for.
  virtual absl::StatusOr<Result> Run(
      const Plan& plan, absl::Span<const absl::Span<const std::byte>> payload,
      absl::Span<const Destination> into, const CallEvents& events,
      const CallLimit& limit, CallControl& control) = 0;
  // Computes `plan`, which reduces (kernels/plan/shards.h), with an amax of
  // more than this payload: `reduction` is told what the payload adds, and
  // answers. The payload travels once where it can, else twice.
  virtual absl::StatusOr<Result> RunReduced(
      const Plan& plan, absl::Span<const absl::Span<const std::byte>> payload,
      absl::Span<const Destination> into, const CallEvents& events,
      const CallLimit& limit, CallControl& control, Reduction& reduction);
  // How many parts of a tensor that take so many bytes each, input, output and
  // scratch, RunReduced sends once, all at once; 0: it sends none so.
  virtual size_t MostReducedAtOnce(size_t, const CallLimit&, CallControl&) {
    return 0;
  }
  // What stands for an amax_estimation_scale that a plan lacks, 0 for none;
  // nothing where that cannot be learned.
  virtual std::optional<float> DefaultEstimate(const CallLimit&, CallControl&) {
    return 0.0f;
  }
  // Over how many connections a call of this memory may be spread; 0: it does
  // not travel.
  virtual int Connections(absl::Span<const absl::Span<const std::byte>>,
                          absl::Span<const Destination>) {
    return 0;
  }
  // Over how many devices a call may be spread whose memory, all of the host's,
  // does not travel.
  virtual int Devices(absl::Span<const absl::Span<const std::byte>>,
                      absl::Span<const Destination>, const CallLimit&,
                      CallControl&) {
    return 1;
  }
  // `plan` is one of a Quantize.
  virtual absl::StatusOr<QuantizeDescription> Describe(
      const Plan& plan, const CallLimit& limit, CallControl& control) = 0;
  virtual absl::StatusOr<ServerInfo> GetInfo(const CallLimit& limit,
                                             CallControl& control) = 0;

  // As Client's. These make memory that is shared with nobody.
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
  // Of memory that AllocateHost made: whether it can be used for something
  // else.
  virtual bool Sound(const HostMemory&) { return true; }
  // Places in memory of AllocateHost for what `into` leaves out of a plan's
  // results; nothing where there is no memory for them. The memory is where
  // they lie.
  HostMemory PlaceResults(const Plan& plan, std::vector<Destination>* into);

 private:
  const std::shared_ptr<HostPool> pool_;
};

// Opens the devices of this process. `target` is all of "local:cuda:0", and
// `device` what follows the first colon; empty: the default ones.
using OpenEndpoint = absl::StatusOr<std::unique_ptr<Endpoint>> (*)(
    std::string_view target, std::string_view device,
    const LocalOptions& options);

}  // namespace quantd::client

// Only programs that link client/local have it, so that all others need not
// link the kernels: elsewhere its address is null.
extern "C" const quantd::client::OpenEndpoint quantd_open_local
    __attribute__((weak));

#endif  // QUANTD_CLIENT_CALL_ENDPOINT_H_
