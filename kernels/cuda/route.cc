#include "kernels/cuda/route.h"

#include <variant>

#include "kernels/device/task.h"
#include "kernels/plan/amax_source.h"

namespace quantd::cuda {
namespace {

void FindMaxima(const QuantizeOptions& o, Route* route) {
  // Somebody must see NaN and Inf.
  route->plain = o.amax || o.usage == Usage::kNone;
  for (bool columnwise : {false, true}) {
    switch (SourceOfAmax(o, columnwise).kind) {
      case AmaxSource::Kind::kLines:
        route->lines[columnwise] = true;
        break;
      case AmaxSource::Kind::kRotated:
        route->rotated[columnwise] = true;
        break;
      case AmaxSource::Kind::kPlain:
        route->plain = true;
        break;
      case AmaxSource::Kind::kNone:
      case AmaxSource::Kind::kGiven:
        break;
    }
  }
}

struct Visitor {
  const Plan& plan;

  Route operator()(const QuantizeOptions& o) const {
    Route route;
    FindMaxima(o, &route);
    route.copies = o.usage != Usage::kNone;
    route.groups = o.dbias;
    route.tuned_amax =
        CanTune(route, o.rht.dimension) && !route.lines[0] && !route.lines[1];
    return route;
  }
  Route operator()(const RhtAmaxOptions& o) const {
    Route route;
    route.plain = true;
    route.rotated[0] = o.rowwise_rht;
    route.rotated[1] = o.columnwise_rht;
    route.tuned_amax =
        CanTune(route, o.rht_dimension) && o.domain == AmaxDomain::kTensor;
    return route;
  }
  Route operator()(const DequantizeOptions&) const {
    Route route;
    route.copies = true;
    return route;
  }
  Route operator()(const ApplyRhtOptions&) const { return {}; }

  bool CanTune(const Route& route, int dimension) const {
    const bool rotates = route.rotated[0] || route.rotated[1];
    return !plan.grouped() && (!rotates || dimension == kRhtSize);
  }
};

}  // namespace

Route MakeRoute(const Plan& plan) {
  Route route = std::visit(Visitor{plan}, plan.options());
  // Decoding, and quantization of bf16, have kernels for every group list.
  const bool encodes = std::holds_alternative<QuantizeOptions>(plan.options());
  route.tuned_copies = encodes && plan.tensor().dtype != DType::kBF16 &&
                       !plan.grouped() && IsPlainNvfp4(plan);
  route.groups |= route.maxima() && !route.tuned_amax;
  route.groups |= route.copies && !route.tuned_copies;
  return route;
}

}  // namespace quantd::cuda
