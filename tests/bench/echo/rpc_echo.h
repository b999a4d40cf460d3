// The ceiling for a unary RPC on raw bytes: a gRPC server that only copies its
// request once and replies with 0.28 of its size.
#ifndef QUANTD_TESTS_BENCH_ECHO_RPC_ECHO_H_
#define QUANTD_TESTS_BENCH_ECHO_RPC_ECHO_H_

#include <cstddef>
#include <string>

namespace quantd::bench {

// Serves /quantd.v1.Quantd/Quantize on a free loopback port and writes
// "host:port" to `port_file`. Returns the exit code after SIGTERM.
int RunEcho(const std::string& port_file);

// Returns the bytes of the reply to a payload of n bytes.
constexpr size_t EchoBytes(size_t n) { return n / 32 * 9; }

}  // namespace quantd::bench

#endif  // QUANTD_TESTS_BENCH_ECHO_RPC_ECHO_H_
