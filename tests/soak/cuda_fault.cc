// Makes a GPU fail in the CUDA context of one server, into which this library
// is preloaded. QUANTD_CUDA_FAULT names a file. A line written to it is
// executed, and the file is then emptied:
//
//   illegal_address a kernel writes to an invalid address
//   hang SECONDS        a kernel occupies every multiprocessor for that long
//   exhaustion SECONDS  all free memory of the GPU is held for that long
//
// The driver is loaded at run time. Without a GPU this library only prints a
// message.
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

// The kernels in PTX, which the driver compiles.
constexpr char kPtx[] = R"(
.version 7.0
.target sm_80
.address_size 64

.visible .entry illegal_address()
{
  .reg .b32 %value;
  .reg .b64 %address;
  mov.u64 %address, 16;
  mov.u32 %value, 1;
  st.global.u32 [%address], %value;
  ret;
}

.visible .entry hang(.param .u64 nanoseconds)
{
  .reg .pred %more;
  .reg .b64 %start, %now, %passed, %limit;
  ld.param.u64 %limit, [nanoseconds];
  mov.u64 %start, %globaltimer;
again:
  mov.u64 %now, %globaltimer;
  sub.u64 %passed, %now, %start;
  setp.lt.u64 %more, %passed, %limit;
  @%more bra again;
  ret;
}
)";

// The functions of the driver that this library uses, by their documented names
// and types.
using Result = int;
using Device = int;
using Context = void*;
using Module = void*;
using Function = void*;
using Pointer = unsigned long long;  // NOLINT: the driver's own
constexpr int kMultiprocessors =
    16;  // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT

class Driver {
 public:
  bool Open() {
    library_ = dlopen("libcuda.so.1", RTLD_NOW);
    if (library_ == nullptr) return Say("no driver", 0);
    auto init = Find<Result (*)(unsigned)>("cuInit");
    auto get = Find<Result (*)(Device*, int)>("cuDeviceGet");
    auto retain =
        Find<Result (*)(Context*, Device)>("cuDevicePrimaryCtxRetain");
    auto set = Find<Result (*)(Context)>("cuCtxSetCurrent");
    auto load = Find<Result (*)(Module*, const void*)>("cuModuleLoadData");
    auto attribute =
        Find<Result (*)(int*, int, Device)>("cuDeviceGetAttribute");
    Device device = 0;
    Context context = nullptr;
    Result failed = init(0);
    if (failed == 0) failed = get(&device, 0);
    // Retains the context of the server's CUDA runtime.
    if (failed == 0) failed = retain(&context, device);
    if (failed == 0) failed = set(context);
    if (failed == 0) failed = load(&module_, kPtx);
    if (failed == 0) failed = attribute(&processors_, kMultiprocessors, device);
    return failed == 0 || Say("cannot be used", failed);
  }

  void IllegalAddress() { Launch("illegal_address", 1, 1, nullptr); }

  void Hang(double seconds) {
    auto nanoseconds = static_cast<uint64_t>(seconds * 1e9);
    std::array<void*, 1> arguments = {&nanoseconds};
    // Two blocks of 1024 threads fill a multiprocessor, which holds 2048
    // threads.
    Launch("hang", static_cast<unsigned>(2 * processors_), 1024,
           arguments.data());
  }

  void Exhaust(double seconds) {
    auto allocate = Find<Result (*)(Pointer*, size_t)>("cuMemAlloc_v2");
    auto release = Find<Result (*)(Pointer)>("cuMemFree_v2");
    std::vector<Pointer> held;
    for (size_t size = size_t{1} << 32; size >= (size_t{1} << 20);) {
      Pointer block = 0;
      if (allocate(&block, size) == 0) {
        held.push_back(block);
      } else {
        size /= 2;
      }
    }
    Say("blocks held", static_cast<int>(held.size()));
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    for (const Pointer block : held) release(block);
  }

 private:
  template <typename F>
  F Find(const char* name) {
    void* const found = dlsym(library_, name);
    if (found == nullptr) {
      Say(name, -1);
      _exit(70);
    }
    return reinterpret_cast<F>(found);
  }

  void Launch(const char* name, unsigned blocks, unsigned threads,
              void** arguments) {
    auto get =
        Find<Result (*)(Function*, Module, const char*)>("cuModuleGetFunction");
    auto launch =
        Find<Result (*)(Function, unsigned, unsigned, unsigned, unsigned,
                        unsigned, unsigned, unsigned, void*, void**, void**)>(
            "cuLaunchKernel");
    auto create = Find<Result (*)(void**, unsigned)>("cuStreamCreate");
    constexpr unsigned kNonBlocking = 1;
    void* stream = nullptr;
    Function function = nullptr;
    Result failed = create(&stream, kNonBlocking);
    if (failed == 0) failed = get(&function, module_, name);
    if (failed == 0) {
      failed = launch(function, blocks, 1, 1, threads, 1, 1, 0, stream,
                      arguments, nullptr);
    }
    Say(name, failed);
  }

  static bool Say(const char* what, int number) {
    std::fprintf(stderr, "cuda_fault: %s: %d\n", what, number);
    return false;
  }

  void* library_ = nullptr;
  Module module_ = nullptr;
  int processors_ = 0;
};

void Watch(const std::string& path) {
  Driver driver;
  bool open = false;
  while (true) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::string line;
    std::getline(std::ifstream(path), line);
    if (line.empty()) continue;
    std::ofstream(path, std::ios::trunc);
    std::istringstream words(line);
    std::string what;
    double seconds = 0;
    words >> what >> seconds;
    if (!open && !(open = driver.Open())) continue;
    if (what == "illegal_address") driver.IllegalAddress();
    if (what == "hang") driver.Hang(seconds);
    if (what == "exhaustion") driver.Exhaust(seconds);
  }
}

[[gnu::constructor]] void Begin() {
  const char* const path = getenv("QUANTD_CUDA_FAULT");
  if (path != nullptr) std::thread(Watch, std::string(path)).detach();
}

}  // namespace
