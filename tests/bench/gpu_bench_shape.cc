#include "tests/bench/gpu_bench_shape.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "tests/bench/gpu_ceiling.h"

namespace quantd::bench {
namespace {

// The time in microseconds that a graph should take at least, and the rate of a
// good kernel, from which a graph's time is estimated.
constexpr double kGraphUs = 200;
constexpr double kBytesPerUs = 3.5e6;

size_t Sum(const std::vector<TensorSpec>& specs) {
  size_t bytes = 0;
  for (const TensorSpec& spec : specs) bytes += spec.size;
  return bytes;
}

}  // namespace

Timed::Timed(std::string name, double bytes,
             std::function<cudaError_t(int)> launch,
             std::function<cudaError_t()> before)
    : name_(std::move(name)),
      bytes_(bytes),
      launch_(std::move(launch)),
      before_(std::move(before)) {
  Check(cudaEventCreate(&start_), "event");
  Check(cudaEventCreate(&stop_), "event");
}

Timed::~Timed() {
  // Errors are ignored, since the program is about to end.
  if (graph_ != nullptr) cudaGraphExecDestroy(graph_);
  cudaEventDestroy(start_);
  cudaEventDestroy(stop_);
}

void Timed::Capture(cudaStream_t stream, int buffers) {
  const double turn_us = buffers * bytes_ / kBytesPerUs;
  launches_ =
      buffers * std::max(1, static_cast<int>(std::lround(kGraphUs / turn_us)));
  cudaGraph_t graph;
  Check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
        name_);
  for (int i = 0; i < launches_; ++i) Check(launch_(i % buffers), name_);
  Check(cudaStreamEndCapture(stream, &graph), name_);
  Check(cudaGraphInstantiate(&graph_, graph, 0), name_);
  Check(cudaGraphDestroy(graph), name_);
  Check(cudaGraphUpload(graph_, stream), name_);
}

void Timed::Queue(cudaStream_t stream) {
  if (before_) Check(before_(), name_);
  Check(cudaEventRecord(start_, stream), name_);
  Check(cudaGraphLaunch(graph_, stream), name_);
  Check(cudaEventRecord(stop_, stream), name_);
}

void Timed::Collect(bool warm_up) {
  float ms = 0;
  Check(cudaEventElapsedTime(&ms, start_, stop_), name_);
  if (!warm_up) us_.push_back(ms * 1e3 / launches_);
}

// Uses enough buffers to hold three times the L2 cache.
ShapeBench::ShapeBench(const Content& content, const Place& place,
                       size_t l2_bytes, Backend& cpu, std::vector<RowSpec> rows)
    : content_(content),
      place_(place),
      cpu_(cpu),
      buffers_(static_cast<int>((3 * l2_bytes + content.bytes() - 1) /
                                content.bytes())),
      sink_(sizeof(uint32_t)) {
  for (RowSpec& row : rows) AddRow(std::move(row));
}

void ShapeBench::AddRow(RowSpec spec) {
  Plan plan =
      PlanOf(spec, content_.dtype, content_.rows, content_.cols, spec.groups);
  const size_t read = Sum(plan.inputs()) * static_cast<size_t>(spec.reads);
  const size_t written = Sum(plan.outputs());
  rows_.push_back(std::make_unique<Row>(Row{
      std::move(spec), std::move(plan), read, written, {}, {}, "", nullptr}));
}

// Traffic sizes are rounded to 1/256 of the input, so that rows share a
// measurement. Its rate is computed from the rounded bytes.
size_t ShapeBench::Rounded(size_t bytes) const {
  const size_t step = content_.bytes() / 256;
  return (bytes + step / 2) / step * step;
}

std::vector<ShapeBench::Key> ShapeBench::Ceilings(const Row& row,
                                                  Ceiling ceiling) const {
  size_t read = Rounded(row.read);
  size_t written = Rounded(row.written);
  if (ceiling == Ceiling::kCopy) read = written = (read + written) / 2;
  if (ceiling == Ceiling::kRead) {
    read += written;
    written = 0;
  }
  std::vector<Key> keys = {{How::kPersistent, read, written},
                           {How::kPlain, read, written}};
  if (read == written) keys.push_back({How::kMemcpy, read, written});
  return keys;
}

void ShapeBench::Allocate() {
  size_t in = content_.bytes();
  size_t out = 0;
  for (const auto& row : rows_) {
    out = std::max(out, row->plan.output_bytes());
    if (row->spec.source) {
      const Plan source =
          SourceOf(row->spec, content_.dtype, content_.rows, content_.cols);
      out = std::max(out, source.output_bytes());
    }
    for (const Ceiling ceiling : {row->spec.ceiling, Ceiling::kMix}) {
      for (const auto& [how, read, written] : Ceilings(*row, ceiling)) {
        in = std::max(in, read);
        out = std::max(out, written);
      }
    }
  }
  const std::vector<std::byte>& period = content_.rows_of_period;
  // Checks need two buffers.
  for (int i = 0; i < std::max(2, buffers_); ++i) {
    in_.emplace_back(in);
    out_.emplace_back(out);
    std::byte* to = in_.back().data();
    Check(cudaMemcpyAsync(to, period.data(), period.size(),
                          cudaMemcpyHostToDevice, place_.queue.stream),
          "fill");
    for (size_t have = period.size(); have < content_.bytes();) {
      const size_t n = std::min(have, content_.bytes() - have);
      Check(cudaMemcpyAsync(to + have, to, n, cudaMemcpyDeviceToDevice,
                            place_.queue.stream),
            "fill");
      have += n;
    }
    Check(cudaMemsetAsync(to + content_.bytes(), 0, in - content_.bytes(),
                          place_.queue.stream),
          "fill");
  }
}

