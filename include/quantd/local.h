// A client of devices of this process. Part of the library quantd::local, which
// contains the kernels. The library quantd::client, without the kernels, is a
// fifth as large.
#ifndef QUANTD_LOCAL_H_
#define QUANTD_LOCAL_H_

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "quantd/client.h"

namespace quantd {

// Opens devices of this process for "local:cpu", "local:cuda:N" and "local",
// which stands for all GPUs, or for the CPU on a machine without GPUs. Every
// other target goes to Client::Create. NOT_FOUND for a device that does not
// exist.
//
// Each client opens its devices, with ClientOptions::local, and starts threads
// for them, so a program should share one client. Options about connections,
// retries and credentials are ignored.
//
// Calls work on the caller's input and on CallOptions::into in place; an output
// may overlap the input. With "local:cuda:N" both may be memory of any GPU; all
// work queued on that memory must have ended. Both may also be host memory: the
// GPU's copy engines copy page-locked memory; other memory is copied through
// buffers of the client, at the speed of a memcpy.
//
// A call that does not fit into the free memory waits, in order of arrival,
// until its deadline; no call is refused as busy. Memory that a device uses in
// place does not count. A call that is cancelled or misses its deadline returns
// at once if it is waiting, and otherwise when its job ends. Calls are not
// logged and have no request id.
absl::StatusOr<std::unique_ptr<Client>> CreateClient(
    std::string_view target, const ClientOptions& options = {});

}  // namespace quantd

#endif  // QUANTD_LOCAL_H_
