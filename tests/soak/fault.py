"""Injects faults, one after another, and measures their effect on clients.

    fault.sh NAME... | --all | --list  [--build FOLDER] [--class NAME]
             [--device cuda:0] [--json FILE] [--page FILE]

Each row of faults.toml describes a fault and the accepted results. Exits with 0
if every result was accepted. Servers listen on loopback or in network
namespaces of this program, and it stops all processes that it started.
"""

import argparse
import ctypes
import datetime
import fcntl
import json
import os
import pathlib
import platform
import signal
import socket
import struct
import sys
import threading
import time
import tomllib

import pages
from injections import inject
from scene import SLOW, Scene, Skip
from servers import HERE, ROOT, Build

CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
POLL = 0.005


class Sign:
    """A sign of a fault. `seen` is the time of its first appearance."""

    def __init__(self, scene, text):
        self.scene, self.text = scene, text
        self.kind, _, self.rest = text.partition(" ")
        self.before = self._value()
        self.seen = None

    def _value(self):
        scene = self.scene
        if self.kind == "log":
            return scene.events(self.rest)
        if self.kind == "metric":
            name = self.rest.rpartition(" ")[0]
            return scene.servers[0].metrics().get(name)
        return None

    def look(self, since):
        if self.seen is None and self._is_there(since):
            self.seen = time.monotonic()
        return self.seen is not None

    def _is_there(self, since):
        scene = self.scene
        if self.kind == "none":
            return True
        if self.kind == "log":
            return self._value() > self.before
        if self.kind == "exit":
            number, code = map(int, self.rest.split())
            server = scene.servers[number]
            codes = server.exits + (
                [] if server.alive() else [server.process.returncode])
            return code in codes
        if self.kind == "health":
            return not scene.servers[0].ready()
        if self.kind == "said":
            return self.rest in scene.said
        if self.kind == "metric":
            value, want = self._value(), self.rest.rpartition(" ")[2]
            if value is None:
                return False
            if want == "SOME":
                return value > (self.before or 0)
            return value <= (4 if want == "FEW" else float(want))
        if self.text == "call slow":
            return any(end > since and end - begin > SLOW
                       for begin, end, _, _ in scene.calls())
        raise ValueError(self.text)


class Looking:
    """Watches for a sign in another thread."""

    def __init__(self, sign, since):
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._look, args=(sign, since))

    def _look(self, sign, since):
        while not sign.look(since) and not self.over.wait(POLL):
            pass

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


def wait_for(signs, since, patience):
    end = time.monotonic() + patience
    while time.monotonic() < end:
        if all([sign.look(since) for sign in signs]):
            return True
        time.sleep(POLL)
    return False


def recovery(scene, over):
    """Returns when calls were served again, or None.

    Only calls that began after the end of the fault count. Returns the end of
    the first one that was served, or if some failed, of the first one served
    after the last failure.
    """
    calls = [c for c in scene.calls() if c[0] >= over]
    failed = [c[1] for c in calls if c[3] != "OK"]
    served = [c[1] for c in calls if c[3] == "OK"]
    if failed:
        served = [end for end in served if end > max(failed)]
    return min(served) if served else None


def expected_alive(scene):
    """Returns the servers that must serve at the end: all that were not expected to exit."""
    over = " ".join(scene.fault.get("over", []))
    gone = set()
    if scene.fault["sign"].startswith("exit") and not over:
        gone.add(int(scene.fault["sign"].split()[1]))
    return [s for s in scene.servers if s.number not in gone]


