// Preloaded into a server: gRPC's own end never comes, whatever keeps it.
#include <unistd.h>

struct grpc_server;

extern "C" void grpc_server_cancel_all_calls(grpc_server*) {
  for (;;) pause();
}
