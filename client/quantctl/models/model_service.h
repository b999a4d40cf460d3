// A Service that calls the servers or the local devices named by the options.
// Keeps the error of the first failed call, which determines the exit code.
#ifndef QUANTD_CLIENT_QUANTCTL_MODELS_MODEL_SERVICE_H_
#define QUANTD_CLIENT_QUANTCTL_MODELS_MODEL_SERVICE_H_

#include <cstdint>
#include <memory>
#include <mutex>

#include "absl/status/status.h"
#include "client/checkpoint/convert/service.h"
#include "client/quantctl/commands.h"

namespace quantd::quantctl {

inline constexpr uint64_t kUsualMemoryMib = 1280;

// The pace for the servers that the options name, estimated without connecting.
// `memory_mib` is the memory limit in MiB.
checkpoint::Pace PaceOf(const Options& options, uint64_t memory_mib);

class ModelService : public checkpoint::Service {
 public:
  // Connects to the servers or opens the devices, and gets their limits.
  // Returns kOk, or the exit code of an error that has been reported.
  static int Open(const Options& options, uint64_t memory_mib,
                  std::unique_ptr<ModelService>* made);

  const checkpoint::Pace& pace() const { return pace_; }
  // Quantizes on a server or a local device. FAILED_PRECONDITION if the call
  // does not use the transport that --transport names.
  absl::StatusOr<Result> Quantize(const TensorDesc& tensor,
                                  absl::Span<const std::byte> bytes,
                                  const QuantizeOptions& o) override;
  absl::StatusOr<HostMemory> Allocate(size_t bytes) override;
  // The error of the first failed call; OK if none failed.
  absl::Status failure() const;

 private:
  ModelService(const Options& options, std::unique_ptr<Client> client)
      : options_(options), client_(std::move(client)) {}

  const Options& options_;
  const std::unique_ptr<Client> client_;
  checkpoint::Pace pace_;
  mutable std::mutex mutex_;
  absl::Status failure_;
};

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_MODELS_MODEL_SERVICE_H_
