// Every attack that is known to have hurt a server of this kind, one row each.
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
  // The honest load to compare with: number of connections and size of calls.
  int connections = 1;
  size_t call_bytes = 64 << 10;
  // Limit of the server's descriptors; 0: the usual limit.
  int descriptors = 0;
  // The attacker sends no token; otherwise one with a name of its own.
  bool without_token = false;
  // An abuse of HTTP/2, TLS or connections that only strangers are expected to
  // try: it goes through the edge.
  bool by_strangers = false;
  // It occupies stream slots, so one of the good clients uses streams.
  bool takes_streams = false;
  // The shortest time in which it has an effect.
  std::chrono::milliseconds moment{300};
};

std::span<const Attack> Attacks();
// Returns null if there is no such attack.
const Attack* FindAttack(std::string_view name);

// Attacks on calls and their memory, on streams, and on HTTP/2 itself.
std::span<const Attack> CallAttacks();
std::span<const Attack> StreamAttacks();
std::span<const Attack> ProtocolAttacks();

// A load of well-behaved clients: calls of `call_bytes` on that many
// connections, together at most `bytes_per_second`.
void RunHonestly(Assault& assault, int connections, size_t call_bytes,
                 double bytes_per_second);

}  // namespace quantd::attack

#endif  // QUANTD_TESTS_ATTACK_ATTACKS_H_
