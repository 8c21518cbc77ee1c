"""Draw docs/overview.svg: split, spread and aggregation with k = 3 and d = 3 (Figure 1 of the paper).

    python docs/draw_overview.py

The lines are those of the library's own spread.
"""

from __future__ import annotations

from pathlib import Path

from poisonproof import Spread

SPREAD = Spread.random(3, 3)
WIDTH, HEIGHT, STEP = 780, 376, 36
TRAINING, PARTITIONS, SUBSETS, CLASSIFIERS, VOTE = 20, 170, 340, 500, 640
INK, SOFT, PALE, FOLLOWED = "#24292f", "#57606a", "#c8ced6", "#0b6e4f"
HEADS = {TRAINING: "training data", PARTITIONS: "partitions", SUBSETS: "subsets", CLASSIFIERS: "base classifiers"}


def draw() -> str:
    """The picture as SVG; one partition is followed to the d subsets that it reaches."""
    n, followed = SPREAD.n_subsets, 2
    y = [74 + STEP * i for i in range(n)]
    middle = (y[0] + y[-1]) / 2
    drawn = [text(x, 40, head, SOFT) for x, head in {**HEADS, VOTE: "vote"}.items()]
    drawn.append(
        f'<rect x="{TRAINING}" y="{y[0] - 13}" width="70" height="{y[-1] - y[0] + 26}" rx="6" fill="#eef1f4"/>'
    )
    for j in [*(j for j in range(n) if j != followed), followed]:  # the followed one on top
        colour, width = (FOLLOWED, 2.2) if j == followed else (PALE, 1.2)
        drawn.append(line(TRAINING + 70, middle, PARTITIONS, y[j], colour, width))
        for i in SPREAD.subsets_of(j):
            drawn.append(line(PARTITIONS + 46, y[j], SUBSETS, y[int(i)], colour, width))
            if j == followed:
                drawn.append(line(SUBSETS + 46, y[int(i)], CLASSIFIERS, y[int(i)], colour, width))
    for i in range(n):
        reached = followed in SPREAD.partitions_of(i)
        if not reached:
            drawn.append(line(SUBSETS + 46, y[i], CLASSIFIERS, y[i], PALE, 1.2))
        drawn.append(line(CLASSIFIERS + 30, y[i], VOTE, middle, FOLLOWED if reached else PALE, 1.2))
        drawn += box(PARTITIONS, y[i], f"P{i}", i == followed)
        drawn += box(SUBSETS, y[i], f"S{i}", reached)
        drawn.append(
            f'<circle cx="{CLASSIFIERS + 15}" cy="{y[i]}" r="13" fill="{FOLLOWED if reached else "#9aa4b0"}"/>'
        )
        drawn.append(text(CLASSIFIERS + 15, y[i] + 4, f"f{i}", "white", "middle"))
    drawn.append(f'<circle cx="{VOTE + 24}" cy="{middle}" r="24" fill="{INK}"/>')
    drawn.append(text(VOTE + 24, middle + 5, "Σ", "white", "middle"))
    words = {130: "split", 280: "spread", 450: "train", 600: "aggregate"}
    drawn += [text(x, 18, word, INK, "middle", "bold") for x, word in words.items()]
    label = (
        f"Finite Aggregation with k = 3 and d = 3: a hash splits the training data into {n} partitions, each is spread "
        f"to 3 of {n} subsets, one base classifier is trained on each subset, and the majority decides."
    )
    body = "\n".join(drawn)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT + 30}" role="img" aria-label="{label}" '
        f'font-family="system-ui, sans-serif" font-size="13">\n'
        f'<rect width="{WIDTH}" height="{HEIGHT + 30}" fill="white"/>\n{body}\n</svg>\n'
    )


def box(x: float, y: float, name: str, followed: bool) -> list[str]:
    """A named box."""
    colour = FOLLOWED if followed else "#9aa4b0"
    fill = "#e3f2ec" if followed else "#f6f8fa"
    frame = f'<rect x="{x}" y="{y - 13}" width="46" height="26" rx="5" fill="{fill}" stroke="{colour}"/>'
    return [frame, text(x + 23, y + 5, name, INK, "middle")]


def line(x: float, y: float, to_x: float, to_y: float, colour: str, width: float) -> str:
    """A line."""
    return f'<line x1="{x}" y1="{y}" x2="{to_x}" y2="{to_y}" stroke="{colour}" stroke-width="{width}"/>'


def text(x: float, y: float, words: str, colour: str, anchor: str = "start", weight: str = "normal") -> str:
    """Words."""
    return f'<text x="{x}" y="{y}" fill="{colour}" text-anchor="{anchor}" font-weight="{weight}">{words}</text>'


if __name__ == "__main__":
    Path(__file__).with_name("overview.svg").write_text(draw(), "utf-8")
