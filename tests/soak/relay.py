"""Imitates a network between clients and a server, in this process.

Forwards bytes unchanged, late, slowly, in one direction, corrupted, or not at
all. It acts on connections as lossy_link.py does on packets, on any machine and
without privileges.
"""

import select
import socket
import struct
import threading
import time

PIECE = 64 << 10
MOST = 4 << 20  # bytes in flight in one direction


class Relay:
    def __init__(self, target):
        host, port = target.rsplit(":", 1)
        self.target = (host, int(port))
        self.listener = None
        self.address = None
        self.lock = threading.Lock()
        self.links = set()
        self.closed = False
        self.heal()
        self._listen()

    # Connections.
    def heal(self):
        self.cut = {"up": False, "down": False}
        self.delay = 0.0
        # Bytes per second in each direction of each connection.
        self.rate = None
        self.spoil = False
        if self.address and self.listener is None and not self.closed:
            self._listen()

    def cut_all(self):
        self.cut = {"up": True, "down": True}

    def cut_half(self):
        self.cut = {"up": False, "down": True}

    def reset(self):
        with self.lock:
            links = list(self.links)
        for link in links:
            link.reset()

    def refuse(self):
        listener, self.listener = self.listener, None
        if listener:
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        self.reset()

    def close(self):
        self.closed = True
        self.refuse()

    def _listen(self):
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        port = int(self.address.rsplit(":", 1)[1]) if self.address else 0
        listener.bind(("127.0.0.1", port))
        listener.listen(64)
        self.address = f"127.0.0.1:{listener.getsockname()[1]}"
        self.listener = listener
        threading.Thread(target=self._accept, args=(listener,),
                         daemon=True).start()

    def _accept(self, listener):
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self.target, timeout=5)
            except OSError:
                reset(client)
                continue
            link = Link(self, client, server)
            with self.lock:
                self.links.add(link)
            link.start()


def reset(s):
    try:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                     struct.pack("ii", 1, 0))
        s.close()
    except OSError:
        pass


class Link:
    """A connection: two threads that read bytes and send them when they are due."""

    def __init__(self, relay, client, server):
        self.relay, self.ends = relay, (client, server)
        self.ended = threading.Event()
        for end in self.ends:
            end.settimeout(None)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.threads = [
            threading.Thread(target=self._carry, args=("up", client, server),
                             daemon=True),
            threading.Thread(target=self._carry, args=("down", server, client),
                             daemon=True)]

    def start(self):
        for thread in self.threads:
            thread.start()

    def reset(self):
        """Makes the threads end, which reset the connection."""
        self.ended.set()

    def _carry(self, way, source, sink):
        waiting = []  # due time, bytes
        held, next_send = 0, 0.0
        spoilt = False
        try:
            while not self.ended.is_set():
                now = time.monotonic()
                room = held < MOST and not self.relay.cut[way]
                pause = 0.02
                if waiting:
                    pause = min(pause, max(0, waiting[0][0] - now,
                                           next_send - now))
                if room:
                    if select.select([source], [], [], pause)[0]:
                        data = source.recv(PIECE)
                        if not data:
                            break
                        waiting.append((time.monotonic() + self.relay.delay,
                                        data))
                        held += len(data)
                else:
                    time.sleep(max(pause, 0.001))
                while waiting and not self.ended.is_set() and \
                        not self.relay.cut[way]:
                    now = time.monotonic()
                    if waiting[0][0] > now or next_send > now:
                        break
                    _, data = waiting.pop(0)
                    held -= len(data)
                    if self.relay.spoil and not spoilt and len(data) > 100:
                        spoilt = True
                        data = bytearray(data)
                        data[len(data) // 2] ^= 1
                    if self.relay.rate:
                        next_send = max(next_send, now) + \
                            len(data) / self.relay.rate
                    self._send(sink, data)
        except (OSError, ValueError):
            pass
        self._end()

    def _send(self, sink, data):
        """Sends all data, and checks from time to time whether it must stop."""
        view = memoryview(data)
        while view and not self.ended.is_set():
            if select.select([], [sink], [], 0.05)[1]:
                try:
                    view = view[sink.send(view, socket.MSG_DONTWAIT):]
                except BlockingIOError:
                    pass

    def _end(self):
        first = not self.ended.is_set()
        self.ended.set()
        with self.relay.lock:
            known = self in self.relay.links
            self.relay.links.discard(self)
        if known or first:
            # The other thread notices the end within its pause. The sockets
            # are closed only after that, below, so that no thread uses a
            # closed one.
            for end in self.ends:
                try:
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                   struct.pack("ii", 1, 0))
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
        me = threading.current_thread()
        if me is self.threads[0]:
            if self.threads[1].is_alive():
                self.threads[1].join(5)
            for end in self.ends:
                end.close()
