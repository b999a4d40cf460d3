// Returns the handler of a small method's call.
#ifndef QUANTD_SERVER_CALLS_SMALL_CALL_H_
#define QUANTD_SERVER_CALLS_SMALL_CALL_H_

#include <memory>

#include "server/calls/incoming_call.h"
#include "server/calls/small_method.h"

namespace quantd {

std::unique_ptr<CallHandler> MakeSmallCall(CallEnvironment* env,
                                           IncomingCall* call,
                                           SmallMethod method);

}  // namespace quantd

#endif  // QUANTD_SERVER_CALLS_SMALL_CALL_H_
