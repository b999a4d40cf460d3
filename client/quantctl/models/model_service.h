// The server that quantizes models, asked as the command's options say. The
// first failure is kept, whose code the command ends with.
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

// How much is done at once by the servers that the options name, in so much
// memory, as far as that is known before one of them is asked.
checkpoint::Pace PaceOf(const Options& options, uint64_t memory_mib);

class ModelService : public checkpoint::Service {
 public:
  // Connects and asks the server for its limits. kOk, or the exit code of what
  // went wrong, which has been said.
  static int Open(const Options& options, uint64_t memory_mib,
                  std::unique_ptr<ModelService>* made);

  const checkpoint::Pace& pace() const { return pace_; }
  // What does not go the way that --transport names fails.
  absl::StatusOr<Result> Quantize(const TensorDesc& tensor,
                                  absl::Span<const std::byte> bytes,
                                  const QuantizeOptions& o) override;
  absl::StatusOr<HostMemory> Allocate(size_t bytes) override;
  // The first call that failed; OK: none did.
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
