"""A link between two network namespaces that can delay and lose frames.

A process in a third namespace carries every frame between two virtual
interfaces. While the link is lossy, each frame has its own delay, so that frames
overtake each other, and some are lost. TCP runs in the kernel, unchanged.

Each line of standard input is a command. The reply is a line of counts:

    open NEAR FAR                     carries frames between these interfaces
    lossy DELAY_MS JITTER_MS PERCENT  delays and loses frames from now on
    heal                              ends that; frames in flight stay delayed
    counts
"""

import collections
import heapq
import json
import os
import random
import select
import socket
import subprocess
import sys
import time

ETH_P_ALL, SO_RCVBUFFORCE = 3, 33
# Constants of packet(7), for which Python's socket module has no names.
SOL_PACKET, STATISTICS, VNET_HDR, IGNORE_OUTGOING = 263, 6, 15, 23
BUFFER = 8 << 20  # socket buffer, for times when this process does not run
MOST = 4096  # frames in flight
AT_ONCE = 64  # frames read from one end before the other end
SEED = 1  # frames of the same numbers are lost in every run


class LossyLink:
    """The link's process, as seen by the program that started it."""

    def __init__(self, log):
        self.log = log
        with log.open("ab") as errors:
            self.process = subprocess.Popen(
                ["unshare", "-n", sys.executable, "-B", __file__],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)
        self.inside = ["nsenter", "-t", str(self.process.pid), "-n"]
        self.process.stdout.readline()  # waits until the namespace exists

    def tell(self, *words):
        """Sends a command and returns the counts once the process has executed it."""
        try:
            os.write(self.process.stdin.fileno(), " ".join(words).encode())
            return json.loads(self.process.stdout.readline())
        except (OSError, ValueError) as error:
            raise RuntimeError("the link ended: " +
                               self.log.read_text()) from error


def open_end(name):
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    end.setblocking(False)
    end.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER)
    # Keeps checksums that the sender leaves to its interface. The header before
    # every frame marks them.
    end.setsockopt(SOL_PACKET, VNET_HDR, 1)
    end.setsockopt(SOL_PACKET, IGNORE_OUTGOING, 1)
    end.bind((name, ETH_P_ALL))
    return end


class Carrier:
    """Carries frames until they are sent or lost."""

    def __init__(self):
        self.ends = {}  # maps each end to the other end
        self.lossy = ()  # delay and jitter in ms, and percent lost; or empty
        self.random = random.Random(SEED)
        self.late = []  # due time, arrival, frame, destination
        self.count = collections.Counter(
            at_once=0, delayed=0, lost=0, overflowed=0, delays_ms=0)

    def command(self, verb, *words):
        if verb == "open":
            near, far = map(open_end, words)
            self.ends = {near: far, far: near}
        elif verb in ("lossy", "heal"):
            self.lossy = tuple(map(float, words))
        elif verb != "counts":
            raise ValueError(verb)
        for end in self.ends:
            # Counts frames dropped for lack of buffer space. The kernel resets
            # its count on reading.
            told = end.getsockopt(SOL_PACKET, STATISTICS, 8)
            self.count["overflowed"] += int.from_bytes(told[4:], sys.byteorder)
        print(json.dumps(self.count), flush=True)

    def take(self, end):
        for _ in range(AT_ONCE):
            try:
                frame = end.recv(128 << 10)
            except BlockingIOError:
                return
            if not self.lossy:
                self.send(self.ends[end], frame, "at_once")
                continue
            delay, jitter, percent = self.lossy
            # Draws both numbers for each frame, so that the n-th frame has the
            # same fate in every run.
            lost = self.random.uniform(0, 100) < percent
            delay += self.random.uniform(-jitter, jitter)
            if lost or len(self.late) >= MOST:
                self.count["lost" if lost else "overflowed"] += 1
            else:
                now = time.monotonic()
                heapq.heappush(self.late,
                               (now + delay / 1e3, now, frame, self.ends[end]))

    def send_due(self):
        """Sends due frames. Returns the seconds until the next one is due, or None."""
        while self.late:
            due, came, frame, end = self.late[0]
            now = time.monotonic()
            if due > now:
                return due - now
            heapq.heappop(self.late)
            self.count["delays_ms"] += round(1e3 * (now - came))
            self.send(end, frame, "delayed" if due > came else "at_once")
        return None

    def send(self, end, frame, how):
        try:
            end.send(frame)
        except OSError:  # the buffer is full; recv reports an end that has closed
            how = "overflowed"
        self.count[how] += 1


def main():
    print("begun", flush=True)
    carrier, commands = Carrier(), sys.stdin.fileno()
    while True:
        ready, _, _ = select.select([commands, *carrier.ends], [], [],
                                    carrier.send_due())
        for end in set(ready) - {commands}:
            carrier.take(end)
        if commands in ready:
            # There is a single command, since the sender waits for each reply.
            line = os.read(commands, 4096)
            if not line:
                return  # the parent process has exited
            carrier.command(*line.decode().split())


if __name__ == "__main__":
    main()
