// A file descriptor that closes itself. Of what strangers have handed in that
// may take as long as they like: a TCP socket lingers, a file of FUSE or NFS
// asks its server, and what still lies unread in a socket goes with it.
//
// Threads: everything here may be used from any thread, and does not wait.
#ifndef QUANTD_SERVER_MEMORY_DESCRIPTOR_H_
#define QUANTD_SERVER_MEMORY_DESCRIPTOR_H_

namespace quantd {

// Or -1. Move-only.
class Descriptor {
 public:
  // `apart`: closed on a thread of its own, for a stranger decides how long
  // that takes.
  explicit Descriptor(int fd = -1, bool apart = false)
      : fd_(fd), apart_(apart) {}
  Descriptor(Descriptor&& other) noexcept : Descriptor() {
    *this = static_cast<Descriptor&&>(other);
  }
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor();
  int get() const { return fd_; }

 private:
  int fd_;
  bool apart_;
};

// Whether so many are being closed that no more should be taken.
bool ClosingIsBehind();

}  // namespace quantd

#endif  // QUANTD_SERVER_MEMORY_DESCRIPTOR_H_
