// The client of quantd servers. "quantd/local.h" has a client of devices of
// this process.
//
//   auto client = quantd::Client::Create("127.0.0.1:50151");
//   if (!client.ok()) ...
//   quantd::QuantizeOptions options;
//   options.format = quantd::Format::kNvfp4;
//   auto result = (*client)->Quantize({quantd::DType::kBF16, {4096, 4096}},
//                                     bytes, options);
//   if (!result.ok()) ...
//   absl::Span<const std::byte> codes =
//       result->bytes(quantd::TensorKind::kRowwiseData);
#ifndef QUANTD_CLIENT_H_
#define QUANTD_CLIENT_H_

#include <cstddef>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "quantd/buffers.h"
#include "quantd/call_options.h"
#include "quantd/error.h"
#include "quantd/plan.h"
#include "quantd/result.h"
#include "quantd/server_info.h"

namespace quantd {

// Views of one copy of a quantized tensor, as returned by Quantize.
struct QuantizedBytes {
  absl::Span<const std::byte> data;
  absl::Span<const std::byte> scale;  // padded; a scale is fp32 or one byte
  // One value, or one for each group or line. Used only by NVFP4 without a
  // profile; ignored otherwise.
  absl::Span<const float> amax;
  // The global scale or divisor of NVFP4 under a profile, one value or one for
  // each group.
  absl::Span<const float> global = {};
};

namespace client {
class Endpoint;
class Reduction;
}  // namespace client
namespace python {
class Engine;
}
namespace wire {
enum class Method;
}

// Threads: any number of threads may use a Client at once.
//
// Inputs are not copied. They must stay valid and unchanged until the call
// returns or its future is ready. A call that is cancelled or misses its
// deadline returns when the network no longer uses the input. Normally that is
// at once. If the server is alive but does not read, it can take ten seconds
// more than ClientOptions::dead_peer_timeout.
//
// Errors are absl::Status; "quantd/error.h" reads their details. The client
// refuses illegal requests with INVALID_ARGUMENT before anything is sent,
// unless only the server can check them. No function throws.
//
// Calls are pure functions, so retrying one is safe. RetryPolicy says when
// calls are retried.
class Client {
 public:
  // `target` is one address or several with commas between them: "HOST:PORT",
  // "unix:/PATH", or another target in gRPC's syntax. If HOST is a name, all
  // addresses that it resolves to are used. The name is resolved again from
  // time to time and when a server is lost. INVALID_ARGUMENT for a malformed
  // address, options out of range, or credentials that cannot be used.
  // UNIMPLEMENTED for "local", which only CreateClient of "quantd/local.h"
  // opens.
  //
  // Create does not connect: the first call does. With several servers a call
  // goes to the one with the fewest bytes under way, and at once to another if
  // that one fails, drains or is busy. Dead and draining servers are avoided.
  static absl::StatusOr<std::unique_ptr<Client>> Create(
      std::string_view target, const ClientOptions& options = {});

  // Cancels calls that are still running and waits for them.
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Quantizes one tensor, or groups of its rows. The parts of the result are
  // the copies that `usage` names and the further outputs that the options ask
  // for. Stochastic rounding takes its seed from the options; a Quantizer draws
  // one.
  absl::StatusOr<Result> Quantize(const TensorDesc& tensor,
                                  absl::Span<const std::byte> input,
                                  const QuantizeOptions& options,
                                  const CallOptions& call = {}) {
    return Run(MakeQuantizePlan(tensor, options), input, call);
  }

  // Describes the result of Quantize: every part with its shape, type, layout
  // and size, and the memory that the server would need. Nothing is computed
  // and no input is needed. MakeQuantizePlan of "quantd/plan.h" gives the same
  // without a server; this call also checks the limits and the version of the
  // server.
  absl::StatusOr<QuantizeDescription> DescribeQuantize(
      const TensorDesc& tensor, const QuantizeOptions& options,
      const CallOptions& call = {});

