#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""TSV of bench/levers (curve, label, miss rate, perplexity) to an SVG: misses against cost."""
import sys

rows = [line.rstrip("\n").split("\t") for line in open(sys.argv[1], encoding="utf-8")]
base = next(float(p) for name, label, _, p in rows if name == "plain" and label == "lfu")
curves = {}
for name, label, miss, ppl in rows:
    curves.setdefault(name, []).append((100 * float(miss), 100 * (float(ppl) / base - 1), label))
W, H, LEFT, RIGHT, TOP, BOTTOM = 760, 460, 60, 220, 40, 50
x_max = 5 * (int(max(p[0] for c in curves.values() for p in c)) // 5 + 1)
y_max = min(7.0, max(p[1] for c in curves.values() for p in c) * 1.05)
y_min = min(0.0, min(p[1] for c in curves.values() for p in c))


def px(x):
    return LEFT + x / x_max * (W - LEFT - RIGHT)


def py(y):
    return H - BOTTOM - (y - y_min) / (y_max - y_min) * (H - TOP - BOTTOM)


out = [f"<svg xmlns='http://www.w3.org/2000/svg' width='{W}' height='{H}' font-family='sans-serif' "
       f"font-size='12'>", "<rect width='100%' height='100%' fill='white'/>",
       f"<text x='{LEFT}' y='22' font-size='15'>What the levers cost</text>"]
for i in range(0, x_max + 1, 5):
    out.append(f"<line x1='{px(i):.1f}' x2='{px(i):.1f}' y1='{TOP}' y2='{H - BOTTOM}' stroke='#eee'/>"
               f"<text x='{px(i):.1f}' y='{H - BOTTOM + 18}' text-anchor='middle'>{i}</text>")
for i in range(0, int(y_max) + 1):
    out.append(f"<line x1='{LEFT}' x2='{W - RIGHT}' y1='{py(i):.1f}' y2='{py(i):.1f}' stroke='#ddd'/>"
               f"<text x='{LEFT - 6}' y='{py(i) + 4:.1f}' text-anchor='end'>{i}</text>")
out.append(f"<text x='{(LEFT + W - RIGHT) / 2}' y='{H - 10}' text-anchor='middle'>misses, % of the uses without lever</text>"
           f"<text x='14' y='{H / 2}' transform='rotate(-90 14 {H / 2})' text-anchor='middle'>"
           "perplexity, % more</text>")
colours = ["#333", "#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b", "#17becf",
           "#e377c2", "#7f7f7f", "#bcbd22"]
for n, (name, points) in enumerate(curves.items()):
    colour = colours[n % len(colours)]
    shown = [p for p in points if p[1] <= y_max]
    line = " ".join(f"{px(x):.1f},{py(y):.1f}" for x, y, _ in shown)
    if name != "plain":
        out.append(f"<polyline fill='none' stroke='{colour}' stroke-width='2' points='{line}'/>")
    for x, y, label in shown:
        out.append(f"<circle cx='{px(x):.1f}' cy='{py(y):.1f}' r='3' fill='{colour}'>"
                   f"<title>{label}: {x:.1f} % misses, {y:+.2f} %</title></circle>")
    out.append(f"<text x='{W - RIGHT + 14}' y='{TOP + 14 + 18 * n}' fill='{colour}'>{name}</text>")
out.append("</svg>")
print("\n".join(out))
