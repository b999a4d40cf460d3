"""Checks that the counts of clients and servers agree, and that memory does not grow."""

import re
import statistics

from callers import KINDS, METHODS

ERROR = re.compile(r'quantd_errors_total\{method="(\w+)",code="(\w+)"')


def server_counts(page):
    """Returns finished calls and errors by code, for each method."""
    calls, errors = {}, {}
    for name, value in page.items():
        found = re.fullmatch(r'quantd_requests_total\{method="(\w+)"\}', name)
        if found:
            calls[found.group(1)] = int(value)
        found = ERROR.match(name)
        if found and value:
            method, code = found.groups()
            codes = errors.setdefault(method, {})
            codes[code] = codes.get(code, 0) + int(value)
    return calls, errors


def client_counts(clients):
    """Returns served calls, errors from a server, and calls begun, for each method."""
    served, told, begun = {}, {}, {}
    for counts in clients:
        for kind in KINDS:
            count, method = counts[kind], METHODS[kind]
            each = count["bands"] if kind == "bands" else \
                count["right"] + count["wrong"]
            served[method] = served.get(method, 0) + each
            begun[method] = begun.get(method, 0) + count["started"]
            for code, n in count["told"].items():
                codes = told.setdefault(method, {})
                codes[code] = codes.get(code, 0) + n
    return served, told, begun


def disagreements(page, exact, unsure):
    """Returns disagreements between a server's metrics and its clients' counts.

    `exact` clients make one attempt at each call and see how it ends. `unsure`
    ones are killed, cut off, or give up. They use other methods, whose counts
    have only bounds.
    """
    if not page:
        return ["no metrics"]
    said = []
    calls, errors = server_counts(page)
    served, told, begun = client_counts(exact)
    for method in sorted(m for m, n in begun.items() if n):
        failed = errors.get(method, {})
        at_server = calls.get(method, 0) - sum(failed.values())
        if at_server != served.get(method, 0):
            said.append(f"{method}: the server counts {at_server} served "
                        f"calls, clients {served.get(method, 0)}")
        if failed != told.get(method, {}):
            said.append(f"{method}: the server counts errors {failed}, "
                        f"clients {told.get(method, {})}")
    some, told, begun_unsure = client_counts(unsure)
    for method in sorted(m for m, n in begun_unsure.items() if n):
        if begun.get(method):
            raise ValueError(f"{method} has exact and unsure clients")
        at_server = calls.get(method, 0) - \
            sum(errors.get(method, {}).values())
        if at_server < some[method]:
            said.append(f"{method}: the server counts {at_server} served "
                        f"calls, clients have seen {some[method]}")
        for code, n in told.get(method, {}).items():
            if errors.get(method, {}).get(code, 0) < n:
                said.append(f"{method}: clients were told {code} {n} times, "
                            "the server counts fewer")
    for name, value in page.items():
        if value and name.startswith(("quantd_memory_used_bytes",
                                      "quantd_active_calls",
                                      "quantd_memory_waiting_calls",
                                      "quantd_device_slots_busy",
                                      "quantd_device_queued_calls")):
            said.append(f"{name} is {value:.0f} while nobody calls")
    return said


def series(points, name, field):
    return [p[name][field] for p in points if p.get(name)]


def watched(points):
    return [n for n in points[0] if n != "at"] if points else []


def second_half(values):
    """Returns the medians of the first and the last third of the second half."""
    half = values[len(values) // 2:]
    third = max(1, len(half) // 3)
    return statistics.median(half[:third]), statistics.median(half[-third:])


def growth(points, resident=False):
    """Returns the KiB by which each process grew over the second half, measured at pauses.

    Measures the heap in use if the process reports it, and otherwise, or with
    `resident`, anonymous memory without pools.
    """
    grown = {}
    for name in watched(points):
        field = "anonymous_kib" if resident or not all(
            p[name].get("heap_kib") for p in points if p.get(name)) \
            else "heap_kib"
        # The heap in use does not include pools.
        pools = "pools_kib" if field == "anonymous_kib" else None
        values = [p[name][field] - p[name].get(pools, 0)
                  for p in points if p.get(name)]
        if len(values) >= 2:
            first, last = second_half(values)
            grown[name] = round(last - first)
    return grown


def uneven(points):
    """Returns processes whose descriptors or threads grew over the second half."""
    said = []
    for name in watched(points):
        for field in ("descriptors", "threads"):
            values = series(points, name, field)
            if len(values) < 4:
                continue
            first, last = second_half(values)
            if last > first + 3:
                said.append(f"{name}: {field} rose from {first} to {last}")
    return said
