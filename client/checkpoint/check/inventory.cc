#include "client/checkpoint/check/inventory.h"

#include <map>
#include <set>
#include <utility>

namespace quantd::checkpoint {

std::vector<Kind> InventoryOf(const Model& model, const StoredModel& stored) {
  std::map<std::pair<std::string, std::string>, Kind> kinds;
  const std::set<const ModelTensor*> parts = stored.tensors();
  for (const StoredWeight& w : stored.weights) {
    const std::string format(Name(w.layout->format));
    const std::string dialect(Name(w.layout->dialect));
    Kind& kind = kinds[{format, dialect}];
    kind.format = format;
    kind.dialect = dialect;
    ++kind.tensors;
    kind.parameters += static_cast<uint64_t>(w.experts * w.rows * w.cols);
    kind.bytes += w.size_bytes();
  }
  for (const ModelTensor& t : model.tensors()) {
    if (parts.count(&t) > 0) continue;
    Kind& kind = kinds[{t.stored.dtype, ""}];
    kind.format = t.stored.dtype;
    ++kind.tensors;
    kind.bytes += t.stored.size;
    uint64_t elements = 1;
    for (const int64_t d : t.stored.shape) elements *= static_cast<uint64_t>(d);
    kind.parameters += elements;
  }
  std::vector<Kind> out;
  for (auto& [key, kind] : kinds) out.push_back(std::move(kind));
  return out;
}

Json JsonOf(const std::vector<Kind>& kinds) {
  Json out = Json::array();
  for (const Kind& k : kinds) {
    out.push_back({{"format", k.format},
                   {"dialect", k.dialect},
                   {"tensors", k.tensors},
                   {"parameters", k.parameters},
                   {"bytes", k.bytes}});
  }
  return out;
}

}  // namespace quantd::checkpoint
