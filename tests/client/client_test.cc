// Tests of the SDK with a scripted server.
#include "quantd/client.h"

#include <atomic>
#include <cstring>
#include <functional>
#include <numeric>
#include <thread>

#include "tests/client/calls.h"

namespace quantd {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

TEST(Create, RefusesBadOptions) {
  EXPECT_THAT(Client::Create(""), StatusIs(absl::StatusCode::kInvalidArgument));
  const auto refused = [](auto change) {
    ClientOptions options;
    change(options);
    const auto client = Client::Create("127.0.0.1:1", options);
    const auto violation = GetFieldViolation(client.status());
    return violation ? violation->field : "";
  };
  EXPECT_EQ(refused([](auto& o) { o.channels = 0; }), "channels");
  EXPECT_EQ(refused([](auto& o) { o.max_in_flight = 0; }), "max_in_flight");
  EXPECT_EQ(refused([](auto& o) { o.band_bytes = 1000; }), "band_bytes");
  EXPECT_EQ(refused([](auto& o) { o.deadline = milliseconds(0); }), "deadline");
  EXPECT_EQ(refused([](auto& o) { o.dead_peer_timeout = milliseconds(1); }),
            "dead_peer_timeout");
  EXPECT_EQ(refused([](auto& o) { o.busy_poll = milliseconds(101); }),
            "busy_poll");
  EXPECT_EQ(refused([](auto& o) { o.retry.max_attempts = 0; }),
            "retry.max_attempts");
  EXPECT_EQ(refused([](auto& o) { o.retry.max_backoff = milliseconds(1); }),
            "retry.max_backoff");
  EXPECT_EQ(refused([](auto& o) { o.retry.multiplier = 0.5; }),
            "retry.multiplier");
}

// This test program does not link the kernels.
TEST(Create, ExplainsWhyLocalIsUnavailable) {
  const auto client = Client::Create("local");
  EXPECT_THAT(client, StatusIs(absl::StatusCode::kUnimplemented));
  EXPECT_THAT(std::string(client.status().message()),
              HasSubstr("link quantd::local"));
}

TEST(Client, RefusesIllegalRequestsWithoutSending) {
  FakeServer server;
  const auto client = Connect(server.target());
  const auto field = [](const absl::StatusOr<Result>& r) {
    const auto violation = GetFieldViolation(r.status());
    return violation ? violation->field : r.status().ToString();
  };
  Input odd({4, 24});
  EXPECT_EQ(field(client->Quantize(odd.desc, odd.data, Nvfp4())),
            "tensor.shape");
  EXPECT_EQ(FieldOf(client->DescribeQuantize(odd.desc, Nvfp4()).status()),
            "tensor.shape");
  Input good({4, 32});
  EXPECT_EQ(field(client->Quantize(good.desc, good.data, {})), "format");
  good.data.pop_back();
  EXPECT_EQ(field(client->Quantize(good.desc, good.data, Nvfp4())), "payload");
  EXPECT_EQ(
      field(client->Dequantize(
          good.desc, {}, {.format = Format::kNvfp4, .output = DType::kF32})),
      "rowwise_data");
  EXPECT_EQ(field(client->RhtAmax(good.desc, good.data, {})),
            "rowwise, rowwise_rht, columnwise, columnwise_rht");
  EXPECT_EQ(server.calls(), 0);
}

TEST(Client, SendsTheRequestAndReadsTheReply) {
  FakeServer server;
  const auto client = Connect(server.target());
  // Payloads below and above the size from which the request borrows them
  // instead of copying.
  for (const int64_t rows : {2, 1000}) {
    Input in({rows, 2, 48});
    std::iota(reinterpret_cast<uint8_t*>(in.data.data()),
              reinterpret_cast<uint8_t*>(in.data.data()) + in.data.size(), 0);
    const QuantizeOptions options = Nvfp4(Usage::kBoth);
    const auto result = client->Quantize(in.desc, in.data, options);
    ASSERT_THAT(result, IsOk());
    const v1::QuantizeRequest request = server.last_request();
    EXPECT_EQ(request.payload().size(), in.data.size());
    EXPECT_EQ(
        std::memcmp(request.payload().data(), in.data.data(), in.data.size()),
        0);
    EXPECT_EQ(server.last_metadata("quantd-request-bytes"),
              std::to_string(request.ByteSizeLong()));

    const auto plan = MakeQuantizePlan(in.desc, options);
    ASSERT_EQ(result->parts().size(), 6u);
    for (const TensorSpec& spec : plan->outputs()) {
      const auto bytes = result->bytes(spec.kind);
      ASSERT_EQ(bytes.size(), spec.size);
      if (spec.dtype == DType::kF32) {
        EXPECT_EQ(result->amax(spec.kind), 1.0f);
        continue;
      }
      for (size_t i = 0; i < bytes.size(); ++i) {
        ASSERT_EQ(static_cast<size_t>(bytes[i]), (spec.offset + i) % 251);
      }
      EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes.data()) % 64, 0u);
    }
    EXPECT_FALSE(result->amax(TensorKind::kRowwiseData).has_value());
    EXPECT_EQ(result->as<float>(TensorKind::kRowwiseAmax).size(), 1u);
    EXPECT_TRUE(result->as<float>(TensorKind::kRowwiseData).empty());
    EXPECT_EQ(result->device(), "fake:0");
    EXPECT_EQ(result->request_id(), "fake-id");
    EXPECT_EQ(result->attempts(), 1);
  }
}

