#include "tests/attack/requests.h"

#include "quantd.pb.h"

namespace quantd::attack {
namespace {

v1::QuantizeRequest Nvfp4(int64_t rows, int64_t columns) {
  v1::QuantizeRequest request;
  request.mutable_tensor()->set_dtype(v1::DTYPE_BF16);
  request.mutable_tensor()->add_shape(rows);
  request.mutable_tensor()->add_shape(columns);
  request.mutable_options()->set_format(v1::FORMAT_NVFP4);
  request.mutable_options()->set_usage(v1::USAGE_ROWWISE);
  request.set_payload(std::string(static_cast<size_t>(rows * columns * 2), 0));
  return request;
}

}  // namespace

std::string QuantizeRequestOf(int64_t rows) {
  return Nvfp4(rows, 1024).SerializeAsString();
}

std::string GroupsRequest(int groups) {
  v1::QuantizeRequest request = Nvfp4(16, 16);
  for (int i = 0; i < groups; ++i) {
    request.mutable_options()->mutable_splits()->add_rows(i == 0 ? 16 : 0);
  }
  return request.SerializeAsString();
}

std::string DequantizeRequestOf(int64_t rows) {
  constexpr int64_t kColumns = 4096;
  v1::DequantizeRequest request;
  request.mutable_tensor()->add_shape(rows);
  request.mutable_tensor()->add_shape(kColumns);
  request.mutable_options()->set_format(v1::FORMAT_NVFP4);
  request.mutable_options()->set_output(v1::DTYPE_F32);
  // Codes, scales and the amax.
  request.set_payload(std::string(
      static_cast<size_t>(rows * kColumns / 2 + rows * kColumns / 16 + 4), 0));
  return request.SerializeAsString();
}

}  // namespace quantd::attack
