// The calls by which models are quantized: as the command's options say, and
// with the first failure kept, whose code the command ends with.
#ifndef QUANTD_CLIENT_QUANTCTL_MODELS_QUANTIZE_CALL_H_
#define QUANTD_CLIENT_QUANTCTL_MODELS_QUANTIZE_CALL_H_

#include <mutex>

#include "absl/status/status.h"
#include "client/checkpoint/convert/weight_encoder.h"
#include "client/quantctl/commands.h"

namespace quantd::quantctl {

// The first call that failed; OK: none did.
class FirstFailure {
 public:
  void Note(const absl::Status& status) {
    const std::lock_guard lock(mutex_);
    status_.Update(status);
  }
  absl::Status status() const {
    const std::lock_guard lock(mutex_);
    return status_;
  }

 private:
  mutable std::mutex mutex_;
  absl::Status status_;
};

// Calls to `client`, from any thread. What does not go the way that --transport
// names fails; what fails is noted. `client` and `failure` outlive it.
checkpoint::QuantizeCall CallTo(Client* client, const Options& options,
                                FirstFailure* failure);

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_MODELS_QUANTIZE_CALL_H_
