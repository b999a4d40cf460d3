// A stub of the only call that a quantized tensor makes. With it, the fuzzers
// of file parsers are built without the client and gRPC.
#include "quantd/client.h"

namespace quantd {

absl::StatusOr<Result> Client::Dequantize(const TensorDesc&,
                                          const QuantizedBytes&,
                                          const DequantizeOptions&,
                                          const CallOptions&) {
  return absl::UnavailableError("this program has no server");
}

}  // namespace quantd
