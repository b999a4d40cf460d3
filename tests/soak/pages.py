"""Writes results as pages."""

import os
import pathlib
import re
import shutil
import subprocess

from servers import ROOT


def machine():
    text = pathlib.Path("/proc/cpuinfo").read_text()
    model = re.search(r"model name\s*: (.*)", text)
    what = f"{model.group(1) if model else 'unknown'}, {os.cpu_count()} cores"
    if shutil.which("nvidia-smi"):
        done = subprocess.run(["nvidia-smi", "--format=csv,noheader",
                               "--query-gpu=name,driver_version"],
                              capture_output=True, check=False, text=True)
        for gpu in done.stdout.splitlines() if done.returncode == 0 else ():
            what += ", {} (driver {})".format(*gpu.split(", "))
    return what


def commit():
    done = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short=12",
                           "HEAD"], capture_output=True, check=False)
    return done.stdout.decode().strip() or "unknown"


def seconds(value):
    return "-" if value is None else f"{value:.2f} s"


def line_of(row):
    text = f"{row['result']:8} {row['name']:34}"
    if "calls" in row:
        text += (f" detected {seconds(row['detected_s']):>8}"
                 f" recovered {seconds(row['recovered_s']):>8}"
                 f" calls {row['calls']:5} failed {row['failed']}"
                 f" wrong {row['wrong']}")
    if "frames" in row:
        text += frames(row["frames"])
    return text


def frames(counts):
    """Describes the lossy link's effect on frames, and TCP's counts."""
    return f" ({counts['delayed']} frames delayed, {counts['lost']} lost, " \
        f"{counts['resent']} resent)"


def fault_page(result):
    """Returns the table of faults, with a section for each class."""
    rows = result["faults"]
    done = [r for r in rows if r["result"] != "skipped"]
    lines = [
        "# Faults", "",
        "`tests/soak/fault.sh` with `--page` wrote this page. "
        "tests/soak/README.md explains the columns.", "",
        "<!-- faults: generated -->", "",
        f"{result['machine']}, Linux {result['kernel']}, commit "
        f"{result['commit']}, {result['date']}; the failing device is "
        f"{result['device']}.", "",
        f"{len(done)} of {len(rows)} faults were made: "
        f"{sum(r['calls'] for r in done)} calls, "
        f"{sum(r['failed'] for r in done)} failed, "
        f"{sum(r['wrong'] for r in done)} wrong answers.", ""]
    for kind in dict.fromkeys(r["class"] for r in rows):
        lines += [f"## {kind.capitalize()}", "",
                  "| fault | detected | recovered | slowest | calls | failed | "
                  "wrong |", "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"]
        for row in rows:
            if row["class"] != kind:
                continue
            name = f"`{row['name']}`: {row['what']}"
            if "frames" in row:
                name += frames(row["frames"])
            if "commit" in row:
                name += f" (again, commit {row['commit']})"
            if row["result"] == "skipped":
                lines.append(f"| {name} | not here: {row['complaints'][0]} "
                             "| | | | | |")
                continue
            failed = str(row["failed"])
            if row["codes"]:
                failed += f" ({', '.join(row['codes'])})"
            if row["result"] == "failed":
                failed += " **not accepted**"
            lines.append(f"| {name} | {seconds(row['detected_s'])} | "
                         f"{seconds(row['recovered_s'])} | "
                         f"{seconds(row['slowest_s'])} | {row['calls']} | "
                         f"{failed} | {row['wrong']} |")
        lines.append("")
    return "\n".join(lines + ["<!-- end of faults -->", ""])


def soak_sums(result):
    """Describes how all calls ended."""
    calls = right = wrong = refused = failed = 0
    for counts in result["clients"].values():
        for kind, count in counts.items():
            calls += count["started"]
            right += count["right"]
            wrong += count["wrong"]
            bad = sum(count["failed"].values())
            if kind in ("invalid", "cancelled", "expired"):
                refused += bad
            else:
                failed += bad
    return (f"{calls} calls: {right} right, {wrong} wrong, {refused} refused or "
            f"cancelled on purpose, {failed} failed, "
            f"{calls - right - wrong - refused - failed} unfinished when their "
            "client was killed")


def soak_summary(result):
    lines = [f"{result['seconds']} s, {sum(result['faults'].values())} faults, "
             + soak_sums(result),
             "growth in the second half, KiB: " + ", ".join(
                 f"{n} {k}" for n, k in result["growth_kib"].items())]
    if result["not_here"]:
        lines.append("left out: " + ", ".join(result["not_here"]))
    lines += [f"NOT ACCEPTED: {text}" for text in result["complaints"]]
    return "\n".join(lines)


def soak_page(result):
    quiet = result["quiet"]
    lines = [
        "# A soak", "",
        "`tests/soak/run.sh` with `--results` wrote this page and "
        "[soak.json](soak.json). tests/soak/README.md explains the tables.",
        "", "<!-- soak: generated -->", "",
        f"`tests/soak/run.sh {result['seconds'] / 3600:.2g} --pace "
        f"{result['pace']:g}` on a machine that other work shared: "
        f"{result['machine']}, Linux {result['kernel']}, commit "
        f"{result['commit']}, {result['date']}, devices {result['device']}.",
        "",
        f"{result['seconds'] / 60:.0f} minutes, "
        f"{sum(result['faults'].values())} faults, {soak_sums(result)}. At "
        f"each of {len(quiet)} pauses no call held memory, and the servers' "
        "metrics " +
        ("did not always match" if
         any("counts" in text for text in result["complaints"]) else
         "matched") + " the clients' counts.", "",
        "| client | kind | calls | right | wrong | errors, by code |",
        "| --- | --- | ---: | ---: | ---: | --- |"]
    for name, counts in result["clients"].items():
        for kind, count in counts.items():
            if count["started"]:
                codes = ", ".join(f"{n} {c}" for c, n in
                                  count["failed"].items())
                lines.append(f"| {name} | {kind} | {count['started']} | "
                             f"{count['right']} | {count['wrong']} | {codes} |")
    lines += ["", "| fault | times |", "| --- | ---: |"]
    lines += [f"| {name} | {n} |" for name, n in
              sorted(result["faults"].items())]
    lines += [f"| {name} | left out |"
              for name in result["not_here"]]
    lines += ["", "Processes at the first, the middle and the last pause. At "
              "most "
              f"{result['most_growth_kib']} KiB of growth are accepted.", "",
              "| process | MiB | growth, KiB | descriptors | threads |",
              "| --- | --- | ---: | --- | --- |"]
    for name, grown in result["growth_kib"].items():
        some = [p[name] for p in (quiet[0], quiet[len(quiet) // 2], quiet[-1])
                if p.get(name)]
        mib = ", ".join(f"{p['anonymous_kib'] / 1024:.1f}" for p in some)
        lines.append(f"| {name} | {mib} | {grown} | " + " | ".join(
            ", ".join(str(p[field]) for p in some)
            for field in ("descriptors", "threads")) + " |")
    lines += [""]
    if result["complaints"]:
        lines += ["Not accepted:", ""]
        lines += [f"- {text}" for text in result["complaints"]] + [""]
    return "\n".join(lines + ["<!-- end of soak -->", ""])
