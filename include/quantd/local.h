// A client of this process' own devices. Part of the library quantd::local,
// which contains the kernels; quantd::client does not, and has a fifth of the
// size.
#ifndef QUANTD_LOCAL_H_
#define QUANTD_LOCAL_H_

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "quantd/client.h"

namespace quantd {

// Opens devices of this process for "local:cpu", "local:cuda:N" and "local",
// which stands for all GPUs, or for the CPU on a machine without GPUs. Every
// other target goes to Client::Create. NOT_FOUND for a device that is not
// there.
//
// Devices are opened with ClientOptions::local and threads of their own, so
// that a program needs one client. Options about connections, retries and
// credentials do not matter.
//
// Calls work on the caller's input and on CallOptions::into in place; an output
// may overlap the input. With "local:cuda:N" both may be memory of any GPU; all
// work queued on it must have ended. Both may also be host memory: what is
// page-locked goes by the copy engines, the rest through memory of the client's
// own, at the speed of a memcpy.
//
// Calls that do not fit beside others wait in order of arrival until their
// deadline; nothing is refused as busy, and memory that a device uses in place
// takes no room. A call that ends early returns at once while it waits, and
// when its job is done while that runs. Calls are not logged and have no
// request id.
absl::StatusOr<std::unique_ptr<Client>> CreateClient(
    std::string_view target, const ClientOptions& options = {});

}  // namespace quantd

#endif  // QUANTD_LOCAL_H_
