// A stub of the only call that a quantized tensor makes. It allows to build
// file parsers for the fuzzer without the client and gRPC.
#include "quantd/client.h"

namespace quantd {

absl::StatusOr<Result> Client::Dequantize(const TensorDesc&,
                                          const QuantizedBytes&,
                                          const DequantizeOptions&,
                                          const CallOptions&) {
  return absl::UnavailableError("this program has no server");
}

}  // namespace quantd
