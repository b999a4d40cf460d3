"""The scene of a fault: servers, network, measuring clients and victims."""

import functools
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

from callers import Caller
from injections import (SmallDisk, StepFile, make_certificates, write_tokens)
from lossy_link import LossyLink
from relay import Relay
from servers import Server, stop_all, tcp_segments_resent

# The ends of a link between two network namespaces: clients' and servers'.
NEAR, FAR = "10.231.0.1", "10.231.0.2"
SLOW = 0.3  # a call of more seconds counts as slow


class Skip(Exception):
    """Raised if this machine cannot run the fault."""


@functools.cache
def first_job(build):
    """Returns the number of the first job after the self-tests at the start."""
    folder = tempfile.mkdtemp(prefix="quantd_soak.")
    server = Server(build, folder, 0, ["--device", "fault:cpu:0"])
    try:
        server.start()
        return 1 + int(server.metrics()[
            'quantd_device_jobs_total{device="fault:cpu:0"}'])
    finally:
        stop_all([server.process])
        shutil.rmtree(folder)


class Scene:
    def __init__(self, build, fault, device=None, own_network=False):
        self.build, self.fault = build, fault
        self.own_network = own_network
        # Devices that replace "fault:cpu:0" and its successors.
        self.devices = device.split(",") if device else []
        self.has = set(fault.get("with", []))
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="quantd_soak."))
        self.servers, self.callers, self.victims = [], [], []
        self.processes, self.relay, self.pipe = [], None, None
        self.disk, self.step, self.said = None, None, ""
        self.namespace = self.link = self.gpu = None
        self.at_start = None

    def __enter__(self):
        try:
            self._prepare()
            self.at_start = time.monotonic()
            for number, server in enumerate(self.servers):
                server.start()
                if number == 0 and "pipe" in self.has:
                    os.close(server.stderr)
            if "relay" in self.has:
                self.relay = Relay(self.servers[0].address)
            return self
        except BaseException:
            self.__exit__()
            raise

    def _prepare(self):
        if ("full" in self.has or "root" in self.has) and os.geteuid() != 0:
            raise Skip("needs root: a mount or a network namespace")
        if "gpu" in self.has and not shutil.which("nvidia-smi"):
            raise Skip("this machine has no GPU")
        if "namespace" in self.has and not self.own_network:
            raise Skip("no network namespaces here")
        common, options = [], {}
        self.environment = {}
        if "tls" in self.has:
            make_certificates(self.folder / "certs")
            certs = self.folder / "certs"
            common += ["--tls-cert", str(certs / "server.pem"), "--tls-key",
                       str(certs / "server.key"), "--reload-interval-ms", "200"]
        if "tokens" in self.has:
            write_tokens(self.folder, ["good", "victim"])
            common += ["--token-file", str(self.folder / "tokens")]
        if "memory" in self.has:
            common += ["--memory-socket", str(self.folder / "memory")]
        if "clock" in self.has:
            self.step = StepFile(self.folder / "step")
            options["env"] = self.step.environment(self.build)
        if "gpu" in self.has:
            self.gpu = self.folder / "gpu"
            self.gpu.write_text("")
        if "few-descriptors" in self.has:
            options["before"] = ["prlimit", "--nofile=64:64"]
        if "full" in self.has:
            self.disk = SmallDisk(self.folder / "full")
            options["stderr"] = open(self.disk.path / "log", "ab")
            options["port_file"] = self.disk.path / "port"
        if "pipe" in self.has:
            self.pipe, options["stderr"] = os.pipe()
        if "namespace" in self.has:
            self._make_namespace(options, common)
        for number, flags in enumerate(self.fault.get("servers", [[]])):
            if "unix" in self.has:
                options["address"] = f"unix:{self.folder}/calls{number}"
            server = Server(self.build, self.folder, number,
                            common + [self._word(f) for f in flags], **options)
            if "gpu" in self.has and number == 0:
                server.env.update(LD_PRELOAD=str(self.build.cuda_fault),
                                  QUANTD_CUDA_FAULT=str(self.gpu))
            if self.namespace:
                server.address = server.address.replace("127.0.0.1", FAR)
                server.metrics_address = server.metrics_address.replace(
                    "127.0.0.1", FAR)
            self.servers.append(server)

    def _word(self, flag):
        if "fault:" in flag:
            first = first_job(self.build)
            many = "+".join(f"once@{first + 40 * i}" for i in range(5))
            # The first job, and the first job of each of the four self-tests
            # after it.
            series = "+".join(f"once@{first + i}" for i in range(5))
            flag = flag.replace("FIRST", str(first)).replace("MANY", many)
            flag = flag.replace("SERIES", series)
            for number, device in enumerate(self.devices):
                flag = flag.replace(f"fault:cpu:{number}", f"fault:{device}")
        return flag.replace("FOLDER", str(self.folder))

    def _make_namespace(self, options, common):
        """Makes a namespace for the servers. This process has its own (fault.py)."""
        self.namespace = subprocess.Popen(["unshare", "-n", "sleep", "600"])
        self.processes.append(self.namespace)
        time.sleep(0.2)
        pid = str(self.namespace.pid)
        inside = ["nsenter", "-t", pid, "-n"]
        between = [["ip", "link", "add", "name", "quantd0", "type", "veth",
                    "peer", "name", "quantd1"]]
        if "lossy" in self.has:
            between = self._make_lossy_link()
        for command in (
                *between,
                ["ip", "link", "set", "quantd1", "netns", pid],
                ["ip", "address", "add", f"{NEAR}/24", "dev", "quantd0"],
                ["ip", "link", "set", "quantd0", "up"],
                [*inside, "ip", "address", "add", f"{FAR}/24", "dev",
                 "quantd1"],
                [*inside, "ip", "link", "set", "quantd1", "up"],
                [*inside, "ip", "link", "set", "lo", "up"]):
            done = subprocess.run(command, capture_output=True, check=False)
            if done.returncode != 0:
                raise Skip("this machine cannot make virtual links: " + done.stderr.decode())
        if self.link:
            self.link.tell("open", "near", "far")
        options["before"] = inside
        common.append("--insecure")

    def _make_lossy_link(self):
        """Makes quantd0 and quantd1, the ends of two links that a lossy link joins.
        """
        self.link = LossyLink(self.folder / "link.log")
        self.processes.append(self.link.process)
        commands = []
        for outer, inner in (("quantd0", "near"), ("quantd1", "far")):
            commands += [
                ["ip", "link", "add", "name", outer, "type", "veth", "peer",
                 "name", inner],
                # Sends each packet in a frame of its own: the loss of a larger
                # frame would lose several packets.
                ["ip", "link", "set", outer, "gso_max_segs", "1"],
                ["ip", "link", "set", inner, "netns",
                 str(self.link.process.pid)],
                [*self.link.inside, "ip", "link", "set", inner, "up"]]
        return commands

    # Clients.
    def target(self):
        if self.relay:
            return self.relay.address
        return ",".join(s.address for s in self.servers)

    def _flags(self, token, **settings):
        chosen = {"pace_ms": 5, "attempts": 8, "deadline_ms": 30000,
                  **{k: v for k, v in self.fault.get("callers", {}).items()
                     if k != "kinds"}, **settings}
        flags = []
        for name, value in chosen.items():
            flags += [f"--{name.replace('_', '-')}", str(value)]
        if "tls" in self.has:
            flags += ["--tls-ca", str(self.folder / "certs/ca.pem")]
        if "tokens" in self.has:
            flags += ["--token-file", str(self.folder / f"{token}.token")]
        if "memory" in self.has:
            flags += ["--memory-socket", str(self.folder / "memory")]
        return flags

    def add_callers(self, name, kinds=None, **settings):
        kinds = kinds or self.fault.get("callers", {}).get(
            "kinds", "quantize:2,dequantize:1")
        caller = Caller(self.build, self.folder, name, self.target(), kinds,
                        *self._flags("good", **settings), calls=True)
        self.callers.append(caller)
        return caller

    def add_victim(self, kinds):
        victim = Caller(self.build, self.folder, f"victim{len(self.victims)}",
                        self.servers[0].address, kinds,
                        *self._flags("victim", pace_ms=0))
        self.victims.append(victim)
        return victim

    def step_clock(self, seconds):
        self.step.set(seconds)

    def cuda_fault(self, verb, *words):
        self.gpu.write_text(" ".join([verb, *words]) + "\n")

    # Observations.
    def calls(self):
        return sorted(call for caller in self.callers
                      for call in caller.calls())

    def wait_calls(self, number, patience=60):
        end = time.monotonic() + patience
        while time.monotonic() < end:
            if len(self.calls()) >= number:
                return
            time.sleep(0.02)
        raise RuntimeError("clients make no calls: " + self.complaints())

    def complaints(self):
        return " ".join(path.read_text(errors="replace")[:500]
                        for path in self.folder.glob("*.log")
                        if not path.name.startswith("server"))

    def events(self, name):
        return sum(1 for s in self.servers for e in s.events()
                   if e.get("event") == name)

    def resent(self):
        """Returns the segments that TCP has retransmitted, at both ends of the link."""
        return sum(tcp_segments_resent(process) for process in
                   ("self", self.namespace.pid))

    def wrong(self):
        return sum(kind["wrong"] for caller in self.callers + self.victims
                   for kind in caller.counts().values())

    def left(self):
        """Waits until servers hold no memory; returns what they still hold."""
        end = time.monotonic() + 10
        while True:
            held = {}
            for server in self.servers:
                if not server.alive() or "pipe" in self.has:
                    continue
                page = server.metrics()
                if not page:
                    held[f"server {server.number}"] = "silent"
                for name, value in page.items():
                    if value and name.startswith(("quantd_memory_used_bytes",
                                                  "quantd_active_calls",
                                                  "quantd_device_slots_busy",
                                                  "quantd_shared_regions")):
                        held[name] = value
            if not held or time.monotonic() > end:
                return held
            time.sleep(0.05)

    def __exit__(self, *_):
        for victim in self.victims:
            victim.kill()
        stop_all([c.process for c in self.callers])
        if self.relay:
            self.relay.close()
        stop_all([s.process for s in self.servers])
        stop_all(self.processes)
        if self.namespace:
            # The kernel would delete these links with the namespaces, but maybe
            # not before the next fault makes links of the same names.
            for name in ("quantd0", "quantd1"):
                subprocess.run(["ip", "link", "delete", name], check=False,
                               stderr=subprocess.DEVNULL)
        if self.pipe is not None:
            os.close(self.pipe)
        if self.disk:
            self.disk.close()
        shutil.rmtree(self.folder, ignore_errors=True)
