#include <memory>
#include <string_view>

#include "client/call/endpoint.h"
#include "client/local/local_devices.h"
#include "quantd/local.h"

namespace quantd {

absl::StatusOr<std::unique_ptr<Client>> CreateClient(
    std::string_view target, const ClientOptions& options) {
  if (!client::LocalDevice(target)) return Client::Create(target, options);
  return Client::Make(options,
                      [&] { return client::OpenLocal(target, options.local); });
}

}  // namespace quantd
