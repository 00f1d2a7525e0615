#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Table of bench/streaming (file, MiB, tokens/s, bound) to an SVG on standard output: tokens a second of
the mixture of experts at each budget, and the bound: the flash alone, or everything in RAM."""
import sys

W, LEFT, TOP, STEP, BAR = 640, 110, 62, 46, 24

rows = [line.rstrip("\n").split("\t") for line in open(sys.argv[1], encoding="utf-8")][1:]
rows = [(int(mib), float(speed), float(bound)) for name, mib, speed, bound in rows if name == "six.gguf"]
if not rows:
    sys.exit("plot_ladder: no rung of six.gguf in the table")
longest = max(max(speed, bound) for _, speed, bound in rows)
height = TOP + STEP * len(rows) + 14


def px(x):
    return LEFT + x / longest * (W - LEFT - 90)


out = [f"<svg xmlns='http://www.w3.org/2000/svg' width='{W}' height='{height}' "
       "font-family='sans-serif' font-size='13'>", "<rect width='100%' height='100%' fill='white'/>",
       "<text x='16' y='24' font-size='15'>16 B mixture of experts (5.4 GB) on a flash of 278 MB/s"
       "</text>", "<text x='16' y='44' fill='#666'>tokens a second in a memory cgroup; the mark: the "
       "flash alone, or all in RAM</text>"]
for n, (mib, speed, bound) in enumerate(rows):
    y = TOP + STEP * n
    middle = y + BAR / 2 + 5
    out.append(f"<text x='{LEFT - 10}' y='{middle}' text-anchor='end'>{mib} MiB</text>"
               f"<rect x='{LEFT}' y='{y}' width='{px(speed) - LEFT:.1f}' height='{BAR}' fill='#1f77b4'/>")
    out.append(f"<line x1='{px(bound):.1f}' x2='{px(bound):.1f}' y1='{y - 4}' y2='{y + BAR + 4}' "
               "stroke='#d62728' stroke-width='2'/>"
               f"<text x='{px(max(speed, bound)) + 8:.1f}' y='{middle}'>{speed:.2f}</text>")
out.append("</svg>")
print("\n".join(out))
