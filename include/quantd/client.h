// The client of a quantd server, or of this process' own devices.
//
//   auto client = quantd::Client::Create("127.0.0.1:50151");  // or "local"
//   if (!client.ok()) ...
//   quantd::TensorDesc desc{quantd::DType::kBF16, {4096, 4096}};
//   quantd::QuantizeOptions options;
//   options.format = quantd::Format::kNvfp4;
//   auto result = (*client)->Quantize(desc, bytes, options);
//   if (!result.ok()) ...
//   absl::Span<const std::byte> codes =
//       result->bytes(quantd::TensorKind::kRowwiseData);
//
// Threads: a Client may be used by any number of threads at once.
//
// Memory: inputs are not copied. They must not change and must stay valid
// until the call returns (synchronous forms) or its future is ready. A call
// ended early by its deadline or by cancellation returns only when the network
// has let go of the input: normally at once; when the other side is alive but
// does not read, after ClientOptions::dead_peer_timeout and up to ten seconds
// more.
//
// Errors: absl::Status, see quantd/error.h for what can be read from it.
// INVALID_ARGUMENT comes from here before anything is sent wherever the rules
// allow to know; nothing here throws.
//
// Retries: UNAVAILABLE and "busy" are retried inside the deadline with
// jittered exponential backoff, not earlier than the server asked for. All
// calls are pure functions, so a retry can do no harm, wherever the first
// attempt had got to. The input is lent to the network for each attempt and
// never copied for one.
//
// In process: with "local" a call that is ended early returns at once while it
// waits for memory or for a slot; while its job runs, when that is done. What
// does not fit beside others waits in order of arrival until the deadline, and
// nobody is told "busy"; what a device works on where it lies takes no room. No
// call is logged, so that none has a request id. Devices work on the caller's
// input, and on CallOptions::into, where they lie. With "local:cuda:N" both may
// be memory of that GPU or of another one, which work on other streams has come
// to an end with; or host memory, of which what CUDA has page-locked goes by
// the copy engines and the rest through memory of the client's own, at the
// speed of a memcpy. An output may overlap the input, where there is no server.
//
// Bands: with ClientOptions::band_bytes a large call is cut into calls for
// bands of its rows, over all connections to all servers; the bytes are those
// of one call. A band is tried again, here and elsewhere, as any call is; one
// that fails for good ends the others and the whole, with its rows in the
// message. The deadline and the cancellation are those of the whole. What lies
// in columns (transposed codes, their scales) is copied once more, with memory
// for as many bands as there are connections.
//
// Several servers: a client of many addresses keeps off those that are dead or
// drain, sends a call to the one with the fewest bytes under way, and where
// that one fails, drains or is busy, at once to another one.
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

namespace client {
class Reduction;
}  // namespace client
class ShardSession;

// One copy of a quantized tensor, as Quantize gave it. Views.
struct QuantizedBytes {
  absl::Span<const std::byte> data;
  absl::Span<const std::byte> scale;  // padded; fp32 or one byte each
  // One, one for each group or one for each line. Not looked at for a format
  // that is decoded without: all but NVFP4, and that only without a profile.
  absl::Span<const float> amax;
  // Of NVFP4 under a profile, one or one for each group: its global scale or
  // divisor, as the options' profile has it.
  absl::Span<const float> global = {};
};

class Client {
 public:
  // `target`: one address or several with commas between them, "HOST:PORT" or
  // "unix:/PATH", others as gRPC names them. A HOST that is a name stands for
  // all addresses that it resolves to, and is looked up again as time goes by
  // and when a server is lost. Does not connect: the first call does.
  // INVALID_ARGUMENT for what is no address, options out of range, or
  // credentials that are no good.
  //
  // "local": the devices of this process instead, every GPU, or the CPU where
  // there is none; "local:cpu" and "local:cuda:N": that one. They are opened
  // here, with ClientOptions::local and threads of their own, so that one
  // client serves a program best. Of the other options those about connections,
  // retries and credentials do not matter. NOT_FOUND for a device that is not
  // there, UNIMPLEMENTED in a program that links quantd::client without
  // quantd::local.
  static absl::StatusOr<std::unique_ptr<Client>> Create(
      std::string_view target, const ClientOptions& options = {});

  // Cancels what is still under way and waits for it.
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Quantizes one tensor, or groups of its rows. Parts: those of the usage
  // asked for and what else the options ask for. Stochastic rounding takes
  // the seed as it stands in the options; Quantizer draws one.
  absl::StatusOr<Result> Quantize(const TensorDesc& tensor,
                                  absl::Span<const std::byte> input,
                                  const QuantizeOptions& options,
                                  const CallOptions& call = {}) {
    return Run(MakeQuantizePlan(tensor, options), input, call);
  }

  // What Quantize would give, without its input: every part with its shape,
  // type, layout and size, and the memory the server would need. Nothing is
  // computed. MakeQuantizePlan of quantd/plan.h says the same without a
  // server; this one also asks that server's limits and version.
  absl::StatusOr<QuantizeDescription> DescribeQuantize(
      const TensorDesc& tensor, const QuantizeOptions& options,
      const CallOptions& call = {});

  // Decodes one copy. Part: kDequantized, M x K.
  absl::StatusOr<Result> Dequantize(const TensorDesc& tensor,
                                    const QuantizedBytes& quantized,
                                    const DequantizeOptions& options,
                                    const CallOptions& call = {});

