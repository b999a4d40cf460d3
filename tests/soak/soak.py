"""Runs hours of mixed calls beside all kinds of faults; see run.sh and README.md."""

import argparse
import datetime
import json
import os
import pathlib
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import pages
from accounts import disagreements, growth, uneven
from callers import Caller, read_counts, total
from chaos import FAULTS, Chaos
from injections import SmallDisk, StepFile, make_certificates, write_tokens
from relay import Relay
from servers import ROOT, Build, Server, stop_all

MOST_HOURS = 24 * 14
PEAKS = 4  # resident memory may grow by this multiple of the accepted growth


class Soak:
    """Runs three services under load.

    `main` runs all the time, over TCP with TLS, tokens and shared memory. The
    clock of `unix` is stepped. Servers of a pair are killed and stopped.
    """

    def __init__(self, build, seconds, device, pace):
        self.build, self.seconds, self.device = build, seconds, device
        self.pace, self.commit = pace, pages.commit()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="quantd_soak."))
        self.disk = self.step = self.relay = self.sink = None
        self.callers, self.victims, self.retired = {}, [], []
        self.quiet, self.said = [], []
        self.begun = time.monotonic()
        self.servers, self.chaos = {}, None

    def prepare(self):
        make_certificates(self.folder / "certs")
        write_tokens(self.folder, ["good"])
        self.step = StepFile(self.folder / "step")
        certs = self.folder / "certs"
        common = ["--memory-budget", "192MiB", "--reload-interval-ms", "500"]
        options = {}
        if os.geteuid() == 0:
            self.disk = SmallDisk(self.folder / "full")
            options["stderr"] = self.sink = open(self.disk.path / "log", "ab")
            options["port_file"] = self.disk.path / "port"
        device = ["--device", self.device] if self.device else []
        self.servers = {
            "main": Server(self.build, self.folder, 0, common + device + [
                "--tls-cert", str(certs / "server.pem"), "--tls-key",
                str(certs / "server.key"), "--token-file",
                str(self.folder / "tokens"), "--memory-socket",
                str(self.folder / "memory")], **options),
            "unix": Server(self.build, self.folder, 1, common,
                           address=f"unix:{self.folder}/calls",
                           env=self.step.environment(self.build)),
            "pair0": Server(self.build, self.folder, 2, common),
            "pair1": Server(self.build, self.folder, 3, common)}
        for server in self.servers.values():
            server.start()
        self.relay = Relay(self.servers["main"].address)
        self.start_callers()

    def secure(self):
        return ["--tls-ca", str(self.folder / "certs/ca.pem"), "--token-file",
                str(self.folder / "good.token")]

    def call(self, name, target, kinds, pace_ms, *flags):
        caller = Caller(self.build, self.folder, name, target, kinds,
                        "--seconds", str(int(self.seconds) + 600), "--pace-ms",
                        str(round(pace_ms * self.pace)), *flags)
        self.callers[name] = caller
        return caller

    def start_callers(self):
        main, unix = self.servers["main"], self.servers["unix"]
        pair = ",".join(self.servers[s].address for s in ("pair0", "pair1"))
        # Calls have one attempt each, so that client and server count the same.
        self.call("main", main.address,
                  "quantize:1,dequantize:1,stream:1,bands:1,shared:1,invalid:1",
                  40, "--attempts", "1", "--reconnect-every", "150",
                  "--memory-socket", str(self.folder / "memory"),
                  *self.secure())
        self.call("impatient", main.address, "cancelled:1,expired:1", 20,
                  "--attempts", "1", *self.secure())
        self.call("far", self.relay.address, "amax:2", 20, "--attempts", "50",
                  "--dead-peer-ms", "1500", *self.secure())
        self.call("unix", unix.address,
                  "quantize:1,dequantize:1,amax:1,rotate:1,stream:1,invalid:1",
                  40, "--attempts", "1", "--reconnect-every", "500")
        self.call("pair", pair, "quantize:1,dequantize:1", 20, "--attempts",
                  "50", "--dead-peer-ms", "1500", "--deadline-ms", "60000")
        self.call("local", "local:cpu", "quantize:1,dequantize:1,rotate:1", 60)
        if self.device and self.device.startswith("cuda"):
            self.call("gpu", f"local:{self.device.split(',')[0]}",
                      "quantize:1,dequantize:1,amax:1", 40)

    def step_clock(self, seconds):
        self.step.set(seconds)

    def add_victim(self, kinds):
        number = len(self.retired) + len(self.victims)
        victim = Caller(self.build, self.folder, f"victim{number}",
                        self.servers["main"].address, kinds, "--seconds",
                        str(int(self.seconds) + 600), "--pace-ms", "5",
                        *self.secure())
        self.victims.append(victim)

    def retire_victims(self):
        for victim in self.victims:
            victim.kill()
            self.retired.append(victim.counts())
            victim.counts_path.unlink()
        self.victims = []

    def run(self):
        self.prepare()
        period = min(60.0, max(8.0, self.seconds / 12))
        end = self.begun + self.seconds
        next_quiet = self.begun + period
        while time.monotonic() < end:
            if time.monotonic() >= next_quiet:
                self.rest()
                next_quiet += period
            self.chaos.step()
            self.check_alive()
            time.sleep(0.05)
        self.rest()
        return self.finish()

    def check_alive(self):
        for name in ("main", "unix"):
            if not self.servers[name].alive():
                raise RuntimeError(f"{name} ended by itself: "
                                   f"{self.servers[name].process.returncode} "
                                   f"{self.servers[name].log()[-2000:]}")
        for name, caller in self.callers.items():
            if not caller.alive():
                raise RuntimeError(f"client {name} ended by itself")

    def look(self):
        at = round(time.monotonic() - self.begun, 2)
        found = {"at": at}
        for name in ("main", "unix"):
            found[name] = self.servers[name].sample()
        for name, caller in self.callers.items():
            found["client " + name] = caller.sample()
        return found

    def rest(self):
        """Ends all faults, pauses all clients, and reads the counts of calls."""
        self.chaos.mend()
        self.retire_victims()
        for caller in self.callers.values():
            caller.pause(True)
        end = time.monotonic() + 90
        while not all(c.resting() for c in self.callers.values()):
            if time.monotonic() > end:
                raise RuntimeError("a call does not end: " + ", ".join(
                    n for n, c in self.callers.items() if not c.resting()))
            time.sleep(0.02)
        self.said += self.compare()
        point = self.look()
        for name in ("main", "unix"):
            page = self.servers[name].metrics()
            point[name]["pools_kib"] = sum(
                v for k, v in page.items()
                if k.startswith("quantd_pool_high_water_bytes")) / 1024
            point[name]["heap_kib"] = \
                page.get("quantd_heap_used_bytes", 0) / 1024
        self.quiet.append(point)
        for caller in self.callers.values():
            caller.pause(False)

    def compare(self):
        """Returns disagreements between clients and servers.

        Waits for agreement, since a server counts a call a moment after its
        client has the reply.
        """
        end = time.monotonic() + 5
        while True:
            clients = {n: c.counts() for n, c in self.callers.items()}
            victims = total(self.retired) if self.retired else None
            said = disagreements(
                self.servers["main"].metrics(),
                exact=[clients["main"]],
                unsure=[clients["impatient"], clients["far"]] +
                ([victims] if victims else []))
            said += disagreements(self.servers["unix"].metrics(),
                                  exact=[clients["unix"]], unsure=[])
            if not said or time.monotonic() > end:
                at = round(time.monotonic() - self.begun)
                return [f"at {at} s: {text}" for text in said]
            time.sleep(0.05)

    def finish(self):
        for name, caller in self.callers.items():
            code = caller.stop()
            if code != 0:
                self.said.append(f"client {name} ended with {code}")
        for name, server in self.servers.items():
            server.signal(signal.SIGTERM)
            try:
                code = server.wait(60)
            except subprocess.TimeoutExpired:
                # The results are still written.
                server.kill()
                code = f"did not exit in 60 s, {server.log()[-1000:]}"
            if code != 0:
                self.said.append(f"server {name} ended with {code}")
        clients = {n: read_counts(c.counts_path)
                   for n, c in self.callers.items()}
        for name, counts in clients.items():
            allowed = name in ("impatient", "far")
            for kind, count in counts.items():
                if count["wrong"]:
                    self.said.append(f"{name}: {count['wrong']} wrong answers "
                                     f"of {kind}")
                # A busy server is not a failure, but is counted.
                busy = count["told"].get("RESOURCE_EXHAUSTED", 0)
                codes = {c: n for c, n in count["failed"].items()
                         if not (kind == "invalid" and c == "INVALID_ARGUMENT")
                         and not (c == "RESOURCE_EXHAUSTED" and n == busy)}
                if codes and not allowed:
                    self.said.append(f"{name}: {kind} failed: {codes}")
            if not any(c["right"] + sum(c["failed"].values())
                       for c in counts.values()):
                self.said.append(f"{name}: made no call")
        victims = total(self.retired) if self.retired else None
        if victims:
            clients["victims"] = victims
            if victims["amax"]["wrong"]:
                self.said.append("victims: wrong replies")
        grown = growth(self.quiet)
        # In the first quarter of an hour pools and heaps still grow.
        most = 1024 if self.seconds >= 900 else 64 * 1024
        for name, kib in grown.items():
            if kib > most:
                self.said.append(f"{name} grew by {kib} KiB in the second half")
        # Resident memory may reach new peaks even after a long time, because
        # the heap keeps free memory.
        for name, kib in growth(self.quiet, resident=True).items():
            if kib > PEAKS * most:
                self.said.append(f"{name}: resident memory grew by {kib} KiB")
        self.said += uneven(self.quiet)
        return {
            "date": datetime.date.today().isoformat(),
            "machine": pages.machine(), "kernel": platform.release(),
            "commit": self.commit, "device": self.device or "cpu:0",
            "seconds": round(time.monotonic() - self.begun),
            "pace": self.pace,
            "seed": self.chaos.seed, "faults": self.chaos.done,
            "not_here": self.chaos.missing, "growth_kib": grown,
            "most_growth_kib": most, "clients": clients,
            "complaints": self.said, "quiet": self.quiet}

    def close(self):
        for victim in self.victims:
            victim.kill()
        stop_all([c.process for c in self.callers.values()], 5)
        if self.relay:
            self.relay.close()
        stop_all([s.process for s in self.servers.values()])
        if self.sink:
            self.sink.close()
        if self.disk:
            self.disk.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, prog="run.sh")
    parser.add_argument("hours", type=float)
    parser.add_argument("--build", default=str(ROOT / "build/cpu"))
    parser.add_argument("--device", help="device of the main server")
    parser.add_argument("--results", type=pathlib.Path,
                        help="folder for soak.json and SOAK.md")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pace", type=float, default=1,
                        help="factor of pauses between calls; with 1 about "
                        "one core is busy")
    parser.add_argument("--without", action="append", default=[],
                        choices=sorted(FAULTS), help="fault to leave out")
    arguments = parser.parse_args()
    if not 0 < arguments.hours <= MOST_HOURS:
        parser.error(f"hours: expected up to {MOST_HOURS}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    soak = Soak(Build(arguments.build), arguments.hours * 3600,
                arguments.device, arguments.pace)
    soak.chaos = Chaos(soak, arguments.seed, arguments.without)
    try:
        result = soak.run()
    finally:
        soak.close()
    if arguments.results:
        arguments.results.mkdir(parents=True, exist_ok=True)
        (arguments.results / "SOAK.md").write_text(pages.soak_page(result))
        (arguments.results / "soak.json").write_text(
            json.dumps(result, indent=1) + "\n")
    print(pages.soak_summary(result))
    return 1 if result["complaints"] else 0


if __name__ == "__main__":
    sys.exit(main())
