#include "server/calls/call_record.h"

#include "fmt/format.h"
#include "server/observe/log.h"

namespace quantd {
namespace {

using Clock = CallRecord::Clock;
static_assert(std::is_same_v<Clock::duration, std::chrono::nanoseconds>);

std::optional<int64_t> Between(Clock::time_point from, Clock::time_point to) {
  if (from == Clock::time_point() || to == Clock::time_point()) {
    return std::nullopt;
  }
  return (to - from).count();
}

std::optional<int64_t> OfDevice(int64_t nanoseconds) {
  return nanoseconds == 0 ? std::nullopt : std::optional(nanoseconds);
}

LogLevel LevelOf(const CallRecord& record) {
  return record.code == grpc::StatusCode::INTERNAL ? LogLevel::kError
         : record.code == grpc::StatusCode::OK     ? LogLevel::kDebug
                                                   : LogLevel::kInfo;
}

}  // namespace

std::optional<int64_t> CallRecord::Duration(CallStage stage) const {
  switch (stage) {
    case CallStage::kWait:
      return Between(arrived, admitted);
    case CallStage::kReceive:
      return Between(admitted, received);
    case CallStage::kQueue:
      return Between(received, started);
    case CallStage::kGather:
      return Between(started, gathered);
    case CallStage::kCopyIn:
      return OfDevice(device_times.copy_in_ns);
    case CallStage::kKernel:
      return OfDevice(device_times.compute_ns);
    case CallStage::kCopyOut:
      return OfDevice(device_times.copy_out_ns);
    case CallStage::kSend:
      return Between(answered, sent);
  }
  return std::nullopt;
}

bool WouldLog(const CallRecord& record) { return LogEnabled(LevelOf(record)); }

void LogCall(const CallRecord& record, std::string_view peer,
             std::string_view caller, std::string_view shape) {
  const auto microseconds = [&](CallStage stage) {
    return record.Duration(stage).value_or(0) / 1000;
  };
  const std::string kind =
      fmt::format("{} {} {}", wire::Name(record.method), Name(record.code),
                  v1::ErrorDetail::Reason_Name(record.reason));
  LogSampled(LevelOf(record), "call", kind,
             {{"id", record.id},
              {"trace_id", record.trace ? record.trace->trace() : ""},
              {"parent_id", record.trace ? record.trace->span() : ""},
              {"peer", peer},
              {"caller", caller},
              {"method", wire::Name(record.method)},
              {"streamed", record.streamed},
              {"code", Name(record.code)},
              {"error", record.error},
              {"shape", shape},
              {"device", record.device},
              {"request_bytes", record.request_bytes},
              {"reply_bytes", record.reply_bytes},
              {"shared_input_bytes", record.shared_input_bytes},
              {"shared_output_bytes", record.shared_output_bytes},
              {"wait_us", microseconds(CallStage::kWait)},
              {"receive_us", microseconds(CallStage::kReceive)},
              {"queue_us", microseconds(CallStage::kQueue)},
              {"gather_us", microseconds(CallStage::kGather)},
              {"compute_us",
               Between(record.gathered, record.computed).value_or(0) / 1000},
              {"copy_in_us", microseconds(CallStage::kCopyIn)},
              {"kernel_us", microseconds(CallStage::kKernel)},
              {"copy_out_us", microseconds(CallStage::kCopyOut)},
              {"send_us", microseconds(CallStage::kSend)},
              {"total_us", record.Total() / 1000}});
}

}  // namespace quantd
