// A proxy in front of a server. Connections wait until it is opened, and it can
// close permanently after a number of bytes.
#ifndef QUANTD_TESTS_CLIENT_GATE_H_
#define QUANTD_TESTS_CLIENT_GATE_H_

#include <fcntl.h>
#include <poll.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "tests/testing/loopback.h"

namespace quantd {

class Gate {
 public:
  // `server`: "127.0.0.1:PORT".
  explicit Gate(const std::string& server) : server_(server) {}
  ~Gate() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }

  const std::string& target() const { return listener_.target(); }

  // Waits until a client connects.
  bool WaitForKnock() {
    pollfd p = {listener_.fd(), POLLIN, 0};
    return poll(&p, 1, 60'000) == 1;
  }
  // Forwards at most `bytes` to the server, then breaks all connections,
  // including new ones.
  void Open(size_t bytes = SIZE_MAX) {
    thread_ = std::thread([this, bytes] { Pump(bytes); });
  }
  size_t passed() const { return passed_; }

 private:
  struct Pair {
    int client;
    int server;
  };

  // Copies bytes once. Returns false when either side has closed its
  // connection.
  static bool Move(int from, int to, size_t* moved) {
    char buffer[1 << 16];
    const ssize_t n = recv(from, buffer, sizeof buffer, MSG_DONTWAIT);
    if (n < 0) return errno == EAGAIN;
    if (n == 0) return false;
    *moved = static_cast<size_t>(n);
    for (ssize_t done = 0; done < n;) {
      const ssize_t k = send(to, buffer + done, n - done, MSG_NOSIGNAL);
      if (k <= 0) return false;
      done += k;
    }
    return true;
  }

  void Pump(size_t most) {
    std::vector<Pair> pairs;
    while (!stop_) {
      std::vector<pollfd> polls = {{listener_.fd(), POLLIN, 0}};
      for (const Pair& p : pairs) {
        polls.push_back({p.client, POLLIN, 0});
        polls.push_back({p.server, POLLIN, 0});
      }
      poll(polls.data(), polls.size(), 20);
      if (polls[0].revents != 0) {
        const int client = accept(listener_.fd(), nullptr, nullptr);
        const int server = passed_ < most ? DialLoopback(server_) : -1;
        server < 0 ? void(close(client)) : pairs.push_back({client, server});
      }
      for (size_t i = 0; i < pairs.size();) {
        size_t in = 0;
        size_t out = 0;
        const bool alive = Move(pairs[i].client, pairs[i].server, &in) &&
                           Move(pairs[i].server, pairs[i].client, &out);
        passed_ += in;
        if (alive && passed_ < most) {
          ++i;
          continue;
        }
        close(pairs[i].client);
        close(pairs[i].server);
        pairs.erase(pairs.begin() + static_cast<ptrdiff_t>(i));
      }
    }
    for (const Pair& p : pairs) {
      close(p.client);
      close(p.server);
    }
  }

  const std::string server_;
  LoopbackListener listener_{16};
  std::atomic<bool> stop_ = false;
  std::atomic<size_t> passed_ = 0;
  std::thread thread_;
};

}  // namespace quantd

#endif  // QUANTD_TESTS_CLIENT_GATE_H_
