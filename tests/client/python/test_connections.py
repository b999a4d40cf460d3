"""Tests of several connections to one server when some cannot be made."""

import contextlib
import socket
import struct
import threading
import time

from servers import info, scripted

RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close() resets


@contextlib.contextmanager
def one_way(address):
  """Forwards the first connection to the server; resets all others."""
  host, port = address.rsplit(":", 1)
  listener = socket.create_server(("127.0.0.1", 0))
  ends = []

  def carry(source, sink):
    with contextlib.suppress(OSError):
      while data := source.recv(65536):
        sink.sendall(data)
    with contextlib.suppress(OSError):
      sink.shutdown(socket.SHUT_RDWR)

  def accept():
    with contextlib.suppress(OSError):
      while True:
        end, _ = listener.accept()
        if ends:
          end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
          end.close()
          continue
        ends.extend((end, socket.create_connection((host, int(port)))))
        for a, b in (ends, ends[::-1]):
          threading.Thread(target=carry, args=(a, b), daemon=True).start()

  threading.Thread(target=accept, daemon=True).start()
  try:
    yield f"127.0.0.1:{listener.getsockname()[1]}"
  finally:
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    for end in ends:
      end.close()


def slow(*call):
  time.sleep(1.5)
  return info(*call)


def test_a_failed_connection_gets_no_calls(connect):
  with (
      scripted(info, slow, info) as server,
      one_way(server.address) as address,
  ):
    connection = connect(address)
    connection.info()
    first = threading.Thread(target=connection.info)
    first.start()
    deadline = time.monotonic() + 10
    while len(server.calls) < 2 and time.monotonic() < deadline:
      time.sleep(0.01)
    # The working connection already has a call in flight.
    for _ in range(5):
      assert connection.info().version == "9.9"
    assert first.is_alive()
    first.join()
