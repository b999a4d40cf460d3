#include <deque>
#include <map>
#include <utility>

#include "client/quantctl.h"
#include "client/quantized_file.h"
#include "client/safetensors.h"
#include "client/tensor_math.h"
#include "fmt/format.h"

namespace quantd::quantctl {
namespace {

// Quantizes with two calls under way and hands over each result in order.
// Stops early when the server is gone: the rest would only wait.
void QuantizeAll(Client& client, const Options& options,
                 const std::vector<const InputTensor*>& tensors, Report* report,
                 const std::function<absl::Status(const InputTensor&, Result,
                                                  Record*)>& take) {
  struct Pending {
    Timer timer;
    std::future<absl::StatusOr<Result>> future;
  };
  std::deque<Pending> pending;
  Progress progress(tensors.size());
  size_t started = 0;
  absl::Status gone;
  for (size_t i = 0; i < tensors.size(); ++i) {
    for (; gone.ok() && started < tensors.size() && started < i + 2;
         ++started) {
      Pending next;
      next.future =
          client.QuantizeAsync(tensors[started]->desc, tensors[started]->bytes,
                               options.quantize, CallOf(options));
      pending.push_back(std::move(next));
    }
    Record r = RecordOf(*tensors[i]);
    progress.Show(i, r.name);
    if (pending.empty()) {
      r.error = gone;
    } else {
      auto result = pending.front().future.get();
      r.seconds = pending.front().timer.seconds();
      pending.pop_front();
      if (result.ok()) {
        Credit(*result, &r);
        r.error = take(*tensors[i], *std::move(result), &r);
      } else {
        r.error = result.status();
        if (CodeOf(r.error) == kUnreachable) gone = r.error;
      }
    }
    report->tensors.push_back(std::move(r));
  }
}

}  // namespace

int RunInfo(const Options& options) {
  const auto client = Connect(options);
  if (!client.ok()) return Fail(options, kUsage, client.status());
  const auto info = (*client)->GetServerInfo(CallOf(options));
  if (!info.ok()) return Fail(options, CodeOf(info.status()), info.status());
  PrintInfo(options.server, *info, options.json);
  return kOk;
}

int RunQuantize(const Options& options) {
  const auto input = OpenInput(options, [&](const TensorDesc& d) {
    return MakeQuantizePlan(d, options.quantize).status();
  });
  if (!input.ok()) return Fail(options, kBadInput, input.status());
  const auto client = Connect(options);
  if (!client.ok()) return Fail(options, kUsage, client.status());
  const auto tensors = Eligible(*input);
  std::map<std::string, QuantizedFile::Description> descriptions;
  std::vector<safetensors::Tensor> planned;
  for (const InputTensor* t : tensors) {
    descriptions[t->name] = {t->desc, options.quantize};
    for (safetensors::Tensor& part :
         QuantizedFile::Parts(t->name, t->desc, options.quantize)) {
      planned.push_back(std::move(part));
    }
  }
  auto writer =
      safetensors::Writer::Create(options.output, std::move(planned),
                                  QuantizedFile::Metadata(descriptions));
  if (!writer.ok()) return Fail(options, kCannotWrite, writer.status());

  Report report = ReportOf("quantize", options, *input);
  absl::Status cannot_write;
  QuantizeAll(**client, options, tensors, &report,
              [&](const InputTensor& t, Result result, Record* r) {
                auto q = QuantizedTensor::FromResult(t.desc, options.quantize,
                                                     std::move(result));
                if (!q.ok()) return q.status();
                r->bytes_out = q->size_bytes();
                r->copies = CopiesOf(*q);
                cannot_write.Update(QuantizedFile::Append(*writer, t.name, *q));
                return absl::OkStatus();
              });
  bool any = false;
  for (const Record& r : report.tensors) {
    any |= r.error.ok();
    if (!r.error.ok()) {
      writer->DropMetadata(QuantizedFile::MetadataKey(r.name));
    }
  }
  if (any) {
    cannot_write.Update(cannot_write.ok() ? writer->Commit() : cannot_write);
    if (!cannot_write.ok()) return Fail(options, kCannotWrite, cannot_write);
    report.output = options.output;
  }
  return Finish(options, report);
}

int RunAmax(const Options& options) {
  const auto input = OpenInput(options, [&](const TensorDesc& d) {
    RhtAmaxOptions plain;
    plain.rowwise = true;
    plain.splits = options.quantize.splits;
    return MakeRhtAmaxPlan(d, plain).status();
  });
  if (!input.ok()) return Fail(options, kBadInput, input.status());
  const auto client = Connect(options);
  if (!client.ok()) return Fail(options, kUsage, client.status());
  Report report = ReportOf("amax", options, *input);
  const auto tensors = Eligible(*input);
  Progress progress(tensors.size());
  for (const InputTensor* t : tensors) {
    Record r = RecordOf(*t);
    progress.Show(report.tensors.size(), r.name);
    RhtAmaxOptions amax;
    amax.rowwise = amax.columnwise = amax.columnwise_rht = true;
    amax.rowwise_rht = true;
    amax.rht_dimension = options.quantize.rht.dimension;
    amax.sign_mask = options.quantize.rht.sign_mask;
    amax.non_finite = options.quantize.non_finite;
    amax.domain = options.domain;
    amax.splits = options.quantize.splits;
    // The rotation of the rows needs whole blocks; the others do not.
    amax.rowwise_rht = MakeRhtAmaxPlan(t->desc, amax).ok();
    const Timer timer;
    const auto result =
        (*client)->RhtAmax(t->desc, t->bytes, amax, CallOf(options));
    r.seconds = timer.seconds();
    if (result.ok()) {
      Credit(*result, &r);
      for (const TensorSpec& part : result->parts()) {
        r.bytes_out += part.size;
        std::string name(Name(part.kind));
        name.erase(name.rfind("_amax"));
        const auto values = result->amaxes(part.kind);
        r.copies.push_back({name, {values.begin(), values.end()}});
      }
    } else {
      r.error = result.status();
    }
    report.tensors.push_back(std::move(r));
    if (CodeOf(report.tensors.back().error) == kUnreachable) break;
  }
  return Finish(options, report);
}

int RunSample(const Options& options) {
  if (options.sample_rows > kMaxElements / options.sample_cols) {
    return Fail(options, kUsage,
                absl::InvalidArgumentError("the sample is too large"));
  }
  const size_t count =
      static_cast<size_t>(options.sample_rows * options.sample_cols);
  const std::vector<int64_t> shape = {options.sample_rows, options.sample_cols};
  Report report;
  report.command = "sample";
  report.output = options.output;
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
  auto writer = safetensors::Writer::Create(options.output, planned, {});
  if (!writer.ok()) return Fail(options, kCannotWrite, writer.status());
  absl::Status status;
  for (size_t i = 0; i < planned.size(); ++i) {
    const Timer timer;
    const std::vector<uint16_t> sample =
        i == 0 ? client::GaussianSample(count, options.sample_seed)
               : client::OutlierSample(count, options.sample_seed + 1);
    status.Update(writer->Append(
        planned[i].name,
        {reinterpret_cast<const std::byte*>(sample.data()), count * 2}));
    report.tensors[i].seconds = timer.seconds();
  }
  if (status.ok()) status = writer->Commit();
  if (!status.ok()) return Fail(options, kCannotWrite, status);
  return Finish(options, report);
}

}  // namespace quantd::quantctl
