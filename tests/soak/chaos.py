"""Faults during a soak, one after another, chosen by a seed."""

import random
import signal
import time

from injections import certificate, disk, write_tokens

PAUSE = (0.5, 2.0)  # seconds between two events


class Chaos:
    """Begins faults, and ends each of them some seconds later.

    `soak` is a Soak. Injections get it as their scene.
    """

    def __init__(self, soak, seed, without):
        self.soak, self.seed = soak, seed
        self.random = random.Random(seed)
        self.done = {}
        self.missing = list(without)
        self.faults = [name for name in FAULTS if name not in without]
        self.endings = []  # time, what to do
        self.deck = []
        self.pair_is_down = False
        self.next = time.monotonic() + 2

    def step(self):
        now = time.monotonic()
        for ending in [e for e in self.endings if e[0] <= now]:
            self.endings.remove(ending)
            ending[1]()
        if now < self.next:
            return
        self.next = now + self.random.uniform(*PAUSE)
        if not self.deck:
            self.deck = list(self.faults)
            self.random.shuffle(self.deck)
        name = self.deck.pop()
        if FAULTS[name](self) is False:
            if name not in self.missing:
                self.missing.append(name)
            return
        self.done[name] = self.done.get(name, 0) + 1

    def later(self, seconds, action):
        self.endings.append((time.monotonic() + seconds, action))

    def mend(self):
        """Ends all current faults."""
        for ending in sorted(self.endings, key=lambda e: e[0]):
            ending[1]()
        self.endings = []

    # Clients.
    def kill_client(self):
        self.soak.add_victim()
        self.later(self.random.uniform(0.5, 2), self.soak.retire_victims)

    def freeze_client(self):
        far = self.soak.callers["far"]
        far.signal(signal.SIGSTOP)
        self.later(self.random.uniform(0.5, 3),
                   lambda: far.signal(signal.SIGCONT))

    # Servers.
    def _down(self, number):
        """Signals one server of the pair and revives it later, unless one is down already."""
        names = ("pair0", "pair1")
        if self.pair_is_down:
            return
        self.pair_is_down = True
        server = self.soak.servers[self.random.choice(names)]
        server.signal(number)

        def again():
            if number == signal.SIGSTOP:
                server.signal(signal.SIGCONT)
            else:
                server.wait(60)
                server.start()
            self.pair_is_down = False
        self.later(self.random.uniform(0.5, 2), again)

    def kill_server(self):
        self._down(signal.SIGKILL)

    def stop_server(self):
        self._down(signal.SIGTERM)

    def freeze_server(self):
        self._down(signal.SIGSTOP)

    # Certificates and tokens.
    def renew_certificate(self):
        certificate(self.soak, "renew")

    def break_certificate(self):
        certificate(self.soak, self.random.choice(
            ["garbage", "expire", "half", "delete"]))
        self.later(1.5, self.renew_certificate)

    def reload(self):
        write_tokens(self.soak.folder,
                     ["good"] + ["other"] * self.random.randint(0, 1))
        self.soak.servers["main"].signal(signal.SIGHUP)

    # The disk with the log.
    def fill_disk(self):
        if not self.soak.disk:
            return False
        disk(self.soak, "fill")
        self.soak.servers["main"].signal(signal.SIGHUP)
        self.later(2, self.free_disk)
        return True

    def free_disk(self):
        disk(self.soak, "free")
        # Truncates the log, like logrotate with copytruncate.
        self.soak.sink.truncate(0)

    # The clock of the server on a unix socket.
    def step_clock(self):
        self.soak.step.set(self.random.choice([-3600, 3600, 86400, -5]))
        self.later(1.5, lambda: self.soak.step.set(0))

    # The network between the main server and `far`.
    def cut_network(self):
        self.random.choice([self.soak.relay.cut_all,
                            self.soak.relay.cut_half])()
        self.later(self.random.uniform(1, 3), self.soak.relay.heal)

    def delay_network(self):
        self.soak.relay.delay = self.random.uniform(0.01, 0.2)
        self.later(3, self.soak.relay.heal)

    def slow_network(self):
        self.soak.relay.rate = 512 << 10
        self.later(3, self.soak.relay.heal)

    def reset_network(self):
        self.soak.relay.reset()

    def refuse_network(self):
        self.soak.relay.refuse()
        self.later(1, self.soak.relay.heal)

    def spoil_network(self):
        self.soak.relay.spoil = True
        self.soak.relay.reset()
        self.later(1, self.soak.relay.heal)


FAULTS = {
    "client killed": Chaos.kill_client,
    "client frozen": Chaos.freeze_client,
    "server killed": Chaos.kill_server,
    "server stopped": Chaos.stop_server,
    "server frozen": Chaos.freeze_server,
    "certificate renewed": Chaos.renew_certificate,
    "certificate broken": Chaos.break_certificate,
    "tokens read again": Chaos.reload,
    "disk full": Chaos.fill_disk,
    "clock stepped": Chaos.step_clock,
    "network cut": Chaos.cut_network,
    "network delayed": Chaos.delay_network,
    "network slow": Chaos.slow_network,
    "network reset": Chaos.reset_network,
    "network refused": Chaos.refuse_network,
    "network corrupted": Chaos.spoil_network,
}
