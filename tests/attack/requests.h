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
inline constexpr char kReflection[] =
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";

// Quantize: bf16 zeros of rows x 1024 as NVFP4, rowwise.
std::string QuantizeRequestOf(int64_t rows);
// Quantize: bf16 zeros of rows x 1 as FP8 in squares, rowwise.
std::string SlowRequestOf(int64_t rows);
// QuantizeRequestOf as the first message of a stream, and a chunk of zeros.
std::string StreamStartOf(int64_t rows, bool reduces = false);
std::string ChunkOf(size_t bytes);
// Quantize of 512 bytes in that many groups, all but one of them empty.
std::string GroupsRequest(int groups);
// Dequantize: a reply of rows x 4096 fp32 from a seventh of its bytes.
std::string DequantizeRequestOf(int64_t rows);
// Dequantize that is refused because of a shape with that many numbers.
std::string WrongShapeRequest(int numbers);

}  // namespace quantd::attack

#endif  // QUANTD_TESTS_ATTACK_REQUESTS_H_
