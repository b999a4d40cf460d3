"""Actions on servers, clients and the network between them.

faults.toml names them. A scene (scene.py) provides their targets.
"""

import hashlib
import os
import pathlib
import resource
import shutil
import signal
import struct
import subprocess
import time

from servers import ROOT

RLIMITS = {"AS": resource.RLIMIT_AS, "FSIZE": resource.RLIMIT_FSIZE}


def inject(scene, line):
    verb, *words = line.split()
    VERBS[verb](scene, *words)


def server_of(scene, name):
    return scene.servers[int(name) if name.isdigit() else name]


def kill(scene, number):
    server_of(scene, number).kill()


def start(scene, number):
    server = server_of(scene, number)
    if server.alive():
        server.wait(60)
    elif not server.exits or len(server.exits) < server.lives:
        server.wait(1)
    server.start()


def restart(scene, number):
    server_of(scene, number).signal(signal.SIGTERM)
    start(scene, number)


def replace(scene, number):
    server = server_of(scene, number)
    if server.alive():
        server.kill()
    start(scene, number)


def send(scene, name, number):
    server_of(scene, number).signal(getattr(signal, f"SIG{name}"))


def send_many(scene, names, times, number):
    for _ in range(int(times)):
        for name in names.split(","):
            send(scene, name, number)
            time.sleep(0.002)


def wait(scene, seconds):
    time.sleep(float(seconds))


def second(scene, *words):
    """Starts another server, which is expected to fail."""
    command = [str(scene.build.quantd)]
    for word in words:
        word = word.replace("ADDRESS", scene.servers[0].address)
        command.append(word.replace("FOLDER", str(scene.folder)))
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=15, check=False)
        scene.said = done.stderr.decode(errors="replace") + \
            done.stdout.decode(errors="replace")
        if done.returncode == 0:
            scene.said = "ended with 0"
    except subprocess.TimeoutExpired:
        scene.said = "serves"


def relay(scene, verb, *words):
    r = scene.relay
    if verb == "delay":
        r.delay = float(words[0]) / 1000
    elif verb == "rate":
        r.rate = float(words[0]) * 1024
    elif verb == "flap":
        for _ in range(int(words[0])):
            r.reset()
            time.sleep(float(words[1]))
    elif verb == "corrupt":
        r.spoil = True
        r.reset()  # spoils the next connections
    else:
        {"cut": r.cut_all, "half": r.cut_half, "reset": r.reset,
         "refuse": r.refuse, "heal": r.heal}[verb]()


def attack(scene, name):
    command = [str(scene.build.attacker), scene.servers[0].address, name,
               "--seconds", str(scene.fault.get("lasts_s", 1))]
    if "tls" in scene.has:
        command.append("--tls")
    scene.processes.append(subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))


def callers(scene, kinds):
    scene.add_callers("more", kinds, pace_ms=0)


def victims(scene, verb):
    if ":" in verb:
        scene.add_victim(verb)
        return
    if verb == "retire":
        scene.retire_victims()
        return
    number = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP,
              "continue": signal.SIGCONT}[verb]
    for victim in scene.victims:
        victim.signal(number)


def caller(scene, name, which):
    scene.callers[which].signal(getattr(signal, f"SIG{name}"))


def limit(scene, what, number):
    server = server_of(scene, number)
    value = 0
    if what == "AS":
        text = pathlib.Path(f"/proc/{server.pid}/statm").read_text()
        value = int(text.split()[0]) * resource.getpagesize()
    resource.prlimit(server.pid, RLIMITS[what], (value, value))


def disk(scene, verb):
    filler = scene.folder / "full" / "filler"
    if verb == "free":
        filler.unlink(missing_ok=True)
        # Truncates the log, like logrotate with copytruncate.
        os.truncate(filler.with_name("log"), 0)
        return
    with open(filler, "wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            pass


def pipe(scene, verb):
    assert verb == "close"
    os.close(scene.pipe)
    scene.pipe = None


def clock(scene, seconds):
    scene.step_clock(float(seconds))


def tremble(scene, seconds, times, pause):
    for i in range(int(times)):
        scene.step_clock(float(seconds) * (1, 0, -1, 0)[i % 4])
        time.sleep(float(pause))
    scene.step_clock(0)


def make_certificates(folder, days=30):
    subprocess.run([str(ROOT / "deploy/make-certs.sh"), str(folder)],
                   env={**os.environ, "DAYS": str(days)}, check=True,
                   stdout=subprocess.DEVNULL)


def certificate(scene, verb):
    folder = scene.folder / "certs"
    if verb == "renew":
        make_certificates(folder)
    elif verb == "garbage":
        replace_file(folder / "server.pem", b"garbage\n")
    elif verb == "expire":
        make_certificates(folder, days=0)
    elif verb == "expire-other":
        make_certificates(scene.folder / "other")
        make_certificates(scene.folder / "other", days=0)
    elif verb == "half":
        key = (folder / "server.key").read_bytes()
        make_certificates(folder)
        replace_file(folder / "server.key", key, 0o600)
    elif verb == "delete":
        (folder / "server.pem").unlink()
    else:
        raise ValueError(verb)


def replace_file(path, data, mode=0o644):
    draft = path.with_suffix(".draft")
    draft.write_bytes(data)
    draft.chmod(mode)
    draft.rename(path)


def write_tokens(folder, names):
    """Writes the file that the server reads, and one for each client."""
    lines = b""
    for name in names:
        token = folder / f"{name}.token"
        if not token.exists():
            token.write_text(os.urandom(32).hex())
            token.chmod(0o600)
        lines += hashlib.sha256(token.read_bytes()).hexdigest().encode() + \
            f" {name}\n".encode()
    replace_file(folder / "tokens", lines, 0o600)


def tokens(scene, verb):
    if verb == "empty":
        replace_file(scene.folder / "tokens", b"", 0o600)
    else:
        write_tokens(scene.folder,
                     ["good"] + (["victim"] if verb == "restore" else []))


def link(scene, verb, *words):
    if verb in ("down", "up"):
        subprocess.run(["ip", "link", "set", "quantd0", verb], check=True)
    else:
        scene.link.tell(verb, *words)


def cuda(scene, verb, *words):
    scene.cuda_fault(verb, *words)


VERBS = {
    "kill": kill, "start": start, "restart": restart, "replace": replace,
    "signal": send, "signals": send_many, "wait": wait, "second": second,
    "relay": relay, "attack": attack, "callers": callers, "victims": victims,
    "caller": caller, "limit": limit, "disk": disk, "pipe": pipe, "clock": clock,
    "tremble": tremble, "certificate": certificate, "tokens": tokens,
    "link": link, "cuda": cuda,
}


class StepFile:
    """The file from which stepped_clock.cc reads how far the clock is ahead."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.path.write_bytes(bytes(8))

    def set(self, seconds):
        with open(self.path, "r+b") as file:
            file.write(struct.pack("=q", int(seconds * 1e9)))

    def environment(self, build):
        return {"LD_PRELOAD": str(build.clock),
                "QUANTD_CLOCK_STEP": str(self.path)}


class SmallDisk:
    """A tmpfs of a megabyte, which needs the privilege to mount."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.path.mkdir(exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none",
                        str(self.path)], check=True)

    def close(self):
        subprocess.run(["umount", "-l", str(self.path)], check=False)
        shutil.rmtree(self.path, ignore_errors=True)
