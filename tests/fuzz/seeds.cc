// Writes seed inputs for the targets `request` and `reply`: valid messages,
// which a search from random bytes rarely finds.
//
//   fuzz_seeds FOLDER COUNT     COUNT requests, and a reply of each kind to
//                               every plan, into FOLDER/request and /reply
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "fmt/format.h"
#include "proto/messages.h"
#include "proto/stream/chunks.h"
#include "tests/fuzz/targets/reply_plans.h"
#include "tests/fuzz/wire_check.h"
#include "tests/fuzz/wire_messages.h"

namespace quantd::fuzz {
namespace {

// Writes an input: the byte that chooses the type, no cuts, and the message.
void Write(const std::string& folder, int number, int choice,
           const std::string& message) {
  const std::string path = fmt::format("{}/seed-{:06}", folder, number);
  std::ofstream out(path, std::ios::binary);
  out << static_cast<char>(choice) << '\0' << message;
  Check(out.flush().good(), "cannot write " + path);
}

void WriteRequests(const std::string& folder, int count) {
  for (int i = 0; i < count; ++i) {
    wire::Random random(static_cast<uint64_t>(i) + 1);
    const int type = i % wire::kMessageTypes;
    Write(folder, i, type,
          random.OneIn(4) ? wire::AnyMessage(type, random)
                          : wire::LegalMessage(type, random));
  }
}

// Writes calls on shared host memory, valid ones and ones with overlapping
// outputs.
void WriteLentRequests(const std::string& folder) {
  const std::vector<Plan> plans = Plans();
  int number = 900'000;
  for (const Plan& plan : plans) {
    const int type = static_cast<int>(wire::Index(wire::MethodOf(plan)));
    wire::LentRanges lent = AllLent(plan);
    for (const TensorSpec& input : plan.inputs()) {
      lent.inputs.push_back({std::string(16, 'i'), 0, input.size});
    }
    for (const bool apart : {true, false}) {
      for (wire::MemoryRange& output : lent.outputs) {
        if (!apart) output.offset = 0;
      }
      const auto head = wire::RequestHead(plan, 0, lent);
      Check(head.ok(), head.status().ToString());
      Write(folder, number++, type, *head);
      // Writes each message doubled, too.
      Write(folder, number++, type, *head + *head);
    }
  }
}

// Writes the replies of a correct server. kLent and kStream are choices of the
// target reply.cc.
void WriteReplies(const std::string& folder) {
  constexpr int kLent = 16, kStream = 48;
  const std::vector<Plan> plans = Plans();
  for (int i = 0; i < static_cast<int>(plans.size()); ++i) {
    const Plan& plan = plans[static_cast<size_t>(i)];
    const size_t size = wire::LayOutPayload(plan, {}).size;
    std::string whole = wire::ReplyHead(plan, {}, "cpu:0", "id");
    wire::AppendPayloadPrefix(size, &whole);
    Write(folder, 4 * i, i, whole + std::string(size, 'p'));
    Write(folder, 4 * i + 1, i + kLent,
          wire::ReplyHead(plan, {}, "cpu:0", "id", AllLent(plan).outputs));
    Write(folder, 4 * i + 2, i + kStream,
          wire::StreamReplyHead(plan, {}, "cpu:0", "id"));
    Write(folder, 4 * i + 3, i + kStream,
          wire::ChunkPrefix(size) + std::string(size, 'p'));
  }
}

}  // namespace
}  // namespace quantd::fuzz

int main(int argc, char** argv) {
  const int count = argc == 3 ? std::atoi(argv[2]) : 0;
  if (count <= 0) {
    fmt::print(stderr, "usage: fuzz_seeds FOLDER COUNT\n");
    return 2;
  }
  const std::string folder = argv[1];
  for (const char* target : {"/request", "/reply"}) {
    std::filesystem::create_directories(folder + target);
  }
  quantd::fuzz::WriteRequests(folder + "/request", count);
  quantd::fuzz::WriteLentRequests(folder + "/request");
  quantd::fuzz::WriteReplies(folder + "/reply");
  return 0;
}
