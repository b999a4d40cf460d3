// What a Client may be made of.
#ifndef QUANTD_CLIENT_NET_CLIENT_OPTIONS_H_
#define QUANTD_CLIENT_NET_CLIENT_OPTIONS_H_

#include "absl/status/status.h"
#include "quantd/call_options.h"

namespace quantd::client {

// FieldError for what is out of range.
absl::Status CheckOptions(const ClientOptions& options);

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_NET_CLIENT_OPTIONS_H_
