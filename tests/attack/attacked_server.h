// A server under attack, and the process that attacks it.
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
  kEdge,      // TLS to the HAProxy of deploy/edge, with tokens. Attackers
              // have another source address.
};

struct Setting {
  size_t budget = 0;  // 0: the server's default
  Way way = Way::kPlain;
};

// TLS files and a token for all servers of this process. They are made on first
// use and removed at exit.
struct Secrets {
  std::string directory;
  std::vector<std::string> tokens;  // flags of a server that requires a token
  std::vector<std::string>
      mutual;               // and of one that also requires a certificate
  std::string pem;          // the server's certificate and key in one file
  Credentials credentials;  // credentials of a good client
};
const Secrets& TheSecrets();

// The drain timeout of these servers in seconds.
inline constexpr int kDrainSeconds = 5;

// A server whose memory is watched until it ends.
class AttackedServer {
 public:
  // `descriptors` limits the server's file descriptors; 0 keeps the usual
  // limit.
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
  // Returns the largest request size that the server reports, or 0.
  size_t LargestRequest() const;
  // Returns whether `quantd --probe`, which bypasses the edge, finds the server
  // serving.
  bool Probe() const;
  // Returns the peak of resident memory in bytes, also after a crash.
  uint64_t MostResident() const { return most_; }
  uint64_t MostResidentOfEdge() const { return most_of_edge_; }
  // Returns the bytes that the gate has granted, from the metrics page, or a
  // negative number without a reply.
  int64_t LentBytes() const;
  // Returns whether all memory is released within `patience`.
  bool Settles(std::chrono::milliseconds patience) const;
  // Sends SIGTERM. Returns the exit code, or a negative number if a signal
  // ended the server or it did not exit in time.
  int Stop(double patience_seconds);
  // Returns the signal that ended the server, or 0 if it runs. Stops watching
  // its memory.
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
  // Runs the attacker on the last core, for at most `time`.
  AttackerProcess(const AttackedServer& server, const Setting& setting,
                  std::chrono::milliseconds time,
                  const std::vector<std::string>& arguments,
                  bool shows_token = true);
  Deeds Stop();

 private:
  std::unique_ptr<bench::Process> process_;
};

}  // namespace quantd::attack

#endif  // QUANTD_TESTS_ATTACK_ATTACKED_SERVER_H_
