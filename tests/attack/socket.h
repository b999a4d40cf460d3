// A stream socket to a server, in plain text or TLS. No operation blocks beyond
// its end time.
#ifndef QUANTD_TESTS_ATTACK_SOCKET_H_
#define QUANTD_TESTS_ATTACK_SOCKET_H_

#include <openssl/ssl.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace quantd::attack {

// The address that an attacker dials, and its certificate and token.
struct Target {
  std::string address = {};  // "IP:PORT" or "unix:PATH"
  std::string source = {};   // source IP; empty: any
  bool tls = false;          // TLS without verifying the certificate
  // PEM files of the certificate and its key; empty: none.
  std::string certificate = {};
  std::string key = {};
  std::string token = {};  // a bearer token; empty: none
};

class Socket {
 public:
  using Clock = std::chrono::steady_clock;

  // Connects and, for TLS, performs a handshake with ALPN "h2". Returns null on
  // failure. `end` is the end time of all operations.
  static std::unique_ptr<Socket> Connect(const Target& target,
                                         Clock::time_point end);
  // Connects without TLS, even if the target has it.
  static std::unique_ptr<Socket> ConnectBare(const Target& target,
                                             Clock::time_point end);
  ~Socket();
  Socket(const Socket&) = delete;

  bool alive() const { return alive_; }
  bool over() const { return Clock::now() >= end_; }
  // Returns the bytes that all sockets of this process have sent, before
  // encryption.
  static uint64_t SentByAll();

  // Makes all connections of this process, also later ones, end with a reset.
  // Otherwise the kernel would keep sending the buffers of the finished
  // process, which would prolong the attack.
  static void ResetAll();

  // Sends all bytes. Returns false if the connection or its time has ended.
  bool Send(std::string_view bytes);
  // Appends the bytes that have arrived to `to`, waiting at most `wait` for the
  // first byte.
  void Receive(std::string* to, std::chrono::milliseconds wait);

 private:
  Socket(int fd, Clock::time_point end) : fd_(fd), end_(end) {}
  bool Handshake(const Target& target);
  bool Wait(short events, std::chrono::milliseconds most);

  const int fd_;
  const Clock::time_point end_;
  SSL_CTX* context_ = nullptr;
  SSL* ssl_ = nullptr;
  bool alive_ = true;
};

}  // namespace quantd::attack

#endif  // QUANTD_TESTS_ATTACK_SOCKET_H_
