"""Plots values over time as SVG, without a library."""

from accounts import watched

WIDTH, HEIGHT = 900, 300
LEFT, RIGHT, TOP, BOTTOM = 60, 170, 30, 30
COLORS = ["#1b6ca8", "#c0392b", "#1e8449", "#8e44ad", "#b9770e", "#117a65",
          "#5d6d7e", "#a04000", "#7b241c", "#2e4053"]


def nice(limit):
    """Returns a round step that divides `limit` into three to seven parts."""
    step = 1.0
    while step * 7 < limit:
        for factor in (2, 2.5, 2):
            step *= factor
            if step * 7 >= limit:
                break
    return step


def plot(title, unit, lines, dots=None):
    """Returns a plot. `lines` and `dots` map names to lists of (minutes, value)."""
    dots = dots or {}
    points = [p for line in [*lines.values(), *dots.values()] for p in line]
    if not points:
        points = [(0, 0)]
    last = max(x for x, _ in points) or 1
    top = max(y for _, y in points) * 1.05 or 1

    def place(x, y):
        return (LEFT + x / last * (WIDTH - LEFT - RIGHT),
                HEIGHT - BOTTOM - y / top * (HEIGHT - TOP - BOTTOM))

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} '
           f'{HEIGHT}" font-family="sans-serif" font-size="11">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
           f'<text x="{LEFT}" y="18" font-size="13">{title}</text>']
    y = 0.0
    while y <= top:
        px, py = place(0, y)
        out.append(f'<path d="M{px:.0f} {py:.1f}H{WIDTH - RIGHT}" '
                   'stroke="#ddd"/>'
                   f'<text x="{px - 6:.0f}" y="{py + 4:.1f}" '
                   f'text-anchor="end">{y:g}</text>')
        y += nice(top)
    x = 0.0
    while x <= last:
        px, py = place(x, 0)
        out.append(f'<text x="{px:.1f}" y="{HEIGHT - 12}" '
                   f'text-anchor="middle">{x:g}</text>')
        x += nice(last)
    out.append(f'<text x="{WIDTH - RIGHT + 8}" y="{HEIGHT - 12}">minutes'
               f'</text><text x="8" y="18">{unit}</text>')
    names = list(dict.fromkeys([*lines, *dots]))
    for i, name in enumerate(names):
        color = COLORS[i % len(COLORS)]
        line = lines.get(name, [])
        if line:
            path = "L".join("{:.1f} {:.1f}".format(*place(*p)) for p in line)
            out.append(f'<path d="M{path}" fill="none" stroke="{color}" '
                       'stroke-width="1"/>')
        for p in dots.get(name, []):
            px, py = place(*p)
            out.append(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3" '
                       f'fill="{color}"/>')
        out.append(f'<text x="{WIDTH - RIGHT + 8}" y="{TOP + 10 + 15 * i}" '
                   f'fill="{color}">{name}</text>')
    return "\n".join(out + ["</svg>", ""])


def line(points, name, field, scale=1.0):
    return [(p["at"] / 60, p[name][field] * scale) for p in points
            if p.get(name)]


def write(result, folder):
    samples, quiet = result["samples"], result["quiet"]
    names = watched(samples)
    servers = [n for n in names if not n.startswith("client ")]
    clients = [n for n in names if n.startswith("client ")]
    for file, chosen in (("memory_servers", servers),
                         ("memory_clients", clients)):
        (folder / f"{file}.svg").write_text(plot(
            "Anonymous memory; dots: while nobody calls", "MiB",
            {n: line(samples, n, "anonymous_kib", 1 / 1024) for n in chosen},
            {n: line(quiet, n, "anonymous_kib", 1 / 1024) for n in chosen}))
    for field in ("descriptors", "threads"):
        (folder / f"{field}.svg").write_text(plot(
            f"{field.capitalize()}; dots: while nobody calls", "",
            {n: line(samples, n, field) for n in names},
            {n: line(quiet, n, field) for n in names}))
    rate = []
    for before, after in zip(samples, samples[1:]):
        took = after["at"] - before["at"]
        if took > 0:
            rate.append((after["at"] / 60,
                         (after["served"] - before["served"]) / took))
    (folder / "calls.svg").write_text(plot(
        "Calls that were served, and whose bytes were compared", "1/s",
        {"all clients": rate}))
