#include "quantd/allocator.h"

#include "proto/net/allocator.h"

namespace quantd {

void TuneAllocatorForBulkTransfers() { TuneAllocator(); }

}  // namespace quantd
