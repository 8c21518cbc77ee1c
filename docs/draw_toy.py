"""Draw docs/toy.svg, the example of docs/guarantee.md (Figure 2 of the Finite Aggregation paper).

    python docs/draw_toy.py

Votes after the attack, tallies and radii are computed, so the picture says what the library says.
"""

from __future__ import annotations

from pathlib import Path

from poisonproof import Spread, Votes, certify

CLASSES = ("bird", "cat", "deer", "dog")
SIX = ("cat", "dog", "cat", "bird", "cat", "deer")
COLOURS = {"bird": "#b58900", "cat": "#0b6e4f", "deer": "#8a5a3c", "dog": "#2b6cb0"}
INK, PALE, POISON = "#24292f", "#c8ced6", "#c0392b"
STEP, RADIUS, BOX = 40, 17, 22
PARTITIONS_AT, CLASSIFIERS_AT, TALLY_AT = 86, 168, 240
HEIGHT = 404


def worst_poison(votes: tuple[str, ...], spread: Spread) -> tuple[int, tuple[str, ...]]:
    """The partition whose poisoning leaves the smallest lead, and the votes after it."""
    winner = certify(as_votes(votes, spread)).labels[0]

    def after(partition: int, rival: str) -> tuple[str, ...]:
        reached = spread.subsets_of(partition)
        return tuple(rival if i in reached else vote for i, vote in enumerate(votes))

    def lead(case: tuple[int, str]) -> int:
        counted = after(*case)
        return counted.count(winner) - counted.count(case[1]) - (case[1] < winner)

    cases = [(j, c) for j in range(spread.n_partitions) for c in CLASSES if c != winner]
    worst = min(cases, key=lead)
    return worst[0], after(*worst)


def as_votes(votes: tuple[str, ...], spread: Spread) -> Votes:
    """One test sample's votes."""
    return Votes([[CLASSES.index(vote) for vote in votes]], spread, CLASSES)


