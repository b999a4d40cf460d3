// A table of attacks that are known to have harmed servers of this kind.
#ifndef QUANTD_TESTS_ATTACK_ATTACKS_H_
#define QUANTD_TESTS_ATTACK_ATTACKS_H_

#include <chrono>
#include <cstddef>
#include <span>
#include <string_view>

#include "tests/attack/assault.h"

namespace quantd::attack {

struct Attack {
  std::string_view name;
  std::string_view what;
  void (*run)(Assault&) = nullptr;
  // The well-behaved load for comparison: number of connections and size of
  // calls.
  int connections = 1;
  size_t call_bytes = 64 << 10;
  // The limit of the server's file descriptors; 0 keeps the usual limit.
  int descriptors = 0;
  // The attacker sends no token. Otherwise it sends a token with its own
  // identity.
  bool without_token = false;
  // The attack abuses HTTP/2, TLS or connections, which only clients without
  // credentials are expected to do. It goes through the edge.
  bool by_strangers = false;
  // The attack occupies stream slots, so one of the good clients uses streams.
  bool takes_streams = false;
  // The shortest time in which the attack has an effect.
  std::chrono::milliseconds moment{300};
};

std::span<const Attack> Attacks();
// Returns null if there is no such attack.
const Attack* FindAttack(std::string_view name);

// Attacks on calls and their memory, on streams, and on HTTP/2 itself.
std::span<const Attack> CallAttacks();
std::span<const Attack> StreamAttacks();
std::span<const Attack> ProtocolAttacks();

// Runs a well-behaved load: calls of `call_bytes` on each connection, together
// at most `bytes_per_second`.
void RunHonestly(Assault& assault, int connections, size_t call_bytes,
                 double bytes_per_second);

}  // namespace quantd::attack

#endif  // QUANTD_TESTS_ATTACK_ATTACKS_H_
