#include "tests/attack/attacks.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <vector>

#include "tests/attack/requests.h"

namespace quantd::attack {

using std::chrono::milliseconds;

std::span<const Attack> Attacks() {
  static const std::vector<Attack> all = [] {
    std::vector<Attack> rows;
    for (const auto& some :
         {CallAttacks(), StreamAttacks(), ProtocolAttacks()}) {
      rows.insert(rows.end(), some.begin(), some.end());
    }
    return rows;
  }();
  return all;
}

const Attack* FindAttack(std::string_view name) {
  const auto all = Attacks();
  const auto found = std::ranges::find(all, name, &Attack::name);
  return found == all.end() ? nullptr : &*found;
}

void RunHonestly(Assault& assault, int connections, size_t call_bytes,
                 double bytes_per_second) {
  const std::string request = QuantizeRequestOf(
      std::max<int64_t>(1, static_cast<int64_t>(call_bytes) / 2048));
  const Metadata metadata = {
      {"quantd-request-bytes", std::to_string(request.size())}};
  const auto start = Assault::Clock::now();
  std::atomic<double> sent = 0;
  assault.OnConnections(
      connections, {.welcome_replies = true}, [&](Http2Peer& peer) {
        while (!assault.over() && peer.alive()) {
          // A client that is faster than the rate waits.
          const double due =
              sent.fetch_add(static_cast<double>(request.size())) /
              bytes_per_second;
          while (!assault.over() &&
                 std::chrono::duration<double>(Assault::Clock::now() - start)
                         .count() < due) {
            assault.Sleep(milliseconds(5));
            peer.Pump();
          }
          if (assault.over()) return;
          const uint32_t stream = peer.Open(kQuantize, metadata);
          peer.SendMessage(stream, request);
          peer.AwaitEnd(stream, milliseconds(30000));
        }
      });
}

}  // namespace quantd::attack
