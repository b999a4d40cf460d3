#include "client/python/native/request.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "proto/messages.h"
#include "proto/wire.h"

namespace quantd::python {
namespace {

std::string_view Text(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Returns bytes [offset, offset + size) of the concatenated slices. They are
// used in place if one slice contains them, and otherwise copied into `joined`.
absl::StatusOr<Bytes> Find(wire::Slices slices, size_t offset, size_t size,
                           std::vector<AlignedBytes>* joined) {
  if (size == 0) return Bytes();
  AlignedBytes* target = nullptr;
  size_t done = 0;
  for (const std::string_view slice : slices) {
    if (offset >= slice.size()) {
      offset -= slice.size();
      continue;
    }
    const std::string_view part = slice.substr(offset, size - done);
    offset = 0;
    if (target == nullptr) {
      if (part.size() == size) {
        return Bytes(reinterpret_cast<const std::byte*>(part.data()), size);
      }
      target = &joined->emplace_back(size);
      if (target->span().size() != size) {
        return absl::ResourceExhaustedError(
            "no memory to join the buffers of the payload");
      }
    }
    std::memcpy(target->span().data() + done, part.data(), part.size());
    done += part.size();
    if (done == size) break;
  }
  return std::as_const(*target).span();
}

// The plan of a request that consists of a tensor and options.
template <typename Options>
absl::StatusOr<std::shared_ptr<const Plan>> ReadPlan(std::string_view header) {
  typename wire::TensorRpc<Options>::Request message;
  if (!message.ParseFromArray(header.data(), static_cast<int>(header.size()))) {
    return wire::Malformed("a field inside it is not valid");
  }
  const auto tensor = wire::FromProto(message.tensor());
  if (!tensor.ok()) return tensor.status();
  const auto options = wire::FromProto(message.options());
  if (!options.ok()) return options.status();
  auto plan = wire::TensorRpc<Options>::kMakePlan(*tensor, *options);
  if (!plan.ok()) return plan.status();
  return std::make_shared<const Plan>(*std::move(plan));
}

absl::StatusOr<Request> ReadDequantize(std::string_view header,
                                       absl::Span<const Bytes> payload) {
  size_t size = 0;
  for (const Bytes& buffer : payload) size += buffer.size();
  std::string prefix;
  if (size > 0) wire::AppendPayloadPrefix(size, &prefix);
  std::vector<std::string_view> slices = {header, prefix};
  for (const Bytes& buffer : payload) slices.push_back(Text(buffer));
  const auto read = wire::ParseRequest(wire::Method::kDequantize, slices);
  if (!read.ok()) return read.status();
  Request request;
  request.plan = read->plan;
  for (const wire::Request::Source& source : read->sources) {
    if (!source.literal.empty()) {
      // The amax is a field of the message and not a part of the payload.
      AlignedBytes& amax = request.joined.emplace_back(source.literal.size());
      if (amax.span().empty()) return absl::ResourceExhaustedError("no memory");
      std::memcpy(amax.span().data(), source.literal.data(),
                  source.literal.size());
      request.inputs.push_back(std::as_const(amax).span());
      continue;
    }
    const auto input =
        Find(slices, source.range.offset, source.range.size, &request.joined);
    if (!input.ok()) return input.status();
    request.inputs.push_back(*input);
  }
  return request;
}

absl::StatusOr<std::shared_ptr<const Plan>> PlanOf(wire::Method method,
                                                   std::string_view header) {
  if (method == wire::Method::kQuantize) {
    return wire::ParseDescribeRequest({&header, 1}, {}, SIZE_MAX);
  }
  return wire::WithOptionsOf(method, [&](auto type) {
    return ReadPlan<typename decltype(type)::type>(header);
  });
}

}  // namespace

absl::StatusOr<Request> ReadRequest(wire::Method method,
                                    std::string_view header,
                                    absl::Span<const Bytes> payload,
                                    std::shared_ptr<const Plan> known) {
  if (method == wire::Method::kDequantize) {
    return ReadDequantize(header, payload);
  }
  if (header.size() > wire::kMaxRequestHeadBytes) {
    return wire::HeadTooLarge(wire::kMaxRequestHeadBytes);
  }
  Request request;
  request.plan = std::move(known);
  if (request.plan == nullptr) {
    auto plan = PlanOf(method, header);
    if (!plan.ok()) return plan.status();
    request.plan = *std::move(plan);
  }
  // The whole payload is the only input. The client checks its size.
  std::vector<std::string_view> slices;
  size_t size = 0;
  for (const Bytes& buffer : payload) {
    slices.push_back(Text(buffer));
    size += buffer.size();
  }
  const auto input = Find(slices, 0, size, &request.joined);
  if (!input.ok()) return input.status();
  request.inputs.push_back(*input);
  return request;
}

std::optional<wire::Method> MethodByName(std::string_view name) {
  const auto* row =
      std::find_if(std::begin(wire::kMethods), std::end(wire::kMethods),
                   [&](const wire::MethodSpec& spec) {
                     return wire::Name(spec.method) == name;
                   });
  if (row == std::end(wire::kMethods)) return std::nullopt;
  return row->method;
}

}  // namespace quantd::python
