// Validates the options of a Client.
#ifndef QUANTD_CLIENT_NET_CLIENT_OPTIONS_H_
#define QUANTD_CLIENT_NET_CLIENT_OPTIONS_H_

#include "absl/status/status.h"
#include "quantd/call_options.h"

namespace quantd::client {

// Returns a FieldError if a value is out of range.
absl::Status CheckOptions(const ClientOptions& options);

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_NET_CLIENT_OPTIONS_H_
