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
// The first message of a stream with the tensor of QuantizeRequestOf, and a
// chunk of zeros to follow it.
std::string StreamStartOf(int64_t rows, bool reduces = false);
std::string ChunkOf(size_t bytes);
// A Quantize request of 512 bytes in `groups` groups. All but the first are
// empty.
std::string GroupsRequest(int groups);
// A Dequantize request whose reply of rows x 4096 fp32 is seven times as large.
std::string DequantizeRequestOf(int64_t rows);
// A Dequantize request that is refused because the shape of its codes has
// `numbers` dimensions.
std::string WrongShapeRequest(int numbers);

}  // namespace quantd::attack

#endif  // QUANTD_TESTS_ATTACK_REQUESTS_H_
