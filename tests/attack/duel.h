// Runs an attacker and good clients on one server, each in a separate process.
#ifndef QUANTD_TESTS_ATTACK_DUEL_H_
#define QUANTD_TESTS_ATTACK_DUEL_H_

#include <chrono>
#include <cstdint>
#include <vector>

#include "tests/attack/attacked_server.h"
#include "tests/attack/attacks.h"
#include "tests/attack/good_clients.h"

namespace quantd::attack {

struct Outcome {
  std::vector<Score> before;  // before the attack, one for each kind of callers
  std::vector<Score> during;
  std::vector<Score> honest;  // beside honest clients that send as many bytes
  Deeds deeds;
  uint64_t most_resident = 0;
  uint64_t most_resident_of_edge = 0;
  uint64_t bound = 0;
  bool probe = false;       // `quantd --probe` succeeded during the attack
  bool settled = false;     // all memory was released afterwards
  bool accepts = false;     // a new client is served afterwards
  int crash = 0;            // the signal that ended the server, or 0
  int exit_code = 0;        // after SIGTERM
  double stop_seconds = 0;  // time from SIGTERM to the exit
};

struct DuelTimes {
  std::chrono::milliseconds before{5000};
  std::chrono::milliseconds during{5000};
  std::chrono::milliseconds honest{0};  // 0: not measured
  std::chrono::milliseconds deadline{10000};
};

Outcome RunDuel(const Attack& attack, const Setting& setting,
                const DuelTimes& times, const std::vector<Callers>& callers);

// Returns two callers of 16 MiB and one of 4 KiB.
std::vector<Callers> UsualCallers();

}  // namespace quantd::attack

#endif  // QUANTD_TESTS_ATTACK_DUEL_H_
