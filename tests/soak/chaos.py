"""Faults during a soak, one after another, chosen by a seed."""

import random
import time

from injections import inject

PAUSE = (0.5, 2.0)  # seconds between two events

# Steps of injections.py that begin each fault, the seconds that it lasts, and
# the steps that end it. One of "a|b" is chosen, and one server for PAIR.
DOWN = (0.5, 2)
FAULTS = {
    "client killed": (["victims amax:2"], DOWN, ["victims retire"]),
    "client frozen": (["caller STOP far"], (0.5, 3), ["caller CONT far"]),
    "server killed": (["kill PAIR"], DOWN, ["start PAIR"]),
    "server stopped": (["signal TERM PAIR"], DOWN, ["start PAIR"]),
    "server frozen": (["signal STOP PAIR"], DOWN, ["signal CONT PAIR"]),
    "certificate renewed": (["certificate renew"], (0, 0), []),
    "certificate broken": (["certificate garbage|expire|half|delete"],
                           (1.5, 1.5), ["certificate renew"]),
    "tokens read again": (["tokens revoke|restore", "signal HUP main"], (0, 0),
                          []),
    "disk full": (["disk fill", "signal HUP main"], (2, 2), ["disk free"]),
    "clock stepped": (["clock -3600|3600|86400|-5"], (1.5, 1.5), ["clock 0"]),
    "network cut": (["relay cut|half"], (1, 3), ["relay heal"]),
    "network delayed": (["relay delay 10|50|200"], (3, 3), ["relay heal"]),
    "network slow": (["relay rate 512"], (3, 3), ["relay heal"]),
    "network reset": (["relay reset"], (0, 0), []),
    "network refused": (["relay refuse"], (1, 1), ["relay heal"]),
    "network corrupted": (["relay corrupt"], (1, 1), ["relay heal"]),
}


class Chaos:
    """Begins faults, and ends each of them some seconds later.

    `soak` is a Soak, which is the scene of the injections.
    """

    def __init__(self, soak, seed, without):
        self.soak, self.seed = soak, seed
        self.random = random.Random(seed)
        self.done = {}
        self.missing = list(without)
        self.endings = []  # time, steps, and whether a server of the pair is down
        self.deck = []
        self.next = time.monotonic() + 2

    def step(self):
        now = time.monotonic()
        for ending in [e for e in self.endings if e[0] <= now]:
            self._end(ending)
        if now < self.next:
            return
        self.next = now + self.random.uniform(*PAUSE)
        if not self.deck:
            self.deck = [name for name in FAULTS if name not in self.missing]
            self.random.shuffle(self.deck)
        self._begin(self.deck.pop())

    def _begin(self, name):
        steps, lasts, over = FAULTS[name]
        if name == "disk full" and not self.soak.disk:
            self.missing.append(name)
            return
        down = "PAIR" in steps[0]
        if down and any(ending[2] for ending in self.endings):
            return
        server = self.random.choice(("pair0", "pair1"))
        for line in steps:
            words = [self.random.choice(word.split("|")) for word in line.split()]
            inject(self.soak, " ".join(words).replace("PAIR", server))
        over = [line.replace("PAIR", server) for line in over]
        self.endings.append((time.monotonic() + self.random.uniform(*lasts),
                             over, down))
        self.done[name] = self.done.get(name, 0) + 1

    def _end(self, ending):
        self.endings.remove(ending)
        for line in ending[1]:
            inject(self.soak, line)

    def mend(self):
        """Ends all current faults."""
        for ending in sorted(self.endings):
            self._end(ending)
