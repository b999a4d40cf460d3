// A server to be attacked, and the process that attacks it.
#ifndef QUANTD_TESTS_ATTACK_ATTACKED_SERVER_H_
#define QUANTD_TESTS_ATTACK_ATTACKED_SERVER_H_

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "quantd/credentials.h"
#include "tests/attack/edge/edge.h"
#include "tests/bench/rpc_process.h"

namespace quantd::attack {

// How everybody comes to the server, good clients and attackers.
enum class Way {
  kPlain,   // plain text on loopback
  kMutual,  // TLS, with certificates and tokens
  kEdge,    // TLS to the HAProxy of deploy/edge, with tokens; attackers from an
            // address of their own
};

struct Setting {
  size_t budget = 0;  // 0: the server's own choice
  Way way = Way::kPlain;
  // More flags of the server.
  std::vector<std::string> flags = {};
};

// TLS files and a token, for all servers of this process. Made at the first
// use, gone with the process.
struct Secrets {
  std::string directory;
  std::vector<std::string> tokens;  // flags of a server that wants a token
  std::vector<std::string> mutual;  // and a certificate
  std::string pem;                  // its certificate and key in one file
  Credentials credentials;          // of a good client
};
const Secrets& TheSecrets();

// How long a server of ours may take to let calls finish.
inline constexpr int kDrainSeconds = 5;

// A server that is watched until it ends.
class AttackedServer {
 public:
  // With no more descriptors than that; 0: as many as usual.
  AttackedServer(const Setting& setting, int descriptors);
  ~AttackedServer();

  bool running() const {
    return process_->running() && (edge_ == nullptr || edge_->running());
  }
  // The address that clients dial.
  const std::string& address() const {
    return edge_ == nullptr ? process_->address() : edge_->address();
  }
  uint64_t bound() const { return bound_; }
  const Credentials& credentials() const { return credentials_; }
  // What it says it takes, or 0.
  size_t LargestRequest() const;
  // Whether `quantd --probe`, which does not come through an edge, finds it
  // serving.
  bool Probe() const;
  // The most memory that was resident, also of one that has crashed.
  uint64_t MostResident() const { return most_; }
  uint64_t MostResidentOfEdge() const { return most_of_edge_; }
  // What the ledger says is lent, by the metrics page; negative: no answer.
  int64_t LentBytes() const;
  // Whether nothing is lent any more, within that time.
  bool Settles(std::chrono::milliseconds patience) const;
  // Sends SIGTERM. The exit code, negative: a signal or no end in time.
  int Stop(double patience_seconds);
  // A server that is gone already: how it ended. 0: it is there. Nothing
  // looks at its memory from then on.
  int Crash();

 private:
  void EndWatch();

  std::unique_ptr<bench::ServerProcess> process_;
  std::unique_ptr<Edge> edge_;
  const Way way_;
  Credentials credentials_;
  uint64_t bound_ = 0;
  std::string metrics_;  // "IP:PORT"
  std::atomic<uint64_t> most_ = 0;
  std::atomic<uint64_t> most_of_edge_ = 0;
  std::atomic<bool> watched_ = true;
  std::thread watch_;
};

// What an attacker did.
struct Deeds {
  int connections = 0;
  int failed_connections = 0;
  uint64_t sent_bytes = 0;
  double seconds = 0;
};

class AttackerProcess {
 public:
  // On the last core, for at most so long.
  AttackerProcess(const AttackedServer& server, const Setting& setting,
                  std::chrono::milliseconds time,
                  const std::vector<std::string>& arguments,
                  bool shows_token = true);
  ~AttackerProcess();
  Deeds Stop();

 private:
  pid_t pid_ = -1;
  int output_ = -1;
};

}  // namespace quantd::attack

#endif  // QUANTD_TESTS_ATTACK_ATTACKED_SERVER_H_
