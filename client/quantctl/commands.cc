#include "client/quantctl/commands.h"

#include <deque>
#include <future>
#include <map>
#include <utility>

#include "client/files/quantized_file.h"
#include "client/files/safetensors.h"
#include "client/quantctl/tensor_math.h"

namespace quantd::quantctl {
namespace {

// The reason for which a command ends before its last tensor.
struct Stop {
  int code = kOk;
  absl::Status status;
};

using Take = std::function<absl::Status(const InputTensor&, Result, Record*)>;

// Quantizes two tensors at a time and passes the results to `take` in order.
// Stops if the server is gone, the source cannot be read or `take` fails.
Stop QuantizeAll(Client& client, const Options& options,
                 const TensorInput& input, const PieceOptions& pieces,
                 Progress* progress, Report* report, const Take& take) {
  struct Pending {
    Timer timer;
    std::future<absl::StatusOr<Result>> future;
  };
  const std::vector<const InputTensor*> tensors = Eligible(input);
  // Declared before `pending`, because the futures in it use `call` until they
  // are destroyed.
  CallOptions call = CallOf(options);
  call.cancel.emplace();
  std::deque<Pending> pending;
  size_t started = 0;
  absl::Status gone;
  for (size_t i = 0; i < tensors.size(); ++i) {
    for (; gone.ok() && started < tensors.size() && started < i + 2;
         ++started) {
      Pending next;
      next.future = std::async(std::launch::async, [&, t = tensors[started]] {
        return QuantizeInPieces(client, t->desc, t->read, options.quantize,
                                pieces, call);
      });
      pending.push_back(std::move(next));
    }
    Record r = RecordOf(*tensors[i]);
    progress->Name(r.name);
    if (pending.empty()) {
      r.error = gone;
    } else {
      auto result = pending.front().future.get();
      r.seconds = pending.front().timer.seconds();
      pending.pop_front();
      Stop stop;
      if (result.ok()) {
        Credit(*result, &r);
        stop = {kCannotWrite, take(*tensors[i], *std::move(result), &r)};
      } else if (stop = {kBadInput, input.read_error()}; stop.status.ok()) {
        r.error = result.status();
        if (CodeOf(r.error) == kUnreachable) gone = r.error;
      }
      if (!stop.status.ok()) {
        call.cancel->Cancel();
        return stop;
      }
    }
    report->tensors.push_back(std::move(r));
  }
  return {};
}

absl::Status FindAmax(const TensorCalls& calls, Record* r) {
  const Options& o = calls.options;
  const InputTensor& t = calls.tensor;
  RhtAmaxOptions amax;
  amax.rowwise = amax.columnwise = amax.columnwise_rht = true;
  amax.rowwise_rht = true;
  amax.rht_dimension = o.quantize.rht.dimension;
  amax.sign_mask = o.quantize.rht.sign_mask;
  amax.non_finite = o.quantize.non_finite;
  amax.domain = o.domain;
  amax.splits = o.quantize.splits;
  // Rows that are not whole blocks of the rotation have no rotated amax.
  amax.rowwise_rht = MakeRhtAmaxPlan(t.desc, amax).ok();
  const Timer timer;
  const auto result = RhtAmaxInPieces(calls.client, t.desc, t.read, amax,
                                      calls.pieces, CallOf(o));
  r->seconds = timer.seconds();
  if (!result.ok()) return result.status();
  Credit(*result, r);
  for (const TensorSpec& part : result->parts()) {
    r->bytes_out += part.size;
    std::string name(Name(part.kind));
    name.erase(name.rfind("_amax"));
    const auto values = result->amaxes(part.kind);
    r->copies.push_back({name, {values.begin(), values.end()}});
  }
  return absl::OkStatus();
}

}  // namespace

int RunQuantize(const Options& options) {
  const auto input = OpenToQuantize(options);
  if (!input.ok()) return FailToOpen(options, input.status());
  const auto client = Connect(options);
  if (!client.ok()) return FailToConnect(options, client.status());
  std::map<std::string, QuantizedFile::Description> descriptions;
  std::vector<safetensors::Tensor> planned;
  const auto tensors = Eligible(*input);
  for (const InputTensor* t : tensors) {
    descriptions[t->name] = {t->desc, options.quantize};
    for (safetensors::Tensor& part :
         QuantizedFile::Parts(t->name, t->desc, options.quantize)) {
      planned.push_back(std::move(part));
    }
  }
  auto file = OpenOutput(options, input->identity());
  if (!file.ok()) return Fail(options, kCannotWrite, file.status());
  auto progress = std::make_unique<Progress>(BytesOf(tensors));
  const auto pieces = PiecesOf(**client, options, progress.get());
  if (!pieces.ok()) {
    return Fail(options, CodeOf(pieces.status()), pieces.status());
  }
  auto writer =
      safetensors::Writer::Create(*std::move(file), std::move(planned),
                                  QuantizedFile::Metadata(descriptions));
  if (!writer.ok()) return Fail(options, kCannotWrite, writer.status());

  Report report = ReportOf("quantize", options, *input);
  const Stop stop =
      QuantizeAll(**client, options, *input, *pieces, progress.get(), &report,
                  [&](const InputTensor& t, Result result, Record* r) {
                    auto q = QuantizedTensor::FromResult(
                        t.desc, options.quantize, std::move(result));
                    if (!q.ok()) return q.status();
                    r->bytes_out = q->size_bytes();
                    r->copies = CopiesOf(*q);
                    return QuantizedFile::Append(*writer, t.name, *q);
                  });
  progress.reset();
  if (!stop.status.ok()) return Fail(options, stop.code, stop.status);
  return Finish(options, &report, [&] { return writer->Commit(); });
}

int RunAmax(const Options& options) {
  const auto input = OpenInput(options, [&](const TensorDesc& d) {
    RhtAmaxOptions plain;
    plain.rowwise = true;
    plain.splits = options.quantize.splits;
    return MakeRhtAmaxPlan(d, plain).status();
  });
  if (!input.ok()) return FailToOpen(options, input.status());
  Report report = ReportOf("amax", options, *input);
  report.resizes = false;
  const int code = ForEachTensor(options, *input, &report, FindAmax);
  return code == kOk ? Finish(options, &report) : code;
}

int RunSample(const Options& options) {
  if (options.sample_rows > kMaxElements / options.sample_cols) {
    return Fail(options, kUsage,
                absl::InvalidArgumentError("--rows times --cols is too large"));
  }
  const size_t count =
      static_cast<size_t>(options.sample_rows * options.sample_cols);
  const std::vector<int64_t> shape = {options.sample_rows, options.sample_cols};
  Report report;
  report.command = "sample";
  std::vector<safetensors::Tensor> planned;
  for (const char* name : {"gaussian", "outliers"}) {
    planned.push_back({name, "BF16", shape, 0, count * 2});
    Record r;
    r.name = name;
    r.dtype = Name(DType::kBF16);
    r.shape = shape;
    r.bytes_out = count * 2;
    report.tensors.push_back(r);
  }
  auto file = OpenOutput(options, std::nullopt);
  if (!file.ok()) return Fail(options, kCannotWrite, file.status());
  auto writer = safetensors::Writer::Create(*std::move(file), planned, {});
  if (!writer.ok()) return Fail(options, kCannotWrite, writer.status());
  for (size_t i = 0; i < planned.size(); ++i) {
    const Timer timer;
    const std::vector<uint16_t> sample =
        i == 0 ? client::GaussianSample(count, options.sample_seed)
               : client::OutlierSample(count, options.sample_seed + 1);
    if (auto s = writer->Append(
            planned[i].name,
            {reinterpret_cast<const std::byte*>(sample.data()), count * 2});
        !s.ok()) {
      return Fail(options, kCannotWrite, s);
    }
    report.tensors[i].seconds = timer.seconds();
  }
  return Finish(options, &report, [&] { return writer->Commit(); });
}

}  // namespace quantd::quantctl