def measure(scene):
    fault = scene.fault
    at_start = "at-start" in scene.has
    sign = Sign(scene, fault["sign"])
    back = Sign(scene, fault.get("back", "none"))
    if at_start:
        sign.before = back.before = 0
    never = Sign(scene, fault["never"]) if "never" in fault else None
    # The first call triggers the fault.
    by_call = not fault.get("inject") and not at_start
    if not by_call and "quiet" not in scene.has:
        scene.add_callers("good")
        scene.wait_calls(20)
    injected = scene.at_start if at_start else time.monotonic()
    if by_call and "quiet" not in scene.has:
        scene.add_callers("good")
    resent = scene.resent() if scene.link else 0
    prepared = "now" not in fault.get("inject", [])
    for line in fault.get("inject", []):
        if line == "now":
            prepared = True
            injected = time.monotonic()
            sign = Sign(scene, fault["sign"])
        elif not prepared:
            inject(scene, line)
        else:
            with Looking(sign, injected):
                inject(scene, line)
    done = time.monotonic()
    lasts = fault.get("lasts_s", 0)
    over_by = injected + lasts
    # Waits for the sign while the fault lasts. The calls below may succeed only
    # after the end of the fault.
    wait_for([sign], injected, lasts if fault.get("over")
             else max(lasts, fault["detected_s"]))
    if "quiet" in scene.has:
        injected = sign.seen or injected
        over_by = injected + lasts
        scene.add_callers("good")
    elif by_call:
        scene.wait_calls(1)
        injected = min(c[0] for c in scene.calls())
    time.sleep(max(0, over_by - time.monotonic()))
    over = time.monotonic() if fault.get("over") else \
        max(injected + lasts, done)
    for line in fault.get("over", []):
        inject(scene, line)

    limit = fault["recovered_s"]
    detected = wait_for([sign], injected, fault["detected_s"] + 5)
    returned = wait_for([back], injected, limit + 10)
    end = time.monotonic() + limit + 10
    serving = None
    while time.monotonic() < end:
        if all(s.alive() and ("pipe" in scene.has or s.ready())
               for s in expected_alive(scene)):
            serving = time.monotonic()
            if recovery(scene, over) is not None:
                break
        time.sleep(POLL)
    time.sleep(1)  # leaves time for calls that would reveal that the fault is not over
    again = recovery(scene, over)
    for caller in scene.callers:
        caller.stop()
    for victim in scene.victims:
        victim.kill()
    held = scene.left()
    calls = [c for c in scene.calls() if c[1] >= injected]
    failures = [c for c in calls if c[3] not in ("OK", "WRONG")]
    times = [t for t in (again, serving,
                         back.seen if fault.get("back") else None) if t]
    row = {
        "detected_s": None, "recovered_s": None,
        "calls": len(calls), "failed": len(failures),
        "codes": sorted({c[3] for c in failures}), "wrong": scene.wrong(),
        "slowest_s": round(max((c[1] - c[0] for c in calls), default=0), 3)}
    if scene.link:
        row["frames"] = {**scene.link.tell("counts"),
                         "resent": scene.resent() - resent}
    if detected and fault["sign"] != "none":
        row["detected_s"] = round(max(0, sign.seen - injected), 3)
    if again and serving and returned:
        row["recovered_s"] = round(max(0, max(times) - over), 3)
    row["complaints"] = judge(scene, row, detected, held)
    if never is not None and never.look(injected):
        row["complaints"].append(f"there was {fault['never']}")
    return row


def judge(scene, row, detected, held):
    """Returns the results that are not accepted."""
    fault, said = scene.fault, []
    if not detected:
        said.append(f"no sign of {fault['sign']}")
    elif row["detected_s"] is not None and \
            row["detected_s"] > fault["detected_s"]:
        said.append(f"detected after {row['detected_s']} s")
    if row["recovered_s"] is None:
        said.append("did not recover")
    elif row["recovered_s"] > fault["recovered_s"]:
        said.append(f"recovered after {row['recovered_s']} s")
    if 0 <= fault["failed"] < row["failed"]:
        said.append(f"{row['failed']} calls failed: {row['codes']}")
    if set(row["codes"]) - set(fault.get("codes", row["codes"])):
        said.append(f"calls failed as {row['codes']}")
    if row["wrong"]:
        said.append(f"{row['wrong']} wrong replies")
    for name in ("delayed", "lost", "resent"):
        if scene.link and not row["frames"][name]:
            said.append(f"frames {name}: none")
    if row["calls"] == 0:
        said.append("no call was made")
    if held:
        said.append(f"not released at the end: {held}")
    for server in scene.servers:
        if "600000" in server.flags:
            server.kill()  # a normal stop would drain for ten minutes
        if server.alive():
            server.signal(signal.SIGTERM)
            try:
                code = server.wait(40)
            except Exception:  # pylint: disable=broad-except
                code = "no end"
            if code != 0 and "AS" not in " ".join(fault.get("inject", [])):
                said.append(f"server {server.number} ended with {code}")
    if said:
        for server in scene.servers:
            said.append(server.log()[-600:])
        said.append(scene.complaints())
    return said


