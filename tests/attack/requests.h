// Serialized requests for attackers.
#ifndef QUANTD_TESTS_ATTACK_REQUESTS_H_
#define QUANTD_TESTS_ATTACK_REQUESTS_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace quantd::attack {

inline constexpr size_t kMiB = 1 << 20;

inline constexpr char kQuantize[] = "/quantd.v1.Quantd/Quantize";
inline constexpr char kDequantize[] = "/quantd.v1.Quantd/Dequantize";
inline constexpr char kStream[] = "/quantd.v1.Quantd/Stream";
inline constexpr char kServerInfo[] = "/quantd.v1.Quantd/GetServerInfo";
inline constexpr char kCheck[] = "/grpc.health.v1.Health/Check";
inline constexpr char kWatch[] = "/grpc.health.v1.Health/Watch";

// A Quantize request of rows x 1024 bf16 zeros to NVFP4, rowwise.
std::string QuantizeRequestOf(int64_t rows);
// A Quantize request of rows x 1 bf16 zeros to FP8 in square blocks, rowwise.
std::string SlowRequestOf(int64_t rows);
// QuantizeRequestOf as the first message of a stream, followed by a chunk of
// zeros.
std::string StreamStartOf(int64_t rows, bool reduces = false);
std::string ChunkOf(size_t bytes);
// A Quantize request of 512 bytes in `groups` groups, only one of them not
// empty.
std::string GroupsRequest(int groups);
// A Dequantize request whose reply of rows x 4096 fp32 is seven times as large.
std::string DequantizeRequestOf(int64_t rows);
// A Dequantize request that is refused because its shape has `numbers`
// dimensions.
std::string WrongShapeRequest(int numbers);

}  // namespace quantd::attack

#endif  // QUANTD_TESTS_ATTACK_REQUESTS_H_
