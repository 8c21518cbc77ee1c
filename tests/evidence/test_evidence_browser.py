"""evidence.html in a real browser."""

from dataclasses import replace

import pytest
from sklearn.naive_bayes import GaussianNB

from browsing import HOSTILE, browser, look, pytestmark  # noqa: F401
from poisonproof import BallotClassifier, FiniteAggregationClassifier, load, verify
from poisonproof.ballots.maps import map_for
from poisonproof.display import percent
from poisonproof.evidence.documents import page
from poisonproof.evidence.facts import gather
from poisonproof.runs.manifest import RunSettings
from poisonproof.runs.run import run

VOTERS = {
    "base classifiers": lambda digits: FiniteAggregationClassifier(GaussianNB(), k=5, d=2, n_jobs=1),
    "ballots": lambda digits: BallotClassifier(map_for(digits), near=2.1),
}


@pytest.fixture(scope="module", params=VOTERS)
def evidence(request, tmp_path_factory):
    folder, digits = tmp_path_factory.mktemp("run"), replace(load("digits"), name=HOSTILE[0])
    run(digits, VOTERS[request.param](digits), folder, RunSettings(votes_only=True))
    facts = gather(folder, digits, verify(folder, data=digits))
    facts.figures["classes"][0]["label"] = HOSTILE[1]
    (folder / "evidence.html").write_text(page(facts))
    return facts, folder / "evidence.html"


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (400, "dark")])
def test_the_page_opens_without_errors_or_network_and_says_what_the_facts_say(evidence, look, width, scheme):
    facts, path = evidence
    page = look(path, width, scheme)
    assert page.locator("#verdict").inner_text() == facts.verdict.word
    assert facts.verdict.word == ("CONSISTENT" if facts.certificate.election is None else "VERIFIED")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    size = facts.evaluation.headline_size
    held = (facts.evaluation.right & (facts.certificate.radius >= size)).sum()
    headline, beside = page.locator("h1").inner_text(), page.locator("#beside").inner_text()
    told = headline if facts.evaluation.caution is None else beside
    assert f"{held:,} of {len(facts.evaluation):,} test samples are predicted right" in told
    assert facts.evaluation.caution is None or headline == facts.evaluation.caution.headline
    assert (
        f"would have {percent(facts.evaluation.majority_share)} %, balanced 10.0 %"
        in page.locator("#beside").inner_text()
    )
    rows = [row.split("\t") for row in page.locator("#certified tbody tr").all_inner_texts()]
    figures = facts.figures
    shares = figures["clean_accuracy"], figures["balanced_accuracy"]
    assert rows[0] == ["clean", f"{figures['right']:,}", *map(percent, shares)]
    for row, said in zip(rows[1:], figures["certified"][1:], strict=True):
        shares = said["certified_fraction"], said["balanced"]
        assert row == [f"{said['attack_size']:,}", f"{said['right_and_certified']:,}", *map(percent, shares)]
    half = figures["acts"][0]["half_of_the_test_set"]
    half = "–" if half is None else f"{half:,}"
    assert page.locator("#acts tbody tr").first.inner_text().split("\t")[-1] == half
    for name in ("certified", "acts", "classes"):  # a narrow screen may scroll a table, and never cuts its words off
        assert page.locator(f"#about-{name}").bounding_box()["width"] <= width - 32
    assert page.locator("#classes tbody th").first.inner_text() == HOSTILE[1]
    assert page.get_by_text(HOSTILE[0]).count() >= 1
    assert page.locator("#premises li").count() == len(facts.certificate.premises)
    assert page.locator("#unchecked li").count() == len(facts.verdict.unchecked)
    assert page.locator("script").count() == 0
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
