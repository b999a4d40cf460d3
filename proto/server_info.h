// The reply of GetServerInfo: what the devices of a server, or of a client's
// own process, can do.
#ifndef QUANTD_PROTO_SERVER_INFO_H_
#define QUANTD_PROTO_SERVER_INFO_H_

#include <vector>

#include "kernels/device/backend.h"
#include "quantd.pb.h"
#include "quantd/server_info.h"

namespace quantd::wire {

struct DeviceState {
  const BackendInfo& info;
  BackendStats stats;
  bool healthy = false;
};

// Describes devices and formats. The caller sets version and limits.
v1::GetServerInfoReply DescribeDevices(const std::vector<DeviceState>& devices);

// Unknown enum numbers of formats and dtypes become unspecified; those of
// usages are kept.
ServerInfo FromProto(const v1::GetServerInfoReply& reply);

}  // namespace quantd::wire

#endif  // QUANTD_PROTO_SERVER_INFO_H_
