#include "tests/client/memory/gpu_stream.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#ifdef QUANTD_HAVE_CUDA
#include <cuda_runtime_api.h>
#endif

namespace quantd {

#ifdef QUANTD_HAVE_CUDA

namespace {

void Check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "CUDA stream: %s\n", cudaGetErrorString(error));
  std::abort();
}

}  // namespace

struct GpuStream::State {
  cudaStream_t stream = nullptr;
  std::vector<cudaEvent_t> events;
  std::vector<void*> pinned;
  std::atomic<bool> held = false;

  std::byte* Pin(size_t bytes) {
    void* made = nullptr;
    Check(cudaMallocHost(&made, bytes));
    pinned.push_back(made);
    return static_cast<std::byte*>(made);
  }
};

int GpuCount() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) count = 0;
  cudaGetLastError();
  return count;
}

GpuStream::GpuStream() : state_(std::make_unique<State>()) {
  Check(cudaSetDevice(0));
  Check(cudaStreamCreateWithFlags(&state_->stream, cudaStreamNonBlocking));
}

GpuStream::~GpuStream() {
  Release();
  cudaStreamSynchronize(state_->stream);
  for (cudaEvent_t event : state_->events) cudaEventDestroy(event);
  for (void* memory : state_->pinned) cudaFreeHost(memory);
  cudaStreamDestroy(state_->stream);
}

void GpuStream::Hold() {
  state_->held = true;
  Check(cudaLaunchHostFunc(
      state_->stream,
      [](void* held) {
        const auto end =
            std::chrono::steady_clock::now() + std::chrono::minutes(1);
        while (*static_cast<std::atomic<bool>*>(held) &&
               std::chrono::steady_clock::now() < end) {
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
      },
      &state_->held));
}

void GpuStream::Release() { state_->held = false; }

void GpuStream::Write(void* to, absl::Span<const std::byte> bytes) {
  // Copying from pageable memory would wait for the stream here.
  std::byte* const from = state_->Pin(bytes.size());
  std::memcpy(from, bytes.data(), bytes.size());
  Check(cudaMemcpyAsync(to, from, bytes.size(), cudaMemcpyDefault,
                        state_->stream));
}

std::vector<std::byte> GpuStream::Read(const void* from, size_t bytes) {
  std::byte* const to = state_->Pin(bytes);
  Check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, state_->stream));
  Check(cudaStreamSynchronize(state_->stream));
  return {to, to + bytes};
}

void* GpuStream::MakeEvent(bool for_others) {
  unsigned flags = cudaEventDisableTiming;
  if (for_others) flags |= cudaEventInterprocess;
  cudaEvent_t event = nullptr;
  Check(cudaEventCreateWithFlags(&event, flags));
  state_->events.push_back(event);
  return event;
}

void GpuStream::Record(void* event) {
  Check(cudaEventRecord(static_cast<cudaEvent_t>(event), state_->stream));
}

void GpuStream::WaitFor(void* event) {
  Check(cudaStreamWaitEvent(state_->stream, static_cast<cudaEvent_t>(event)));
}

#else

struct GpuStream::State {};

int GpuCount() { return 0; }
GpuStream::GpuStream() = default;
GpuStream::~GpuStream() = default;
void GpuStream::Hold() {}
void GpuStream::Release() {}
void GpuStream::Write(void*, absl::Span<const std::byte>) {}
std::vector<std::byte> GpuStream::Read(const void*, size_t) { return {}; }
void* GpuStream::MakeEvent(bool) { return nullptr; }
void GpuStream::Record(void*) {}
void GpuStream::WaitFor(void*) {}

#endif

}  // namespace quantd
