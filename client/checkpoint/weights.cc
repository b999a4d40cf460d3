#include "client/checkpoint/weights.h"

#include <map>
#include <utility>

#include "client/checkpoint/stacked.h"
#include "client/files/quantized_file.h"
#include "kernels/plan/profile/profile.h"

namespace quantd::checkpoint {
namespace {

// Some libraries store fp32 scales in the type of the weight.
std::string TypeOf(const Weight& w, const StoredPart& part) {
  if (part.source != PartSource::kScales || part.dtype != "F32") {
    return std::string(part.dtype);
  }
  const DType type = FromSafetensorsName(w.source->stored.dtype);
  return std::string(
      SafetensorsName(FormatUnder(w.profile, w.layout->codes, type).scale));
}

}  // namespace

absl::StatusOr<std::vector<Weight>> WeightsOf(const Model& model,
                                              const ModelTensor& tensor,
                                              bool whole) {
  std::vector<Weight> weights;
  const std::vector<int64_t>& shape = tensor.stored.shape;
  if (!IsFloat(FromSafetensorsName(tensor.stored.dtype))) return weights;
  if (IsStacked(tensor)) return Unstack(model, tensor, whole);
  if (shape.size() != 2 || !tensor.name().ends_with(".weight")) return weights;
  Weight w;
  w.module = std::string(ModuleOf(tensor.name()));
  w.source = &tensor;
  w.rows = shape[0];
  w.cols = shape[1];
  w.pitch = SizeOfShape(tensor.stored.dtype, {w.cols});
  weights.push_back(std::move(w));
  return weights;
}

std::vector<FusedWeights> FuseWeights(std::vector<Weight> weights,
                                      const Architecture& architecture) {
  std::vector<FusedWeights> groups;
  std::map<std::string, size_t> places;
  for (Weight& w : weights) {
    std::string key;
    if (NeedsAmax(*w.layout)) {
      key = architecture.FusionKey(w.module, w.cols);
      // One scale serves one format.
      if (!key.empty()) key += Name(w.layout->format);
    }
    const auto [place, fresh] = key.empty()
                                    ? std::pair(places.end(), true)
                                    : places.emplace(key, groups.size());
    if (fresh) groups.emplace_back();
    FusedWeights& group = fresh ? groups.back() : groups[place->second];
    group.weights.push_back(std::move(w));
  }
  return groups;
}

std::vector<safetensors::Tensor> PartsOf(Weight* w) {
  std::vector<safetensors::Tensor> tensors;
  for (const StoredPart& part : w->layout->parts) {
    if (part.source == PartSource::kNothing ||
        (part.source == PartSource::kInputScale && !w->input_amax)) {
      continue;
    }
    const auto shape = ShapeOf(*w->layout, part.source, w->rows, w->cols);
    const std::string dtype = TypeOf(*w, part);
    const size_t size = SizeOfShape(dtype, shape);
    const std::string name = w->module + std::string(part.suffix);
    w->outputs.push_back({part.source, name, 0, size});
    tensors.push_back({name, dtype, shape, 0, size});
  }
  return tensors;
}

// [E, N, K / 32, 16] and [E, N, K / 32].
std::vector<safetensors::Tensor> PartsOfStack(
    const std::vector<Weight*>& experts) {
  std::vector<safetensors::Tensor> tensors;
  const Weight& first = *experts.front();
  for (const StoredPart& part : first.layout->parts) {
    if (part.source == PartSource::kNothing) continue;
    const int64_t block = BlockOf(*first.layout).cols;
    std::vector<int64_t> shape = {static_cast<int64_t>(experts.size()),
                                  first.rows, first.cols / block};
    if (part.source == PartSource::kCodes) shape.push_back(block / 2);
    const std::string name = first.module + std::string(part.suffix);
    const size_t size = SizeOfShape(part.dtype, shape);
    const size_t each = size / experts.size();
    for (size_t e = 0; e < experts.size(); ++e) {
      experts[e]->outputs.push_back({part.source, name, e * each, each});
    }
    tensors.push_back({name, std::string(part.dtype), shape, 0, size});
  }
  return tensors;
}

}  // namespace quantd::checkpoint
