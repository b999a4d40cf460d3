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
  return request;
}

v1::QuantizeRequest Whole(int64_t rows, int64_t columns) {
  v1::QuantizeRequest request = Nvfp4(rows, columns);
  request.set_payload(std::string(static_cast<size_t>(rows * columns * 2), 0));
  return request;
}

}  // namespace

std::string QuantizeRequestOf(int64_t rows) {
  return Whole(rows, 1024).SerializeAsString();
}

std::string SlowRequestOf(int64_t rows) {
  v1::QuantizeRequest request = Whole(rows, 1);
  request.mutable_options()->set_format(v1::FORMAT_FP8_BLOCK_2D_E4M3);
  return request.SerializeAsString();
}

std::string StreamStartOf(int64_t rows, bool reduces) {
  v1::StreamRequest start;
  *(reduces ? start.mutable_reduce_amax() : start.mutable_quantize()) =
      Nvfp4(rows, 1024);
  start.set_payload_bytes(static_cast<uint64_t>(rows) * 2048);
  return start.SerializeAsString();
}

std::string ChunkOf(size_t bytes) {
  v1::StreamRequest message;
  message.set_chunk(std::string(bytes, 0));
  return message.SerializeAsString();
}

std::string GroupsRequest(int groups) {
  v1::QuantizeRequest request = Whole(16, 16);
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
  // The payload has codes, scales and the amax.
  request.set_payload(std::string(
      static_cast<size_t>(rows * kColumns / 2 + rows * kColumns / 16 + 4), 0));
  return request.SerializeAsString();
}

std::string WrongShapeRequest(int numbers) {
  v1::DequantizeRequest request;
  request.mutable_tensor()->add_shape(16);
  request.mutable_tensor()->add_shape(16);
  request.mutable_options()->set_format(v1::FORMAT_FP8_E4M3);
  request.mutable_options()->set_output(v1::DTYPE_F32);
  v1::TensorRef* const codes = request.add_tensors();
  codes->set_kind(v1::TENSOR_KIND_ROWWISE_DATA);
  for (int i = 0; i < numbers; ++i) codes->add_shape(1);
  return request.SerializeAsString();
}

}  // namespace quantd::attack
