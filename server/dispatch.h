// Which code answers which method.
#ifndef QUANTD_SERVER_DISPATCH_H_
#define QUANTD_SERVER_DISPATCH_H_

#include <memory>

#include "server/call_environment.h"
#include "server/incoming_call.h"

namespace quantd {

// Never null: a method that nobody knows has a handler that says so.
std::unique_ptr<CallHandler> MakeHandler(CallEnvironment* env,
                                         IncomingCall* call);

}  // namespace quantd

#endif  // QUANTD_SERVER_DISPATCH_H_
