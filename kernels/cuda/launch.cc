#include "kernels/cuda/launch.h"

#include <cstddef>
#include <type_traits>

namespace quantd::cuda {
namespace {

template <typename F>
cudaError_t ForInput(const EncodeArgs& a, const F& launch) {
  switch (a.params.input) {
    case DType::kF32:
      return launch(std::integral_constant<DType, DType::kF32>{});
    case DType::kF16:
      return launch(std::integral_constant<DType, DType::kF16>{});
    default:
      return launch(std::integral_constant<DType, DType::kBF16>{});
  }
}

template <typename Args>
using Launcher = cudaError_t(const Args&, const Queue&);

// Calls the launcher of `kernel`. The launcher of `first` is launchers[0], and
// the others follow in the order of the enumerators.
template <typename Kernel, typename Args, size_t N>
cudaError_t LaunchFrom(Launcher<Args>* const (&launchers)[N], Kernel first,
                       Kernel kernel, const Args& args, const Queue& queue) {
  const auto i = static_cast<size_t>(kernel) - static_cast<size_t>(first);
  return i < N ? launchers[i](args, queue) : cudaErrorInvalidValue;
}

}  // namespace

cudaError_t LaunchEncodeSpans(const EncodeArgs& a, const Queue& q) {
  return ForInput(a, [&](auto d) { return LaunchEncodeSpansOf<d()>(a, q); });
}

cudaError_t LaunchCountErrorsOfTiles(const EncodeArgs& a, const Queue& q) {
  return ForInput(
      a, [&](auto d) { return LaunchCountErrorsOfTilesOf<d()>(a, q); });
}

cudaError_t LaunchCountErrorsOfSpans(const EncodeArgs& a, const Queue& q) {
  return ForInput(
      a, [&](auto d) { return LaunchCountErrorsOfSpansOf<d()>(a, q); });
}

#define QUANTD_ADDRESS(kernel, name, ...) &Launch##name,

cudaError_t Launch(AmaxKernel kernel, const AmaxArgs& args,
                   const Queue& queue) {
  static constexpr Launcher<AmaxArgs>* kLaunchers[] = {
      QUANTD_AMAX_OF_TENSOR(QUANTD_ADDRESS)};
  return LaunchFrom(kLaunchers, AmaxKernel::kPlain, kernel, args, queue);
}
cudaError_t Launch(AmaxKernel kernel, const SpanAmaxArgs& args,
                   const Queue& queue) {
  static constexpr Launcher<SpanAmaxArgs>* kLaunchers[] = {
      QUANTD_AMAX_OF_GROUPS(QUANTD_ADDRESS)};
  return LaunchFrom(kLaunchers, AmaxKernel::kLines, kernel, args, queue);
}
cudaError_t Launch(EncodeKernel kernel, const EncodeArgs& args,
                   const Queue& queue) {
  static constexpr Launcher<EncodeArgs>* kLaunchers[] = {
      QUANTD_ENCODERS(QUANTD_ADDRESS)};
  return LaunchFrom(kLaunchers, EncodeKernel{1}, kernel, args, queue);
}
cudaError_t Launch(ErrorsKernel kernel, const EncodeArgs& args,
                   const Queue& queue) {
  static constexpr Launcher<EncodeArgs>* kLaunchers[] = {
      QUANTD_ERROR_COUNTERS(QUANTD_ADDRESS)};
  return LaunchFrom(kLaunchers, ErrorsKernel{1}, kernel, args, queue);
}
cudaError_t Launch(DecodeKernel kernel, const DecodeArgs& args,
                   const Queue& queue) {
  static constexpr Launcher<DecodeArgs>* kLaunchers[] = {
      QUANTD_DECODERS(QUANTD_ADDRESS)};
  return LaunchFrom(kLaunchers, DecodeKernel{1}, kernel, args, queue);
}
cudaError_t Launch(RotateKernel kernel, const RotateArgs& args,
                   const Queue& queue) {
  static constexpr Launcher<RotateArgs>* kLaunchers[] = {
      QUANTD_ROTATORS(QUANTD_ADDRESS)};
  return LaunchFrom(kLaunchers, RotateKernel{1}, kernel, args, queue);
}

#undef QUANTD_ADDRESS

}  // namespace quantd::cuda