def panel(left: int, title: str, votes: tuple[str, ...], spread: Spread) -> list[str]:
    """Partitions, base classifiers and tally of one ensemble, with its worst poison."""
    certificate = certify(as_votes(votes, spread))
    poisoned, after = worst_poison(votes, spread)
    new = certify(as_votes(after, spread)).labels[0]
    n = spread.n_subsets
    x = [left + STEP // 2 + STEP * i for i in range(n)]
    drawn = [text(left, 30, title, size=16, weight="bold")]
    reach = "1 base classifier" if spread.d == 1 else f"{spread.d} base classifiers"
    drawn.append(text(left, 54, f"Each partition reaches {reach}", size=13, colour="#57606a"))
    for j in [*(j for j in range(n) if j != poisoned), poisoned]:  # the poisoned one on top
        for i in spread.subsets_of(j):
            drawn += edges(x, j, int(i), POISON if j == poisoned else PALE, 2.2 if j == poisoned else 1.3)
    for j in range(n):
        fill = POISON if j == poisoned else "#eef1f4"
        drawn.append(
            f'<rect x="{x[j] - BOX // 2}" y="{PARTITIONS_AT - BOX // 2}" width="{BOX}" height="{BOX}" rx="4" '
            f'fill="{fill}" stroke="{POISON if j == poisoned else "#9aa4b0"}"/>'
        )
    drawn.append(text(x[poisoned], PARTITIONS_AT + 5, "!", colour="white", weight="bold", anchor="middle"))
    for i, (before, now) in enumerate(zip(votes, after, strict=True)):
        reached = poisoned in spread.partitions_of(i)
        ring = f' stroke="{POISON}" stroke-width="3"' if reached else ""
        drawn.append(f'<circle cx="{x[i]}" cy="{CLASSIFIERS_AT}" r="{RADIUS}" fill="{COLOURS[now]}"{ring}/>')
        drawn.append(text(x[i], CLASSIFIERS_AT + 4, now, size=11, colour="white", weight="bold", anchor="middle"))
        if reached:
            drawn.append(text(x[i], CLASSIFIERS_AT + 36, before, size=12, colour=POISON, anchor="middle", struck=True))
    drawn += tally(left, after, votes, new)
    stays = new == certificate.labels[0]
    ends = f"{new} still wins" if stays else f"a tie, which {new} wins"
    drawn.append(text(left, HEIGHT - 44, f"One poison: {ends}."))
    drawn.append(text(left, HEIGHT - 18, f"Radius {certificate.radius[0]}", size=18, weight="bold"))
    return drawn


def edges(x: list[int], partition: int, classifier: int, colour: str, width: float) -> list[str]:
    """The line from a partition to a base classifier; one that goes around the end is drawn as two ends."""
    top, bottom = PARTITIONS_AT + BOX // 2, CLASSIFIERS_AT - RADIUS
    style = f'stroke="{colour}" stroke-width="{width}"'
    if classifier >= partition:
        return [f'<line x1="{x[partition]}" y1="{top}" x2="{x[classifier]}" y2="{bottom}" {style}/>']
    middle = (top + bottom) // 2
    beyond, before = x[partition] + STEP // 2, x[classifier] - STEP // 2
    return [
        f'<line x1="{x[partition]}" y1="{top}" x2="{beyond}" y2="{middle}" {style} stroke-dasharray="4 3"/>',
        f'<line x1="{before}" y1="{middle}" x2="{x[classifier]}" y2="{bottom}" {style} stroke-dasharray="4 3"/>',
    ]


def tally(left: int, after: tuple[str, ...], before: tuple[str, ...], winner: str) -> list[str]:
    """A row of votes for each class; those that the poison made are ringed, those that it took are empty."""
    drawn = []
    for at, name in enumerate(CLASSES):
        y = TALLY_AT + 27 * at
        kept = sum(a == b == name for a, b in zip(after, before, strict=True))
        count, was = after.count(name), before.count(name)
        drawn.append(text(left, y + 5, name, weight="bold" if name == winner else "normal"))
        for place in range(max(count, was)):
            taken, made = place >= count, kept <= place < count
            fill = "none" if taken else COLOURS[name]
            stroke = POISON if made else COLOURS[name] if taken else "none"
            dashes = ' stroke-dasharray="3 2"' if taken else ""
            drawn.append(
                f'<rect x="{left + 46 + 18 * place}" y="{y - 7}" width="14" height="14" rx="2" fill="{fill}" '
                f'stroke="{stroke}" stroke-width="{2.5 if made else 1.2}"{dashes}/>'
            )
        weight = "bold" if name == winner else "normal"
        drawn.append(text(left + 46 + 18 * max(count, was) + 6, y + 5, str(count), weight=weight))
    return drawn


def text(
    x: int,
    y: int,
    words: str,
    *,
    size: int = 14,
    colour: str = INK,
    weight: str = "normal",
    anchor: str = "start",
    struck: bool = False,
) -> str:
    """A line of text."""
    line = ' text-decoration="line-through"' if struck else ""
    return (
        f'<text x="{x}" y="{y}" font-size="{size}" fill="{colour}" font-weight="{weight}" '
        f'text-anchor="{anchor}"{line}>{words}</text>'
    )


def draw() -> str:
    """The picture."""
    right = 30 + 6 * STEP + 80
    width = right + 12 * STEP + 34
    label = "One poison makes bird win against six base classifiers, but not against twelve with d = 2."
    body = [
        *panel(30, "DPA, d = 1", SIX, Spread(6, (0,))),
        f'<line x1="{right - 32}" y1="18" x2="{right - 32}" y2="{HEIGHT - 18}" stroke="{PALE}"/>',
        *panel(right, "Finite Aggregation, d = 2", SIX * 2, Spread(12, (0, 1))),
    ]
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT}" width="{width}" height="{HEIGHT}" '
        f'font-family="Helvetica, Arial, sans-serif" role="img" aria-label="{label}">'
    )
    ground = f'<rect width="{width}" height="{HEIGHT}" rx="10" fill="white"/>'
    return "\n".join([opening, ground, *body, "</svg>"]) + "\n"


if __name__ == "__main__":
    Path(__file__).with_name("toy.svg").write_text(draw(), encoding="utf-8")