def run(build, name, fault, device, apart):
    row = {"name": name, "class": fault["class"], "what": fault["what"]}
    try:
        with Scene(build, fault, device, apart) as scene:
            row.update(measure(scene))
        row["result"] = "failed" if row["complaints"] else "passed"
    except Skip as skip:
        row.update(result="skipped", complaints=[str(skip)])
    except Exception as error:  # pylint: disable=broad-except
        row.update(result="failed", complaints=[repr(error)])
    return row


def own_network():
    """Moves this program into a new network namespace with only loopback, if allowed."""
    libc = ctypes.CDLL(None, use_errno=True)
    if os.geteuid() != 0 or libc.unshare(CLONE_NEWNET) != 0:
        return False
    # Activates loopback by ioctl, netdevice(7), since a machine may lack the
    # program `ip`.
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP))
    return True


def merged(before, rows, commit):
    """Returns earlier results, with the rows of this run replaced."""
    again = {row["name"]: {**row, "commit": commit} for row in rows}
    return {**before, "faults": [again.get(row["name"], row)
                                 for row in before["faults"]]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, prog="fault.sh",
                                     formatter_class=argparse.
                                     RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--class", dest="kind")
    parser.add_argument("--build", default=str(ROOT / "build/cpu"))
    parser.add_argument("--device", help="device that fails instead of cpu:0; several, with "
                        "commas, also replace cpu:1 and so on")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--page", type=pathlib.Path)
    arguments = parser.parse_args()
    defaults = {"sign": "none", "failed": 0, "detected_s": 5, "recovered_s": 5}
    classes = tomllib.loads((HERE / "faults.toml").read_text())
    faults = {name: {"class": kind} | defaults | fault
              for kind, some in classes.items() for name, fault in some.items()}
    if arguments.list:
        for name, fault in faults.items():
            print(f"{name:34} {fault['class']:12} {fault['what']}")
        return 0
    names = [n for n in faults if arguments.all or n in arguments.names or
             faults[n]["class"] == arguments.kind]
    if not names or set(arguments.names) - set(faults):
        parser.error("unknown fault; --list prints all")
    build = Build(arguments.build)
    apart = own_network()
    rows = []
    for name in names:
        row = run(build, name, faults[name], arguments.device, apart)
        rows.append(row)
        print(pages.line_of(row), flush=True)
        for text in row["complaints"]:
            print(f"    {text}", flush=True)
    result = {"date": datetime.date.today().isoformat(),
              "machine": pages.machine(), "kernel": platform.release(),
              "commit": pages.commit(), "device": arguments.device or "cpu:0",
              "faults": rows}
    if arguments.json:
        if arguments.json.exists() and not arguments.all:
            result = merged(json.loads(arguments.json.read_text()), rows,
                            result["commit"])
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")
    if arguments.page:
        arguments.page.write_text(pages.fault_page(result))
    count = {r: sum(1 for row in rows if row["result"] == r)
             for r in ("passed", "failed", "skipped")}
    print(f"{len(rows)} faults: {count['passed']} passed, "
          f"{count['failed']} failed, {count['skipped']} skipped")
    return 1 if count["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
