// What tests arrange of the emulated devices.
#ifndef QUANTD_TESTS_EMULATION_RUNTIME_H_
#define QUANTD_TESTS_EMULATION_RUNTIME_H_

#include <cuda_runtime_api.h>

namespace emulation {

// So many devices, at most 8, that may access each other's memory or not. One
// from the start.
void SetDevices(int count, bool peers);

// While held, an event has not passed.
void Hold(cudaEvent_t event, bool held);
// How often it was recorded.
int Records(cudaEvent_t event);
// Events that exist, those opened by a handle among them.
int Events();

}  // namespace emulation

#endif  // QUANTD_TESTS_EMULATION_RUNTIME_H_