// Makes a row's jobs, checks them, and sets up their timing.
void ShapeBench::Prepare(Row* row) {
  const int sets = static_cast<int>(in_.size());
  for (int i = 0; i < sets; ++i) {
    std::byte* in = in_[i].data();
    if (row->spec.source) {
      const Plan source =
          SourceOf(row->spec, content_.dtype, content_.rows, content_.cols);
      DeviceJob encode(source, place_, in, out_[i].data());
      Check(encode.QueueWhole(), row->spec.name);
      row->codes.emplace_back(row->plan.input_bytes());
      in = row->codes.back().data();
      for (const TensorSpec& spec : row->plan.inputs()) {
        Check(cudaMemcpyAsync(in + spec.offset,
                              encode.out() + source.output(spec.kind)->offset,
                              spec.size, cudaMemcpyDeviceToDevice,
                              place_.queue.stream),
              row->spec.name);
      }
      // Waits, because the job's tables are freed here.
      Check(cudaStreamSynchronize(place_.queue.stream), row->spec.name);
    }
    row->jobs.push_back(
        std::make_unique<DeviceJob>(row->plan, place_, in, out_[i].data()));
  }
  const Verdict verdict =
      CheckRow(row->spec, content_, cpu_, place_.queue.stream,
               row->jobs[0].get(), row->jobs[1].get());
  row->checked = verdict.how;
  if (!verdict.passed) {
    row->checked = "WRONG: " + verdict.how;
    ++wrong_;
  }
  // The check may end before the second job has run.
  for (int i = verdict.passed ? 2 : 1; i < sets; ++i) {
    Check(row->jobs[i]->QueueWhole(), row->spec.name);
  }
  const cuda::Part part = PartOf(row->spec);
  timed_.push_back(std::make_unique<Timed>(
      row->spec.name, static_cast<double>(row->read + row->written),
      [row, part](int i) { return row->jobs[i]->QueueAgain(part); },
      [row] {
        // Rows share the memory of their outputs.
        cudaError_t error = cudaSuccess;
        for (const auto& job : row->jobs) {
          if (error == cudaSuccess) error = job->Restore();
        }
        return error;
      }));
  row->timed = timed_.back().get();
}

void ShapeBench::AddCeiling(const Key& key) {
  if (ceilings_.contains(key)) return;
  const auto [how, read, written] = key;
  std::function<cudaError_t(int)> launch;
  if (how == How::kMemcpy) {
    launch = [this, bytes = read](int i) {
      return cudaMemcpyAsync(out_[i].data(), in_[i].data(), bytes,
                             cudaMemcpyDeviceToDevice, place_.queue.stream);
    };
  } else {
    const int multiprocessors =
        how == How::kPersistent ? place_.queue.multiprocessors : 0;
    launch = [this, multiprocessors, r = read, w = written](int i) {
      return LaunchTraffic({in_[i].data(), r, out_[i].data(), w},
                           reinterpret_cast<uint32_t*>(sink_.data()),
                           multiprocessors, place_.queue.stream);
    };
  }
  timed_.push_back(std::make_unique<Timed>(
      "ceiling", static_cast<double>(read + written), launch));
  ceilings_[key] = timed_.back().get();
}

nlohmann::json ShapeBench::Run(int rounds) {
  const cudaStream_t stream = place_.queue.stream;
  Allocate();
  for (const auto& row : rows_) {
    for (const Ceiling ceiling : {row->spec.ceiling, Ceiling::kMix}) {
      for (const Key& key : Ceilings(*row, ceiling)) AddCeiling(key);
    }
    Prepare(row.get());
  }
  for (const auto& timed : timed_) timed->Capture(stream, buffers_);
  for (int round = -1; round < rounds; ++round) {
    for (const auto& timed : timed_) timed->Queue(stream);
    Check(cudaStreamSynchronize(stream), "measure");
    for (const auto& timed : timed_) timed->Collect(round < 0);
  }
  nlohmann::json list = nlohmann::json::array();
  for (const auto& row : rows_) list.push_back(Report(*row));
  return list;
}

std::vector<std::string> ShapeBench::FindFaults() {
  Allocate();
  std::vector<std::string> faults;
  for (const auto& row : rows_) {
    const int before = wrong_;
    Prepare(row.get());
    if (wrong_ > before) faults.push_back(row->spec.name + ": " + row->checked);
    row->jobs.clear();
  }
  return faults;
}

double ShapeBench::Best(const Row& row, Ceiling ceiling) const {
  double best = 0;
  for (const Key& key : Ceilings(row, ceiling)) {
    best = std::max(best, ceilings_.at(key)->tbps());
  }
  return best;
}

nlohmann::json ShapeBench::Report(const Row& row) const {
  const double us = row.timed->us();
  const double ceiling = Best(row, row.spec.ceiling);
  nlohmann::json json = {{"name", row.spec.name},
                         {"shape", content_.shape()},
                         {"dtype", std::string(Name(content_.dtype))},
                         {"us", us},
                         {"bytes", row.read + row.written},
                         {"tbps", row.timed->tbps()},
                         {"ceiling", Name(row.spec.ceiling)},
                         {"ceiling_tbps", ceiling},
                         {"ratio", row.timed->tbps() / ceiling},
                         {"mix_tbps", Best(row, Ceiling::kMix)},
                         {"graph", true},
                         {"checked", row.checked}};
  for (const auto& base : rows_) {
    if (base->spec.name != row.spec.of) continue;
    json["of"] = row.spec.of;
    json["time_ratio"] = base->timed->us() / us;
  }
  return json;
}

}  // namespace quantd::bench
