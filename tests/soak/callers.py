"""Processes of quantd_soak_caller, and their counters (counts.h)."""

import mmap
import pathlib
import signal
import struct
import subprocess

from servers import Drain, sample

KINDS = ["quantize", "dequantize", "amax", "rotate", "stream", "bands",
         "shared", "invalid", "cancelled", "expired"]
METHODS = dict(quantize="Quantize", dequantize="Dequantize", amax="RhtAmax",
               rotate="ApplyRht", stream="Quantize", bands="Dequantize",
               shared="Quantize", invalid="Quantize", cancelled="ApplyRht",
               expired="ApplyRht")
CODES = ["OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED",
         "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED",
         "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE",
         "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS",
         "UNAUTHENTICATED"]
FIELDS = ["started", "right", "wrong", "attempts", "bands", "lent"]
HEADER = 3
EACH = len(FIELDS) + 2 * len(CODES)


class Caller:
    """A process of quantd_soak_caller, whose help describes `target` and `kinds`."""

    def __init__(self, build, folder, name, target, kinds, *flags, calls=False):
        self.name = name
        self.counts_path = pathlib.Path(folder) / f"{name}.counts"
        command = [str(build.caller), target, kinds, *flags, "--counts",
                   str(self.counts_path)]
        # The process may continue the counts of a killed caller of that name.
        with open(self.counts_path, "ab") as file:
            file.truncate(8 * (HEADER + EACH * len(KINDS)))
        if calls:
            command.append("--calls")
        self.log = open(pathlib.Path(folder) / f"{name}.log", "ab")
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE if calls else subprocess.DEVNULL,
            stdin=subprocess.DEVNULL, stderr=self.log)
        self.log.close()
        self.drain = Drain(self.process.stdout) if calls else None

    def alive(self):
        return self.process.poll() is None

    def signal(self, number):
        if self.alive():
            self.process.send_signal(number)

    def stop(self, patience=60):
        """Stops the process and returns its exit code, which is 0 if no reply was wrong."""
        self.signal(signal.SIGTERM)
        code = self.process.wait(patience)
        if self.drain:
            self.drain.thread.join(5)
        return code

    def kill(self):
        self.signal(signal.SIGKILL)
        self.process.wait()

    def sample(self):
        return sample(self.process.pid)

    def _map(self):
        with open(self.counts_path, "r+b") as file:
            return mmap.mmap(file.fileno(), 8 * (HEADER + EACH * len(KINDS)))

    def pause(self, on):
        with self._map() as words:
            words[0:8] = struct.pack("=Q", int(on))

    def resting(self):
        with self._map() as words:
            _, threads, resting = struct.unpack_from("=3Q", words)
        return not self.alive() or (threads > 0 and resting == threads)

    def counts(self):
        return read_counts(self.counts_path)

    def calls(self):
        """Returns begin and end in seconds, kind and outcome of every call so far."""
        if not self.drain:
            return []
        found = []
        for _, line in list(self.drain.lines):
            words = line.split()
            if len(words) == 4:
                found.append((int(words[0]) / 1e6, int(words[1]) / 1e6,
                              words[2], words[3]))
        return found


def read_counts(path):
    """Returns the counts of each kind."""
    data = pathlib.Path(path).read_bytes()
    words = struct.unpack(f"={len(data) // 8}Q", data)
    kinds = {}
    for i, kind in enumerate(KINDS):
        at = HEADER + i * EACH
        counts = dict(zip(FIELDS, words[at:]))
        at += len(FIELDS)
        for name in ("failed", "told"):
            counts[name] = {code: n for code, n in
                            zip(CODES, words[at:at + len(CODES)]) if n}
            at += len(CODES)
        kinds[kind] = counts
    return kinds


def total(many):
    """Returns the sum of several results of read_counts."""
    kinds = {}
    for kind in KINDS:
        counts = {field: sum(c[kind][field] for c in many) for field in FIELDS}
        for name in ("failed", "told"):
            codes = {}
            for c in many:
                for code, n in c[kind][name].items():
                    codes[code] = codes.get(code, 0) + n
            counts[name] = codes
        kinds[kind] = counts
    return kinds