  // Decodes one copy. The result has one part, kDequantized, of M x K elements.
  absl::StatusOr<Result> Dequantize(const TensorDesc& tensor,
                                    const QuantizedBytes& quantized,
                                    const DequantizeOptions& options,
                                    const CallOptions& call = {});

  // Finds the maxima that the options name. Each is a part: one fp32 value, or
  // one for each group or line; Result::amaxes reads them.
  absl::StatusOr<Result> RhtAmax(const TensorDesc& tensor,
                                 absl::Span<const std::byte> input,
                                 const RhtAmaxOptions& options,
                                 const CallOptions& call = {}) {
    return Run(MakeRhtAmaxPlan(tensor, options), input, call);
  }

  // Rotates the rows. The result has one part, kRotated, of M x K elements.
  absl::StatusOr<Result> ApplyRht(const TensorDesc& tensor,
                                  absl::Span<const std::byte> input,
                                  const ApplyRhtOptions& options,
                                  const CallOptions& call = {}) {
    return Run(MakeApplyRhtPlan(tensor, options), input, call);
  }

  // Allocates memory, filled with zeros, that calls use in place: any part of
  // it may be an input or a destination in CallOptions::into. The memory is
  // shared with the server of ClientOptions::memory_socket. Without a
  // memory_socket it is ordinary memory. For devices of this process it is
  // page-locked if there is a GPU. UNAVAILABLE if no server listens on the
  // socket, RESOURCE_EXHAUSTED for more memory than the server shares or this
  // machine has, PERMISSION_DENIED for a user that the server does not know.
  //
  // Results for an input in shared memory are returned in shared memory of the
  // client, up to 1 GiB at a time.
  //
  // Memory stays shared as long as its connection to the socket lives. If the
  // connection is lost, for example because the server restarts, the next calls
  // share the memory again, or send copies if they cannot: Result::transport()
  // tells which. While a call uses part of the memory, no other call may write
  // to that part. A call that ends early returns when the server has released
  // the memory, or after ClientOptions::dead_peer_timeout. After that timeout
  // the memory is no longer shared, but a server that was only stalled may
  // still write results to it.
  absl::StatusOr<HostMemory> AllocateHost(size_t bytes);
  // Like AllocateHost, but reuses released memory, with its old content, if the
  // client has any. The client keeps up to 1 GiB of released memory.
  absl::StatusOr<HostMemory> TakeHost(size_t bytes);
  // Shares a memfd that the caller has mapped. Errors are those of
  // AllocateHost, and INVALID_ARGUMENT unless the whole memfd is mapped,
  // consists of whole pages that are all allocated, and has the seals
  // F_SEAL_SHRINK and F_SEAL_GROW. The caller keeps the mapping until the
  // HostMemory is gone; the descriptor may be closed.
  absl::StatusOr<HostMemory> RegisterHost(int memfd,
                                          absl::Span<std::byte> mapping,
                                          HostUse use = HostUse::kReadWrite);

  // Allocates GPU memory that calls use in place. The server of
  // ClientOptions::memory_socket opens the memory in its own process; it must
  // use the same GPU. `ordinal` is the GPU's number in this process.
  // UNIMPLEMENTED if this machine has no GPU, NOT_FOUND if no GPU has that
  // number, INVALID_ARGUMENT if the server does not use that GPU,
  // RESOURCE_EXHAUSTED for more memory than there is, and the errors of
  // AllocateHost.
  //
  // The content of GPU memory is never sent: a call fails with INVALID_ARGUMENT
  // if the memory cannot be shared, and with UNAVAILABLE if the server no
  // longer knows it. All work that this process has queued on the memory must
  // have ended before a call, unless CallOptions::events names an event to wait
  // for. When the call returns, its own work on the GPU has ended.
  absl::StatusOr<DeviceMemory> AllocateDevice(int ordinal, size_t bytes);
  // Shares the whole GPU allocation that contains `address`: memory from
  // cudaMalloc, of a PyTorch tensor, or from cuMemCreate with an exportable
  // descriptor. INVALID_ARGUMENT for other memory, such as memory of CUDA's
  // pools. The caller owns the allocation and frees it after the DeviceMemory
  // is destroyed. If it is freed earlier, calls do not use it.
  absl::StatusOr<DeviceMemory> RegisterDevice(const void* address);

