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

// How good clients and attackers reach the server.
enum class Way {
  kPlain,     // plain text on loopback
  kMutual,    // TLS, with certificates and tokens
  kStranger,  // the same, but attackers have no certificate
  kEdge,  // TLS to the HAProxy of deploy/edge, with tokens; attackers from an
          // address of their own
};

struct Setting {
  size_t budget = 0;  // 0: the server's own choice
  Way way = Way::kPlain;
  // Additional flags of the server.
  std::vector<std::string> flags = {};
};

// TLS files and a token for all servers of this process. Made on first use,
// removed with the process.
struct Secrets {
  std::string directory;
  std::vector<std::string> tokens;  // flags of a server that requires a token
  std::vector<std::string> mutual;  // and a certificate
  std::string pem;                  // its certificate and key in one file
  Credentials credentials;          // of a good client
};
const Secrets& TheSecrets();

// Time that our servers give calls to finish.
inline constexpr int kDrainSeconds = 5;

// A server whose memory is watched until it ends.
class AttackedServer {
 public:
  // `descriptors` limits the server's descriptors; 0: the usual limit.
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
  // The largest request that it reports, or 0.
  size_t LargestRequest() const;
  // Whether `quantd --probe`, which bypasses the edge, finds it serving.
  bool Probe() const;
  // The most memory that was resident, also after a crash.
  uint64_t MostResident() const { return most_; }
  uint64_t MostResidentOfEdge() const { return most_of_edge_; }
  // Bytes granted by the gate, from the metrics page; negative: no answer.
  int64_t LentBytes() const;
  // Whether everything is released within that time.
  bool Settles(std::chrono::milliseconds patience) const;
  // Sends SIGTERM. Returns the exit code; negative: ended by a signal, or not
  // in time.
  int Stop(double patience_seconds);
  // How the server ended if it is gone already; 0: it is running. Memory is not
  // watched from then on.
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

// Statistics of an attacker.
struct Deeds {
  int connections = 0;
  int failed_connections = 0;
  uint64_t sent_bytes = 0;
  double seconds = 0;
};

class AttackerProcess {
 public:
  // Runs on the last core, for at most that time.
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
