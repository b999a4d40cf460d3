// The one call that a quantized tensor makes, for programs that make none: so
// that files are built for the fuzzer without the client and its gRPC.
#include "quantd/client.h"

namespace quantd {

absl::StatusOr<Result> Client::Dequantize(const TensorDesc&,
                                          const QuantizedBytes&,
                                          const DequantizeOptions&,
                                          const CallOptions&) {
  return absl::UnavailableError("there is no server here");
}

}  // namespace quantd
