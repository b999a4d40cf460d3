// A server's description of itself, and of the reply to a request.
#ifndef QUANTD_SERVER_INFO_H_
#define QUANTD_SERVER_INFO_H_

#include <cstdint>
#include <string>
#include <vector>

#include "quantd/format.h"
#include "quantd/plan.h"

namespace quantd {

// The reply that a Quantize call would get.
struct QuantizeDescription {
  std::vector<TensorSpec> parts;  // offsets are those of the reply's payload
  uint64_t input_bytes = 0;       // payload of the request
  uint64_t output_bytes = 0;      // payload of the reply
  uint64_t scratch_bytes = 0;     // device memory in addition to both
  std::string request_id;
};

struct DeviceInfo {
  std::string name;         // "cuda:0"
  std::string kind;         // "cuda"
  std::string description;  // for people to read
  bool healthy = false;
  uint64_t memory_limit_bytes = 0;
  uint64_t memory_high_water_bytes = 0;
  uint64_t jobs = 0;
  uint64_t rht_cache_hits = 0;
  uint64_t rht_cache_misses = 0;
  uint64_t rht_launches = 0;
};

struct FormatSupport {
  Format format = Format::kUnspecified;  // unspecified: unknown to this client
  std::string name;
  std::vector<std::string> device_kinds;
  std::vector<DType> inputs;
  std::vector<Usage> usages;
  std::vector<int> rht_dimensions;   // empty: no rotation
  std::vector<std::string> options;  // names as in WIRE.md: "row_scaled"
};

struct ServerInfo {
  std::string version;
  uint64_t max_request_bytes = 0;    // one serialized request
  uint64_t memory_budget_bytes = 0;  // payload memory of the whole server
  int max_rank = 0;
  // The amax_estimation_scale of requests that do not set it; 0: none.
  float amax_estimation_scale = 0;
  bool reduces_amax = false;  // whether streams can reduce an amax
  std::vector<DeviceInfo> devices;
  std::vector<FormatSupport> formats;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_INFO_H_
