// Tests of the route of a call, for every kind of call and memory.
#include "client/route/route.h"

#include "tests/testing/matchers.h"

namespace quantd::client {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

// Returns a plan of 8 MiB of input by default.
Plan MakePlan(const QuantizeOptions& options, int64_t rows = 4096) {
  return *MakeQuantizePlan({DType::kBF16, {rows, 1024}, -1}, options);
}
QuantizeOptions Found(bool statistics = false) {
  QuantizeOptions o;
  o.format = Format::kNvfp4;
  o.statistics = statistics;
  return o;
}
QuantizeOptions Given() {
  QuantizeOptions o = Found();
  o.rowwise_amax = {4.0f};
  return o;
}

struct Row {
  const char* what;
  RouteFacts facts;
  const char* route;
};

TEST(Route, IsChosenByTheFactsOfACall) {
  const Plan given = MakePlan(Given());
  const Plan found = MakePlan(Found());
  QuantizeOptions rht = Found();
  rht.rht.rowwise = true;
  const Plan rotated = MakePlan(rht);
  const Plan summed = MakePlan(Found(/*statistics=*/true));
  const Plan small = MakePlan(Given(), 1024);
  const Plan large = MakePlan(Given(), 16384);
  const Plan decoded = *MakeDequantizePlan({DType::kBF16, {1 << 20, 1024}, -1},
                                           {.format = Format::kNvfp4,
                                            .usage = Usage::kRowwise,
                                            .output = DType::kF32});
  const ServerSettings roomy = {true, 0, {256 * kMiB}};
  const ServerSettings narrow = {true, 0, {8 * kMiB}};
  const ServerSettings old = {false, 0, {256 * kMiB}};
  constexpr auto kHere = CallMemory::kHere;
  constexpr auto kLent = CallMemory::kLent;
  const Row rows[] = {
      {"default settings", {.plan = given}, "whole, message"},
      {"in process",
       {.plan = given, .memory = kHere, .stream_from = 0, .band_bytes = kMiB},
       "whole, here"},
      {"large enough to stream",
       {.plan = given, .stream_from = 8 * kMiB},
       "whole, stream"},
      {"one byte too small to stream",
       {.plan = given, .stream_from = 8 * kMiB + 1},
       "whole, message"},
      {"too large for one message",
       {.plan = given, .most_in_message = 8 * kMiB - 1},
       "whole, stream"},
      {"too large for one message, without streams",
       {.plan = given, .most_in_message = 8 * kMiB - 1, .has_streams = false},
       "whole, message"},
      {"a reply too large for one message", {.plan = decoded}, "whole, stream"},
      {"shared memory, of any size",
       {.plan = given, .memory = kLent, .stream_from = 0, .band_bytes = kMiB},
       "whole, lent"},
      {"in bands",
       {.plan = given, .connections = 2, .band_bytes = kMiB},
       "8 bands of 512 rows, 2 at once, message"},
      {"in bands that stream",
       {.plan = given, .connections = 2, .stream_from = 0, .band_bytes = kMiB},
       "8 bands of 512 rows, 2 at once, stream"},
      {"bands too large for one message",
       {.plan = given, .band_bytes = kMiB, .most_in_message = kMiB - 1},
       "8 bands of 512 rows, 1 at once, stream"},
      {"one large band for each connection",
       {.plan = large, .connections = 4, .band_bytes = 4 * kMiB},
       "4 bands of 4096 rows, 4 at once, stream"},
      {"four bands per connection stay messages",
       {.plan = large, .connections = 4, .band_bytes = 2 * kMiB},
       "16 bands of 1024 rows, 4 at once, message"},
      {"too few rows for one large band per connection",
       {.plan = large, .connections = 5, .band_bytes = 4 * kMiB},
       "8 bands of 2048 rows, 5 at once, message"},
      {"one large band per connection, without streams",
       {.plan = large,
        .connections = 4,
        .band_bytes = 4 * kMiB,
        .has_streams = false},
       "4 bands of 4096 rows, 4 at once, message"},
      {"too small to be cut",
       {.plan = small, .band_bytes = kMiB},
       "whole, message"},
      {"statistics", {.plan = summed, .band_bytes = kMiB}, "whole, message"},
      {"a result over its own input",
       {.plan = given, .apart = false, .band_bytes = kMiB},
       "whole, message"},
      {"events",
       {.plan = given, .has_events = true, .band_bytes = kMiB},
       "whole, message"},
      {"a computed amax", {.plan = found, .band_bytes = kMiB}, "ask servers"},
      {"no server answers",
       {.plan = found, .band_bytes = kMiB, .asked = true},
       "8 bands of 512 rows, 1 at once, message, amax first"},
      {"no server answers, and servers may estimate",
       {.plan = rotated, .band_bytes = kMiB, .asked = true},
       "whole, message"},
      {"bands share an amax",
       {.plan = found,
        .connections = 2,
        .band_bytes = kMiB,
        .asked = true,
        .servers = roomy},
       "8 bands of 512 rows, 2 at once, message, amax met"},
      {"too little server memory to share an amax",
       {.plan = found,
        .connections = 2,
        .band_bytes = kMiB,
        .asked = true,
        .servers = narrow},
       "8 bands of 512 rows, 2 at once, message, amax first"},
      {"a server that cannot reduce an amax",
       {.plan = found, .band_bytes = kMiB, .asked = true, .servers = old},
       "8 bands of 512 rows, 1 at once, message, amax first"},
      {"sharing an amax needs streams",
       {.plan = found,
        .band_bytes = kMiB,
        .asked = true,
        .servers = roomy,
        .has_streams = false},
       "8 bands of 512 rows, 1 at once, message, amax first"},
      {"an amax of NaN",
       {.plan = found,
        .band_bytes = kMiB,
        .asked = true,
        .servers = roomy,
        .has_finite_amax = false},
       "whole, message"},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(ToString(ChooseRoute(row.facts)), row.route) << row.what;
  }
}

// Bands use the plan that the server's default estimate completes.
TEST(Route, BandsUseTheServersEstimate) {
  QuantizeOptions o = Found();
  o.rht.rowwise = true;
  const Plan plan = MakePlan(o);
  const Route route = ChooseRoute({.plan = plan,
                                   .band_bytes = kMiB,
                                   .asked = true,
                                   .servers = {{true, 1.5f, {256 * kMiB}}}});
  ASSERT_TRUE(route.served);
  EXPECT_EQ(std::get<QuantizeOptions>(route.served->options())
                .nvfp4.amax_estimation_scale,
            1.5f);
  EXPECT_EQ(route.bytes, kMiB);
}

}  // namespace
}  // namespace quantd::client
