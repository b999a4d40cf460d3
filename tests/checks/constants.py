#!/usr/bin/env python3
"""Checks that server/CONSTANTS.md names every chosen number in server/, and no
other. Its table of tuned numbers has at most 25 rows."""
import pathlib
import re
import sys

NUMBER = re.compile(r"constexpr (?:int|u?int64_t|size_t|double|absl::Duration"
                    r"|std::chrono::\w+) (k[A-Z]\w*)[ {;]")
# Not choices: units, and codes of programs, protocols and the kernel.
NO_CHOICE = re.compile(r"kExit|k(Ms|Second|HourMs|Day|DayMs|Serving|NotServing"
                       r"|BadOptions|HashDigits|Buckets|Codes|Reasons"
                       r"|SealFutureWrite|Needed|MostDescriptors)$")

page = pathlib.Path("server/CONSTANTS.md").read_text()
there = {name for path in pathlib.Path("server").rglob("*.[hc]*")
         for name in NUMBER.findall(path.read_text())
         if not NO_CHOICE.match(name)}
named = set(re.findall(r"`(k[A-Z]\w*)`", page))
tuned = re.findall(r"`(k[A-Z]\w*)`", "".join(
    line.split("|")[1] for line in page.splitlines() if line.startswith("| `")))
faults = [f"{name} is not in server/CONSTANTS.md" for name in sorted(there - named)]
faults += [f"{name} is not in server/" for name in sorted(named - there)]
if len(tuned) > 25:
    faults.append(f"{len(tuned)} tuned numbers, but the limit is 25")
sys.exit("\n".join(faults) or None)
