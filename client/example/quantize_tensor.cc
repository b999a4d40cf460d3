// Quantizes a small tensor to NVFP4, saves it, loads it and decodes it again.
//
//   quantize_tensor local weight.safetensors
//   quantize_tensor 127.0.0.1:50151 weight.safetensors
#include <cmath>
#include <cstdint>
#include <iostream>
#include <memory>
#include <vector>

#include "quantd/local.h"
#include "quantd/quantizer.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: quantize_tensor SERVER FILE.safetensors\n";
    return 2;
  }
  const auto fail = [](const absl::Status& status) {
    std::cerr << status.message() << "\n";
    return 1;
  };
  auto created = quantd::CreateClient(argv[1]);
  if (!created.ok()) return fail(created.status());
  const std::shared_ptr<quantd::Client> client = *std::move(created);

  const std::vector<int64_t> shape = {64, 256};
  std::vector<float> x(64 * 256);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = std::sin(0.37f * static_cast<float>(i));
  }

  quantd::Quantizer quantizer(client);
  quantizer.set_usage(/*rowwise=*/true, /*columnwise=*/false);
  const auto quantized = quantizer.Quantize(x, shape);
  if (!quantized.ok()) return fail(quantized.status());
  if (auto s = quantized->Save(argv[2], "weight"); !s.ok()) return fail(s);

  const auto loaded = quantd::QuantizedTensor::Load(argv[2]);
  if (!loaded.ok()) return fail(loaded.status());
  const auto decoded = loaded->Dequantize(*client, quantd::DType::kF32);
  if (!decoded.ok()) return fail(decoded.status());

  const auto y = decoded->as<float>(quantd::TensorKind::kDequantized);
  double signal = 0;
  double noise = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    signal += x[i] * x[i];
    noise += (x[i] - y[i]) * (x[i] - y[i]);
  }
  std::cout << x.size() * sizeof(float) << " bytes became "
            << loaded->size_bytes() << ", SQNR "
            << 10 * std::log10(signal / noise) << " dB\n";
}
