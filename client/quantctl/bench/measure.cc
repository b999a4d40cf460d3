#include "client/quantctl/bench/measure.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "client/bands/band_plan.h"
#include "client/quantctl/bench/rounds.h"
#include "client/quantctl/bench/spare_memory.h"
#include "client/quantctl/tensor_math.h"
#include "fmt/format.h"

namespace quantd::quantctl {
namespace {

// No value of the bench's is as large.
constexpr float kGivenAmax = 8;

// Normally distributed values; a sample of 2 MiB, again and again: what is
// computed of a block does not depend on whether another is like it.
void Fill(absl::Span<std::byte> input) {
  const auto sample = client::GaussianSample(
      std::min<size_t>(input.size() / 2, 1 << 20), 20260101);
  for (size_t at = 0; at < input.size();) {
    const size_t n = std::min(sample.size() * 2, input.size() - at);
    std::memcpy(input.data() + at, sample.data(), n);
    at += n;
  }
}

// INTERNAL where a part of the two is not the same.
absl::Status Compare(const Result& there, const Result& here) {
  for (const TensorSpec& part : here.parts()) {
    const auto a = there.bytes(part.kind);
    const auto b = here.bytes(part.kind);
    if (!std::equal(a.begin(), a.end(), b.begin(), b.end())) {
      return absl::InternalError(fmt::format(
          "the server's {} is not what is computed here: what it takes for "
          "such an answer is not worth knowing (--no-check measures all the "
          "same)",
          Name(part.kind)));
    }
  }
  return {};
}

std::vector<Load> LoadsOf(const BenchOptions& b) {
  std::vector<Load> loads;
  for (const int callers : b.callers) {
    for (const double rate :
         b.rates.empty() ? std::vector<double>{0} : b.rates) {
      loads.push_back({callers, rate, b.seconds, b.calls});
    }
  }
  return loads;
}

// The first call of a task: it warms up, and tells whether bytes are right.
absl::Status FirstCall(Client& client, const Task& task,
                       absl::Span<const std::byte> input, const Options& o,
                       bool check) {
  const TensorDesc& tensor = task.plan.tensor();
  const auto there = client.Quantize(tensor, input, task.how, CallOf(o));
  if (!there.ok()) return there.status();
  if (o.transport && there->transport() != *o.transport) {
    return OtherWay(*o.transport, std::string(Name(there->transport())));
  }
  if (!check) return {};
  const auto cpu = Client::Create("local:cpu");
  if (!cpu.ok()) return cpu.status();
  const auto here = (*cpu)->Quantize(tensor, input, task.how, CallOf(o));
  return here.ok() ? Compare(*there, *here) : here.status();
}

// A call into memory that an earlier one has used, as a caller has it whose
// calls follow each other.
absl::Status CallInto(Client& client, const Task& task, SpareMemory* spare,
                      absl::Span<const std::byte> input, const Options& o) {
  auto memory = spare->Take();
  if (!memory.ok()) return memory.status();
  CallOptions call = CallOf(o);
  for (const TensorSpec& part : task.plan.outputs()) {
    call.into.push_back(
        {part.kind, memory->bytes().subspan(part.offset, part.size)});
  }
  const auto s =
      client.Quantize(task.plan.tensor(), input, task.how, call).status();
  spare->Put(*std::move(memory));
  return s;
}

Cell MadeOf(const Task& task, const Load& load,
            std::vector<Contender> contenders,
            absl::Span<const Arrangement> arrangements) {
  const auto gb_per_s = [bytes = task.bytes()](std::vector<double> rates) {
    for (double& rate : rates) rate *= static_cast<double>(bytes) / 1e9;
    return rates;
  };
  Cell cell{task.bytes(),
            task.plan.output_bytes(),
            task.amax,
            load,
            std::move(contenders[0].outcome),
            gb_per_s(contenders[0].calls_per_s),
            {}};
  for (size_t i = 1; i < contenders.size(); ++i) {
    cell.echoes.push_back(
        {arrangements[i - 1], gb_per_s(contenders[i].calls_per_s)});
  }
  return cell;
}

}  // namespace

absl::StatusOr<std::vector<Task>> TasksOf(const Options& o,
                                          const BenchOptions& b) {
  std::vector<Task> tasks;
  for (const uint64_t bytes : b.sizes) {
    if (bytes == 0 || bytes % kRowBytes != 0) {
      return absl::InvalidArgumentError(fmt::format(
          "--sizes: {} bytes are no whole rows of {}", bytes, kRowBytes));
    }
    for (const std::string& amax :
         b.amaxes.empty() ? std::vector<std::string>{""} : b.amaxes) {
      QuantizeOptions how = o.quantize;
      if (amax == "given") {
        if (HasRowwise(how.usage)) how.rowwise_amax = {kGivenAmax};
        if (HasColumnwise(how.usage)) how.columnwise_amax = {kGivenAmax};
      }
      const auto plan = MakeQuantizePlan(
          {DType::kBF16, {static_cast<int64_t>(bytes / kRowBytes), 1024}}, how);
      if (!plan.ok()) return plan.status();
      tasks.push_back({amax, how, *plan});
    }
  }
  return tasks;
}

Failure Measure(const Setup& setup, const Task& task,
                std::vector<Cell>* cells) {
  const auto& [o, b, client, echo, stop] = setup;
  const auto memory = client.AllocateHost(task.bytes());
  if (!memory.ok()) return {memory.status()};
  Fill(memory->bytes());
  const auto first = FirstCall(client, task, memory->bytes(), o, !b.no_check);
  if (!first.ok()) return {first};
  const size_t reply_bytes = task.plan.output_bytes();
  if (echo != nullptr) {
    const auto s = echo->FirstCall(memory->bytes(), reply_bytes);
    if (!s.ok()) return {s, true};
  }
  SpareMemory spare(&client, reply_bytes);
  for (const Load& load : LoadsOf(b)) {
    if (stop != 0) break;
    if (isatty(STDERR_FILENO) == 1) {
      fmt::print(stderr, "\r\x1b[K{}, {} callers", BytesText(task.bytes()),
                 load.callers);
    }
    std::vector<Contender> contenders = {
        {[&] { return CallInto(client, task, &spare, memory->bytes(), o); }}};
    std::vector<Arrangement> arrangements;
    if (echo != nullptr) {
      auto best = echo->BestFor(memory->bytes(), reply_bytes,
                                client::NeedsAmax(task.plan), load, stop);
      if (!best.ok()) return {best.status(), true};
      arrangements = *std::move(best);
      for (const Arrangement& how : arrangements) {
        contenders.push_back({[&, how] {
          return echo->Call(memory->bytes(), reply_bytes, how);
        }});
      }
    }
    if (stop != 0) break;
    const auto s =
        RunRounds(load, echo == nullptr ? 1 : b.rounds, &contenders, stop);
    if (!s.ok()) return {s, true};
    cells->push_back(MadeOf(task, load, std::move(contenders), arrangements));
    // Others go on: a server that is too busy for some is a finding.
    const absl::Status& error = cells->back().outcome.error;
    if (absl::IsUnavailable(error)) return {error};
  }
  return {};
}

}  // namespace quantd::quantctl
