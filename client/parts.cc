#include "client/parts.h"

#include <variant>

namespace quantd {
namespace {

bool IsRowwiseAmax(TensorKind kind) {
  return kind == TensorKind::kRowwiseAmax ||
         kind == TensorKind::kRowwiseRhtAmax;
}

// Whether a part holds something for each row of the tensor, so that a group
// has as much of it as it has rows.
bool ByRows(const Plan& plan, TensorKind kind) {
  if (kind == TensorKind::kDequantized) return true;
  if (!IsRowwiseAmax(kind)) return false;
  if (const auto* q = std::get_if<QuantizeOptions>(&plan.options())) {
    return q->form.row_scaled;
  }
  const auto* amax = std::get_if<RhtAmaxOptions>(&plan.options());
  return amax != nullptr && amax->domain == AmaxDomain::kRow;
}

}  // namespace

std::vector<TensorSpec> PartsOf(const Plan& plan) {
  std::vector<TensorSpec> parts = plan.outputs();
  if (!plan.grouped()) return parts;
  for (TensorSpec& part : parts) {
    if (!part.group_offsets.empty()) continue;
    const bool by_rows = ByRows(plan, part.kind);
    const auto rows = static_cast<size_t>(plan.rows());
    const size_t each = by_rows ? (rows == 0 ? 0 : part.size / rows)
                                : part.size / plan.groups().size();
    size_t offset = 0;
    for (const Group& group : plan.groups()) {
      part.group_offsets.push_back(offset);
      offset += by_rows ? each * static_cast<size_t>(group.rows) : each;
    }
    part.group_offsets.push_back(offset);
  }
  return parts;
}

absl::Span<const std::byte> GroupBytes(const TensorSpec& part,
                                       absl::Span<const std::byte> bytes,
                                       size_t i) {
  if (i + 1 >= part.group_offsets.size()) return {};
  const size_t begin = part.group_offsets[i];
  const size_t end = part.group_offsets[i + 1];
  if (begin > end || end > bytes.size()) return {};
  return bytes.subspan(begin, end - begin);
}

}  // namespace quantd
