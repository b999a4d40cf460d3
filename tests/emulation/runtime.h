// Settings of the emulated devices, for tests.
#ifndef QUANTD_TESTS_EMULATION_RUNTIME_H_
#define QUANTD_TESTS_EMULATION_RUNTIME_H_

namespace emulation {

// Sets the number of devices, and whether they can access each other's memory.
// There is one device by default.
void SetDevices(int count, bool peers);

}  // namespace emulation

#endif  // QUANTD_TESTS_EMULATION_RUNTIME_H_
