#include "tests/attack/assault.h"

#include <algorithm>
#include <thread>
#include <vector>

namespace quantd::attack {
namespace {

using std::chrono::milliseconds;

// The pause between attempts to connect to a server that refuses.
constexpr milliseconds kPause{50};

}  // namespace

void Assault::Sleep(milliseconds time) const {
  std::this_thread::sleep_until(std::min(end_, Clock::now() + time));
}

void Assault::Repeat(int count, const std::function<bool()>& once) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&] {
      while (!over()) {
        ++(once() ? connections_ : failed_connections_);
        Sleep(kPause);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void Assault::OnConnections(int count, const Habits& habits,
                            const std::function<void(Http2Peer&)>& life) {
  Repeat(count, [&] {
    const auto peer = Http2Peer::Connect(target_, habits, end_);
    if (peer != nullptr) life(*peer);
    return peer != nullptr;
  });
}

void Assault::OnBareConnections(int count,
                                const std::function<void(Socket&)>& life) {
  Repeat(count, [&] {
    const auto socket = Socket::ConnectBare(target_, end_);
    if (socket != nullptr) life(*socket);
    return socket != nullptr;
  });
}

void Assault::Hold(Http2Peer& peer) const {
  while (!over() && peer.alive()) {
    peer.Pump(milliseconds(50));
    // Polls, because a peer that does not read does not notice the end of its
    // connection.
    Sleep(milliseconds(10));
  }
}

}  // namespace quantd::attack