TEST(Client, SendsTraceAndPriorityOfEachCall) {
  const std::string trace =
      "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  FakeServer server;
  const auto client = Connect(server.target());
  Input in({16, 32});
  CallOptions call;
  call.traceparent = trace;
  call.priority = CallPriority::kLow;
  ASSERT_THAT(client->Quantize(in.desc, in.data, Nvfp4(), call), IsOk());
  EXPECT_EQ(server.last_metadata("traceparent"), trace);
  EXPECT_EQ(server.last_metadata("quantd-priority"), "low");
  ASSERT_THAT(client->GetServerInfo(call), IsOk());
  EXPECT_EQ(server.last_metadata("traceparent"), trace);
  ASSERT_THAT(client->Quantize(in.desc, in.data, Nvfp4()), IsOk());
  EXPECT_EQ(server.last_metadata("traceparent"), "");
  EXPECT_EQ(server.last_metadata("quantd-priority"), "");

  const int calls = server.calls();
  call.traceparent = trace + "\r\nx";
  EXPECT_THAT(client->Quantize(in.desc, in.data, Nvfp4(), call),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(server.calls(), calls);
}

TEST(Client, WritesIntoTheCallersMemory) {
  FakeServer server;
  const auto client = Connect(server.target());
  Input in({16, 32});
  std::vector<std::byte> codes(16 * 16);
  CallOptions call;
  call.into = {{TensorKind::kRowwiseData, absl::MakeSpan(codes)}};
  const auto result = client->Quantize(in.desc, in.data, Nvfp4(), call);
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->bytes(TensorKind::kRowwiseData).data(), codes.data());
  EXPECT_EQ(codes[7], std::byte{7});
  EXPECT_EQ(result->bytes(TensorKind::kRowwiseScale).size(), 128u * 4);

  codes.pop_back();
  call.into = {{TensorKind::kRowwiseData, absl::MakeSpan(codes)}};
  EXPECT_THAT(client->Quantize(in.desc, in.data, Nvfp4(), call),
              StatusIs(absl::StatusCode::kInvalidArgument));
  call.into = {{TensorKind::kColumnwiseData, absl::MakeSpan(codes)}};
  EXPECT_THAT(client->Quantize(in.desc, in.data, Nvfp4(), call),
              StatusIs(absl::StatusCode::kInvalidArgument));
  codes.resize(16 * 16);
  call.into = {{TensorKind::kRowwiseData, absl::MakeSpan(codes)},
               {TensorKind::kRowwiseData, absl::MakeSpan(codes)}};
  EXPECT_THAT(client->Quantize(in.desc, in.data, Nvfp4(), call),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(server.calls(), 1);
}

TEST(Client, RefusesInvalidReplies) {
  FakeServer server;
  const auto client = Connect(server.target());
  Input in({32, 64});
  QuantizeOptions options = Nvfp4();
  options.splits = {8, 24};
  options.form.scale_layout = Layout::kSwizzled;
  const std::vector<std::function<void(v1::QuantizeReply*)>> lies = {
      [](auto* r) { r->mutable_tensors()->RemoveLast(); },
      [](auto* r) { r->mutable_tensors(0)->set_size(1); },
      [](auto* r) { r->mutable_tensors(0)->set_offset(1 << 20); },
      [](auto* r) { r->mutable_tensors(0)->set_offset(~uint64_t{0} - 8); },
      [](auto* r) { r->mutable_tensors(0)->set_shape(0, 17); },
      [](auto* r) { r->mutable_tensors(0)->set_dtype(v1::DTYPE_F32); },
      [](auto* r) { r->mutable_tensors(0)->set_layout(v1::Layout(9)); },
      [](auto* r) { r->mutable_tensors(1)->set_layout(v1::LAYOUT_LINEAR); },
      [](auto* r) { r->mutable_tensors(1)->clear_layout(); },
      [](auto* r) { r->mutable_tensors(0)->clear_group_offsets(); },
      [](auto* r) { r->mutable_tensors(0)->set_group_offsets(1, 1 << 20); },
      [](auto* r) { r->mutable_tensors(0)->add_group_offsets(0); },
      [](auto* r) { r->clear_payload(); },
      [](auto* r) { r->mutable_payload()->pop_back(); },
  };
  for (size_t i = 0; i < lies.size(); ++i) {
    Scripted s;
    s.spoil = lies[i];
    server.Script({s});
    EXPECT_THAT(client->Quantize(in.desc, in.data, options),
                StatusIs(absl::StatusCode::kInternal))
        << i;
  }
  // An unknown part of a newer server is ignored.
  Scripted s;
  s.spoil = [](auto* r) { r->add_tensors()->set_kind(v1::TensorKind(99)); };
  server.Script({s});
  EXPECT_THAT(client->Quantize(in.desc, in.data, options), IsOk());
}

TEST(Client, ServesManyThreads) {
  FakeServer server;
  const auto client = Connect(server.target());
  std::atomic<int> good{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 16; ++t) {
    threads.emplace_back([&, t] {
      Input in({1 + t, 16 * (1 + t * 7)});
      for (int i = 0; i < 20; ++i) {
        const auto result = client->Quantize(in.desc, in.data, Nvfp4());
        const auto plan = MakeQuantizePlan(in.desc, Nvfp4());
        good += result.ok() && result->bytes(TensorKind::kRowwiseData).size() ==
                                   plan->output(TensorKind::kRowwiseData)->size;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(good, 16 * 20);
  EXPECT_EQ(server.calls(), 16 * 20);
}

TEST(Client, ReadsServerInfo) {
  FakeServer server;
  const auto client = Connect(server.target());
  server.Script({Failure(grpc::StatusCode::UNAVAILABLE)});
  const auto info = client->GetServerInfo();
  ASSERT_THAT(info, IsOk());
  EXPECT_EQ(info->version, "1.2.3");
  EXPECT_EQ(info->max_request_bytes, 77u);
  EXPECT_EQ(info->max_rank, 8);
  ASSERT_EQ(info->devices.size(), 1u);
  EXPECT_TRUE(info->devices[0].healthy);
  ASSERT_EQ(info->formats.size(), 1u);
  EXPECT_EQ(info->formats[0].format, Format::kNvfp4);
  EXPECT_EQ(info->formats[0].usages[0], Usage::kBoth);
}

}  // namespace
}  // namespace quantd