  // Parts: fp32 for every maximum asked for, one, one for each group or one
  // for each line; Result::amaxes reads them.
  absl::StatusOr<Result> RhtAmax(const TensorDesc& tensor,
                                 absl::Span<const std::byte> input,
                                 const RhtAmaxOptions& options,
                                 const CallOptions& call = {}) {
    return Run(MakeRhtAmaxPlan(tensor, options), input, call);
  }

  // Part: kRotated, M x K.
  absl::StatusOr<Result> ApplyRht(const TensorDesc& tensor,
                                  absl::Span<const std::byte> input,
                                  const ApplyRhtOptions& options,
                                  const CallOptions& call = {}) {
    return Run(MakeApplyRhtPlan(tensor, options), input, call);
  }

  // Memory whose parts calls take as input, and as places of
  // CallOptions::into, where they lie: shared with the server of
  // ClientOptions::memory_socket; without one ordinary memory; in process what
  // CUDA has page-locked, where there is a GPU. Zeros. UNAVAILABLE where nobody
  // listens there, RESOURCE_EXHAUSTED for more than the server shares or this
  // machine has, PERMISSION_DENIED for a user whom the server does not know.
  //
  // Results of an input in shared memory come back in such memory, too, of the
  // client's own, up to 1 GiB at a time.
  //
  // A connection keeps memory shared. When that is lost, as by a restart, calls
  // share it again, and copy where they cannot: Result::transport() says so.
  // What a call is given in it must not be used by another that writes there; a
  // call that is ended early returns when the server has let go of it, or after
  // ClientOptions::dead_peer_timeout: then it is shared no more, but a server
  // that merely stood still may yet write its results.
  absl::StatusOr<HostMemory> AllocateHost(size_t bytes);
  // The same of memory that was used before, where there is some: its content
  // is what that left. What is let go is kept, up to 1 GiB, until it is taken
  // again or the client is gone.
  absl::StatusOr<HostMemory> TakeHost(size_t bytes);
  // As AllocateHost, for a memfd that the caller has mapped as a whole, of
  // whole pages, with F_SEAL_SHRINK and F_SEAL_GROW and no page missing, else
  // INVALID_ARGUMENT. The mapping must stay until the HostMemory is gone, which
  // does not own it; the descriptor may be closed.
  absl::StatusOr<HostMemory> RegisterHost(int memfd,
                                          absl::Span<std::byte> mapping,
                                          HostUse use = HostUse::kReadWrite);

  // Memory of a GPU whose parts calls take as input, and as places of
  // CallOptions::into, where they lie; the server of
  // ClientOptions::memory_socket opens it in its own process, if it works with
  // that GPU. `ordinal`: as CUDA counts the GPUs of this process. UNIMPLEMENTED
  // where this machine has no GPU, NOT_FOUND where it has no such one,
  // RESOURCE_EXHAUSTED for more memory than there is, INVALID_ARGUMENT where
  // the server does not work with it; else errors as of AllocateHost.
  //
  // What is shared cannot be sent: a call on it that cannot be lent fails,
  // INVALID_ARGUMENT, and where the server does not know it any more,
  // UNAVAILABLE. Whatever work this process has queued on it must have ended
  // before a call, or CallOptions::events says what to wait for; when the call
  // returns, its own work on it has.
  absl::StatusOr<DeviceMemory> AllocateDevice(int ordinal, size_t bytes);
  // The same for the allocation that has this address, as of cudaMalloc or of a
  // tensor of PyTorch's, or made by cuMemCreate with a descriptor to export. It
  // must not be freed before the DeviceMemory is gone, which does not own it;
  // what has been freed all the same is not used. INVALID_ARGUMENT for other
  // memory, as of CUDA's pools.
  absl::StatusOr<DeviceMemory> RegisterDevice(const void* address);

  // Makes an event known to the server of ClientOptions::memory_socket, for
  // CallOptions::events. `event`: a cudaEvent_t of that GPU, made with
  // cudaEventInterprocess | cudaEventDisableTiming, else INVALID_ARGUMENT; it
  // must not be destroyed before the DeviceEvent is gone. Other errors as of
  // AllocateDevice, and UNIMPLEMENTED in process, where work on other streams
  // is to be waited for by the caller.
  absl::StatusOr<DeviceEvent> RegisterEvent(int ordinal, void* event);

  absl::StatusOr<ServerInfo> GetServerInfo(const CallOptions& call = {});

  // The same, on threads of this client. They block only while max_in_flight
  // others are under way, and no longer than the call's deadline. A future
  // that is thrown away does not stop its call: cancel it, and keep the
  // memory until the client is gone or the future was ready.
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
  class Impl;
  explicit Client(std::unique_ptr<Impl> impl);

  // What all calls on one tensor are, whatever is asked of it.
  absl::StatusOr<Result> Run(const absl::StatusOr<Plan>& plan,
                             absl::Span<const std::byte> input,
                             const CallOptions& call);
  std::future<absl::StatusOr<Result>> RunAsync(
      absl::StatusOr<Plan> plan, absl::Span<const std::byte> input,
      const CallOptions& call);
  // Of a plan that reduces. `ended` is told the outcome of a call that has
  // begun, before the future is ready.
  std::future<absl::StatusOr<Result>> RunReducedAsync(
      Plan plan, absl::Span<const std::byte> input, const CallOptions& call,
      client::Reduction* reduction,
      std::function<void(const absl::Status&)> ended);

  std::unique_ptr<Impl> impl_;
};

}  // namespace quantd

#endif  // QUANTD_CLIENT_H_
