"""Gives a forked child epoll sets of its own in place of gRPC's.

Until about 1.59, gRPC keeps its epoll set when its last channel is closed. A
child of a fork inherits it, and an epoll set is shared by who inherits it: each
process would be told of the other's sockets, and the one that waits for a socket
would not be. Newer versions close theirs, and nothing is done here.
"""

import ctypes
import os

_EPOLLIN_ET = 0x80000001
_EVENTFD_FLAGS = os.O_CLOEXEC | os.O_NONBLOCK


class _Event(ctypes.Structure):
  # Packed on x86-64 alone: <sys/epoll.h>.
  _pack_ = 1 if os.uname().machine == "x86_64" else 8
  _fields_ = [("events", ctypes.c_uint32), ("data", ctypes.c_uint64)]


def _links() -> dict[int, str]:
  """What each open descriptor of this process is."""
  found = {}
  for name in os.listdir("/proc/self/fd"):
    try:
      found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
    except OSError:
      continue  # that of the listing itself
  return found


def _watched(epoll: int) -> list[tuple[int, int, int]]:
  """Descriptor, events and data of all that a set watches."""
  found = []
  with open(f"/proc/self/fdinfo/{epoll}") as file:
    for line in file:
      words = line.split()
      if words[:1] == ["tfd:"]:
        found.append((int(words[1]), int(words[3], 16), int(words[5], 16)))
  return found


def separate() -> None:
  """In a child of a fork, while gRPC is at rest; never raises."""
  try:
    links = _links()
    for epoll, link in links.items():
      if link == "anon_inode:[eventpoll]":
        _separate(epoll, links)
  except (OSError, ValueError, IndexError, AttributeError):
    return  # no /proc, or no Linux: as gRPC has it


def _separate(epoll: int, links: dict[int, str]) -> None:
  watched = _watched(epoll)
  # gRPC's is told by what wakes it, an eventfd with a pointer for its data:
  # event loops of Python put descriptors there.
  wakers = [
    fd
    for fd, events, data in watched
    if links.get(fd) == "anon_inode:[eventfd]"
    and events & _EPOLLIN_ET == _EPOLLIN_ET
    and data > 1 << 32
  ]
  if not wakers:
    return
  libc = ctypes.CDLL(None, use_errno=True)
  for fd in wakers:
    _replace(fd, libc.eventfd(0, _EVENTFD_FLAGS))
  _replace(epoll, libc.epoll_create1(os.O_CLOEXEC))
  for fd, events, data in watched:
    libc.epoll_ctl(epoll, 1, fd, ctypes.byref(_Event(events, data)))


def _replace(fd: int, by: int) -> None:
  """Puts one descriptor in the place of another."""
  if by < 0:
    raise OSError(ctypes.get_errno(), "no descriptor")
  os.dup2(by, fd, inheritable=False)
  os.close(by)
