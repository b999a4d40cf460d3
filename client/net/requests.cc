#include "client/net/requests.h"

#include <utility>

#include "proto/wire.h"

namespace quantd::client {

absl::StatusOr<Message> RequestOf(const Plan& plan, const Lending& lending) {
  size_t size = 0;
  for (const auto& piece : lending.payload) size += piece.size();
  auto head = wire::RequestHead(plan, size, lending.ranges, lending.amax);
  if (!head.ok()) return head.status();
  return Message{wire::SpecOf(wire::MethodOf(plan)).path, *std::move(head),
                 lending.payload};
}

absl::StatusOr<Message> DescribeRequestOf(const Plan& plan) {
  auto head = wire::RequestHead(plan, 0);
  if (!head.ok()) return head.status();
  return Message{
      wire::SpecOf(wire::Method::kDescribeQuantize).path, *std::move(head), {}};
}

Message ServerInfoRequest() {
  return {wire::SpecOf(wire::Method::kGetServerInfo).path, "", {}};
}

}  // namespace quantd::client
