// Written by QUANTD_UPDATE_PAGES=1 build/cpu/tests/kernels/engine_test.
#include "kernels/device/health/self_test.h"

namespace quantd {

absl::Span<const KnownAnswer> KnownAnswers() {
  static const KnownAnswer kAnswers[] = {
      {"nvfp4", 0x4b7965644420ef66},
      {"nvfp4_2d", 0xe7bc8af6ab3c2060},
      {"fp8_e4m3", 0x73206d02c94f9a21},
      {"fp8_e5m2", 0x45c782807d5f7ea9},
      {"mxfp8_e4m3", 0xa938ef7c6cf8e656},
      {"mxfp8_e5m2", 0x936f7db2a7d555d8},
      {"mxfp4", 0x05dee510112a8da8},
      {"fp8_block_e4m3", 0x44a1323ae2a2c5b1},
      {"fp8_block_e5m2", 0xada1a440c6b6fa29},
      {"fp8_block_2d_e4m3", 0xbee3ece1e04ab55b},
      {"fp8_block_2d_e5m2", 0x18fdc2be1934453b},
      {"fp8_channel_e4m3", 0x15f9256059784f56},
      {"nvfp4 rotated", 0x566b03f078cc5eec},
      {"nvfp4 rowwise", 0x8259c14c7735cfbc},
      {"nvfp4 decoded", 0xa86aac4b47c4ee44},
      {"mxfp8_e4m3 rowwise", 0xe05a79358e88c2ef},
      {"mxfp8_e4m3 decoded", 0x3ed502a5279260f2},
      {"fp8_e4m3 rowwise", 0x63912ab01ee768f0},
      {"fp8_e4m3 decoded", 0xee0ac8e10a42f99f},
      {"fp8_block_e4m3 rowwise", 0x55cfdc7b6754f6ae},
      {"fp8_block_e4m3 decoded", 0x3ed502a5279260f2},
      {"rht_amax", 0x9ba037b51ef78f5b},
      {"apply_rht", 0x238b6f4aa6cb0a1f},
  };
  return kAnswers;
}

}  // namespace quantd
