"""Server processes that a soak or a fault starts, watches and stops.

They run on loopback and are stopped by their process ids.
"""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent


class Build:
    """Paths of the programs in a build folder."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder).resolve()
        self.quantd = self.folder / "server/quantd"
        self.caller = self.folder / "tests/soak/quantd_soak_caller"
        self.clock = self.folder / "tests/soak/libquantd_stepped_clock.so"
        self.cuda_fault = self.folder / "tests/soak/libquantd_cuda_fault.so"
        self.attacker = self.folder / "tests/attack/quantd_attacker"
        for program in (self.quantd, self.caller):
            if not program.exists():
                raise SystemExit(f"{program}: not built; cmake --build "
                                 f"{folder} --target soak_programs")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def stop_all(processes, patience=20):
    """Stops processes that this program started, first by SIGTERM, then by SIGKILL.
    """
    running = [p for p in processes if p and p.poll() is None]
    for p in running:
        p.send_signal(signal.SIGCONT)
        p.terminate()
    for p in running:
        try:
            p.wait(patience)
        except subprocess.TimeoutExpired:
            p.kill()
            p.wait()


class Server:
    """A quantd process. It keeps its address when it is restarted.

    Each start has its own log, unless standard error is redirected.
    """

    def __init__(self, build, folder, number, flags=(), *, address=None,
                 env=None, before=(), stderr=None, port_file=None):
        self.build, self.number, self.flags = build, number, list(flags)
        self.folder = pathlib.Path(folder)
        self.address = address or f"127.0.0.1:{free_port()}"
        self.metrics_address = f"127.0.0.1:{free_port()}"
        self.env = {**os.environ, **(env or {})}
        self.before, self.stderr = list(before), stderr
        self.port_file = port_file
        self.process, self.lives, self.exits = None, 0, []

    @property
    def log_path(self):
        return self.folder / f"server{self.number}.{self.lives}.log"

    def start(self):
        self.lives += 1
        command = [*self.before, str(self.build.quantd), "--listen",
                   self.address, "--log-format", "json",
                   "--metrics-address", self.metrics_address]
        if "--memory-budget" not in self.flags:
            command += ["--memory-budget", "128MiB"]
        if not any(f.startswith("--drain-delay") for f in self.flags):
            command += ["--drain-delay-ms", "0"]
        if self.port_file:
            command += ["--port-file", str(self.port_file)]
        command += self.flags
        log = self.stderr
        if log is None:
            log = open(self.log_path, "wb")
        self.process = subprocess.Popen(command, stderr=log, env=self.env,
                                        stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL)
        if self.stderr is None:
            log.close()
        self.wait_ready()

    def wait_ready(self, patience=60):
        end = time.monotonic() + patience
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise RuntimeError(f"server {self.number} ended with "
                                   f"{self.process.returncode}: {self.log()}")
            if self.get("/healthz") is not None:
                return
            time.sleep(0.02)
        raise RuntimeError(f"server {self.number} did not start: {self.log()}")

    @property
    def pid(self):
        return self.process.pid

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def signal(self, number):
        if self.alive():
            self.process.send_signal(number)

    def kill(self):
        self.signal(signal.SIGKILL)
        self.wait(30)

    def wait(self, patience):
        code = self.process.wait(patience)
        self.exits.append(code)
        return code

    def get(self, path):
        try:
            with urllib.request.urlopen(
                    f"http://{self.metrics_address}{path}", timeout=5) as reply:
                return reply.read().decode()
        except urllib.error.HTTPError as error:
            return error.read().decode() if error.code != 503 else None
        except (OSError, ValueError):
            return None

    def ready(self):
        return self.get("/readyz") is not None

    def metrics(self):
        """Returns metrics by name with labels, or an empty dict without a reply."""
        page = self.get("/metrics") or ""
        found = {}
        for line in page.splitlines():
            if line and not line.startswith("#") and "_bucket{" not in line:
                name, _, value = line.rpartition(" ")
                found[name] = float(value)
        return found

    def log(self):
        try:
            return self.log_path.read_text(errors="replace")
        except OSError:
            return ""

    def events(self):
        """Returns the log events of all starts."""
        text = "".join(p.read_text(errors="replace") for p in
                       self.folder.glob(f"server{self.number}.*.log"))
        for line in text.splitlines():
            try:
                yield json.loads(line)
            except ValueError:
                pass

    def sample(self):
        return sample(self.pid)


def sample(pid):
    """Returns the kernel's data on a process, or None if it has ended."""
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        descriptors = len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return None
    number = {key: int(value) for key, value in re.findall(
        r"^(\w+):\s+(\d+)", status, re.M)}
    if "RssAnon" not in number:
        return None
    return {"anonymous_kib": number["RssAnon"], "file_kib": number["RssFile"],
            "shared_kib": number["RssShmem"], "threads": number["Threads"],
            "descriptors": descriptors}


def tcp_segments_resent(pid):
    """Returns how many segments TCP has resent in the network namespace of a process."""
    names, values = (line.split() for line in pathlib.Path(
        f"/proc/{pid}/net/snmp").read_text().splitlines()
        if line.startswith("Tcp:"))
    return int(values[names.index("RetransSegs")])


class Drain:
    """Reads a pipe so that its writer never blocks, and keeps lines with times.
    """

    def __init__(self, stream):
        self.lines = []
        self.thread = threading.Thread(target=self._read, args=(stream,),
                                       daemon=True)
        self.thread.start()

    def _read(self, stream):
        for line in stream:
            self.lines.append((time.monotonic(),
                               line.decode(errors="replace").rstrip()))
        stream.close()