  // Shares an event with the server of ClientOptions::memory_socket, for
  // CallOptions::events. `event` is a cudaEvent_t of that GPU, made with
  // cudaEventInterprocess | cudaEventDisableTiming, and must not be destroyed
  // before the DeviceEvent. INVALID_ARGUMENT for another event, UNIMPLEMENTED
  // for devices of this process, where the caller must wait for work on other
  // streams, and the errors of AllocateDevice.
  absl::StatusOr<DeviceEvent> RegisterEvent(int ordinal, void* event);

  absl::StatusOr<ServerInfo> GetServerInfo(const CallOptions& call = {});

  // Quantizes on a thread of this client. Like the other asynchronous calls it
  // blocks only while ClientOptions::max_in_flight others are under way, and no
  // longer than its deadline. Discarding the future does not stop the call:
  // cancel it with CallOptions::cancel, and keep the input and destinations
  // until the client is destroyed.
  std::future<absl::StatusOr<Result>> QuantizeAsync(
      const TensorDesc& tensor, absl::Span<const std::byte> input,
      const QuantizeOptions& options, const CallOptions& call = {}) {
    return RunAsync(MakeQuantizePlan(tensor, options), input, call);
  }
  std::future<absl::StatusOr<Result>> DequantizeAsync(TensorDesc tensor,
                                                      QuantizedBytes quantized,
                                                      DequantizeOptions options,
                                                      CallOptions call = {});
  std::future<absl::StatusOr<Result>> RhtAmaxAsync(
      const TensorDesc& tensor, absl::Span<const std::byte> input,
      const RhtAmaxOptions& options, const CallOptions& call = {}) {
    return RunAsync(MakeRhtAmaxPlan(tensor, options), input, call);
  }
  std::future<absl::StatusOr<Result>> ApplyRhtAsync(
      const TensorDesc& tensor, absl::Span<const std::byte> input,
      const ApplyRhtOptions& options, const CallOptions& call = {}) {
    return RunAsync(MakeApplyRhtPlan(tensor, options), input, call);
  }

  const std::string& target() const;

 private:
  friend class ShardSession;
  friend class python::Engine;
  friend absl::StatusOr<std::unique_ptr<Client>> CreateClient(
      std::string_view target, const ClientOptions& options);
  class Impl;
  explicit Client(std::unique_ptr<Impl> impl);

  // Checks the options before it calls `open`.
  static absl::StatusOr<std::unique_ptr<Client>> Make(
      const ClientOptions& options,
      const std::function<absl::StatusOr<std::unique_ptr<client::Endpoint>>()>&
          open);

  // Makes a call of a method without a tensor. Request and reply are
  // serialized.
  absl::StatusOr<std::string> Ask(wire::Method method,
                                  const std::string& request,
                                  const CallOptions& call);
  // Makes a call of any method on one tensor.
  absl::StatusOr<Result> Run(const absl::StatusOr<Plan>& plan,
                             absl::Span<const std::byte> input,
                             const CallOptions& call);
  std::future<absl::StatusOr<Result>> RunAsync(
      absl::StatusOr<Plan> plan, absl::Span<const std::byte> input,
      const CallOptions& call);
  // Makes a call whose amax is reduced over several parts. `ended` receives the
  // outcome of a call that has begun, before the future is ready.
  std::future<absl::StatusOr<Result>> RunReducedAsync(
      Plan plan, absl::Span<const std::byte> input, const CallOptions& call,
      client::Reduction* reduction,
      std::function<void(const absl::Status&)> ended);

  std::unique_ptr<Impl> impl_;
};

}  // namespace quantd

#endif  // QUANTD_CLIENT_H_
