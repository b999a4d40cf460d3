// An Endpoint for the devices of this process. It sends no messages and needs
// no server. The results have the same bytes as a server's.
#ifndef QUANTD_CLIENT_LOCAL_LOCAL_DEVICES_H_
#define QUANTD_CLIENT_LOCAL_LOCAL_DEVICES_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "client/call/endpoint.h"
#include "client/local/admission.h"
#include "kernels/device/backend.h"
#include "kernels/device/engine.h"
#include "proto/methods.h"

namespace quantd::client {

class LocalDevices final : public Endpoint {
 public:
  // `backends` must not be empty. The memory limit of each is an equal share of
  // `budget`, in bytes.
  LocalDevices(std::string target,
               std::vector<std::unique_ptr<Backend>> backends, size_t budget);

  const std::string& target() const override { return target_; }
  absl::StatusOr<Result> Run(const Call& call, Way way,
                             const OnSent& on_sent) override;
  absl::StatusOr<std::string> Ask(wire::Method method,
                                  const std::string& request,
                                  const CallLimit& limit,
                                  CallControl& control) override;
  // The memory is page-locked if there is a GPU.
  absl::StatusOr<HostMemory> AllocateHost(size_t bytes) override;

 private:
  bool has_gpu() { return engine_.backend(0).info().kind == "cuda"; }

  const std::string target_;
  const size_t budget_;
  Admission admission_;
  Engine engine_;
};

// Opens the devices named by the target "local" or "local:DEVICE".
absl::StatusOr<std::unique_ptr<Endpoint>> OpenLocal(
    std::string_view target, const LocalOptions& options);

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_LOCAL_LOCAL_DEVICES_H_
