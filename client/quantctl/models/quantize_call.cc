#include "client/quantctl/models/quantize_call.h"

#include <string>

namespace quantd::quantctl {

checkpoint::QuantizeCall CallTo(Client* client, const Options& options,
                                FirstFailure* failure) {
  return [client, failure, call = CallOf(options), way = options.transport](
             const TensorDesc& tensor, absl::Span<const std::byte> bytes,
             const QuantizeOptions& o) {
    auto made = client->Quantize(tensor, bytes, o, call);
    if (made.ok() && way && made->transport() != *way) {
      made = OtherWay(*way, std::string(Name(made->transport())));
    }
    if (!made.ok()) failure->Note(made.status());
    return made;
  };
}

}  // namespace quantd::quantctl
