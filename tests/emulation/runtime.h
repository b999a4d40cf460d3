// What tests arrange of the emulated devices.
#ifndef QUANTD_TESTS_EMULATION_RUNTIME_H_
#define QUANTD_TESTS_EMULATION_RUNTIME_H_

namespace emulation {

// So many devices, at most 8, that may access each other's memory or not. One
// from the start.
void SetDevices(int count, bool peers);

}  // namespace emulation

#endif  // QUANTD_TESTS_EMULATION_RUNTIME_H_
