#include "kernels/cuda/dispatch.h"

#include <variant>

#include "kernels/cuda/launch.h"

namespace quantd::cuda {
namespace {

cudaError_t LaunchUnderGlobal(const EncodeArgs& a, std::optional<float> amax,
                              const Queue& q) {
  // What the host finds is of bf16.
  if (amax && a.params.input == DType::kBF16) {
    const GlobalMultipliers known = MakeGlobalMultipliers<Scalar>(
        a.params, GlobalScaleOf<Scalar>(a.params, *amax));
    if (known.usable) return LaunchEncodeNvfp4UnderKnown(a, known, q);
  }
  return LaunchEncodeNvfp4UnderGlobal(a, q);
}

}  // namespace

cudaError_t LaunchAmax(AmaxKernel kernel, const AmaxArgs& a, const Queue& q) {
  switch (kernel) {
    case AmaxKernel::kPlain:
      return LaunchPlainAmax(a, q);
    case AmaxKernel::kRows:
      return LaunchAmaxOfRows(a, q);
    case AmaxKernel::kTiles:
      return LaunchAmaxOfTiles(a, q);
    case AmaxKernel::kTensorCores:
      return LaunchAmaxByTensorCores(a, q);
    default:
      return cudaErrorInvalidValue;
  }
}

cudaError_t LaunchAmax(AmaxKernel kernel, const SpanAmaxArgs& a,
                       const Queue& q) {
  switch (kernel) {
    case AmaxKernel::kLines:
      return LaunchAmaxOfLines(a, q);
    case AmaxKernel::kSpans:
      return LaunchAmaxOfSpans(a, q);
    default:
      return cudaErrorInvalidValue;
  }
}

CodeTable CodeTableOf(const Work& work) {
  const auto* o = std::get_if<QuantizeOptions>(&work.plan.options());
  if (o == nullptr) return CodeTable::kNone;
  const CodeTable codes = work.plan.tensor().dtype == DType::kBF16
                              ? CodeTable::kFits
                              : CodeTable::kValues;
  switch (work.choice.encode) {
    case EncodeKernel::kNvfp4Rows:
    case EncodeKernel::kNvfp4Stochastic:
      return CodeTable::kMultipliers;
    case EncodeKernel::kNvfp4Tiles:
    case EncodeKernel::kNvfp4Squares:
      // (4over6 has tables of its own.)
      return o->rounding == Rounding::kStochastic    ? CodeTable::kMultipliers
             : o->four_over_six != FourOverSix::kOff ? CodeTable::kNone
                                                     : codes;
    default:
      return CodeTable::kNone;
  }
}

cudaError_t LaunchEncode(EncodeKernel kernel, const EncodeArgs& a,
                         std::optional<float> amax, const Queue& q) {
  const DType input = a.params.input;
  const Scaling scaling = a.params.scaling;
  switch (kernel) {
    case EncodeKernel::kQuantizeRows:
      return LaunchQuantizeRows(a, q);
    case EncodeKernel::kNvfp4Rows:
      return LaunchEncodeNvfp4Rows(a, amax, q);
    case EncodeKernel::kNvfp4Tiles:
      return LaunchEncodeNvfp4Tiles(a, q);
    case EncodeKernel::kNvfp4Squares:
      return LaunchEncodeNvfp4Squares(a, q);
    case EncodeKernel::kNvfp4ScaledRows:
      return LaunchEncodeNvfp4ScaledRows(a, q);
    case EncodeKernel::kNvfp4Stochastic:
      return LaunchEncodeNvfp4Stochastic(a, q);
    case EncodeKernel::kNvfp4FourOverSix:
      return LaunchEncodeNvfp4FourOverSix(a, q);
    case EncodeKernel::kNvfp4UnderGlobal:
      return LaunchUnderGlobal(a, amax, q);
    case EncodeKernel::kFp8Runs:
      return LaunchFp8Runs(a, q);
    case EncodeKernel::kFp8Rows:
      return scaling == Scaling::kMx ? LaunchFp8Rows<Scaling::kMx>(a, q)
                                     : LaunchFp8Rows<Scaling::kBlock>(a, q);
    case EncodeKernel::kFp8Tiles:
      return scaling == Scaling::kTensor
                 ? LaunchFp8Tiles<Scaling::kTensor>(a, q)
             : scaling == Scaling::kMx ? LaunchFp8Tiles<Scaling::kMx>(a, q)
                                       : LaunchFp8Tiles<Scaling::kBlock>(a, q);
    case EncodeKernel::kFp8Strips:
      return LaunchFp8Strips(a, q);
    case EncodeKernel::kFrame:
      return a.params.square              ? LaunchSquaresFrame(a, q)
             : scaling == Scaling::kNvfp4 ? LaunchNvfp4Frame(a, q)
             : scaling == Scaling::kMx    ? LaunchMxFrame(a, q)
                                          : LaunchFp8Frame(a, q);
    case EncodeKernel::kSpans:
      return input == DType::kF32   ? LaunchEncodeSpans<DType::kF32>(a, q)
             : input == DType::kF16 ? LaunchEncodeSpans<DType::kF16>(a, q)
                                    : LaunchEncodeSpans<DType::kBF16>(a, q);
    case EncodeKernel::kNone:
      break;
  }
  return cudaErrorInvalidValue;
}

cudaError_t LaunchCountErrors(ErrorsKernel kernel, const EncodeArgs& a,
                              const Queue& q) {
  const DType input = a.params.input;
  switch (kernel) {
    case ErrorsKernel::kTiles:
      return input == DType::kF32 ? LaunchCountErrorsOfTiles<DType::kF32>(a, q)
             : input == DType::kF16
                 ? LaunchCountErrorsOfTiles<DType::kF16>(a, q)
                 : LaunchCountErrorsOfTiles<DType::kBF16>(a, q);
    case ErrorsKernel::kSpans:
      return input == DType::kF32 ? LaunchCountErrorsOfSpans<DType::kF32>(a, q)
             : input == DType::kF16
                 ? LaunchCountErrorsOfSpans<DType::kF16>(a, q)
                 : LaunchCountErrorsOfSpans<DType::kBF16>(a, q);
    case ErrorsKernel::kNone:
      break;
  }
  return cudaErrorInvalidValue;
}

cudaError_t LaunchDecode(DecodeKernel kernel, const DecodeArgs& a,
                         const Queue& q) {
  switch (kernel) {
    case DecodeKernel::kRows:
      return LaunchDecodeRows(a, q);
    case DecodeKernel::kColumnsInPlace:
      return LaunchDecodeColumnsInPlace(a, q);
    case DecodeKernel::kRotatedRows:
      return LaunchDecodeRotatedRows(a, q);
    case DecodeKernel::kRotatedInPlace:
      return LaunchDecodeRotatedInPlace(a, q);
    case DecodeKernel::kColumns:
      return LaunchDecodeColumns(a, q);
    case DecodeKernel::kSpans:
      return LaunchDecodeSpans(a, q);
    case DecodeKernel::kNone:
      break;
  }
  return cudaErrorInvalidValue;
}

cudaError_t LaunchRotate(RotateKernel kernel, const RotateArgs& a,
                         const Queue& q) {
  switch (kernel) {
    case RotateKernel::kBlocks:
      return LaunchRotateBlocks(a, q);
    case RotateKernel::kSpans:
      return LaunchRotateSpans(a, q);
    case RotateKernel::kNone:
      break;
  }
  return cudaErrorInvalidValue;
}

}  // namespace quantd::cuda
