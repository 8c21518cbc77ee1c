"""The report in a real browser."""

import shutil

import pytest
from sklearn.naive_bayes import GaussianNB

from bezoar import FiniteAggregationClassifier, data
from bezoar.report.page import write_report
from bezoar.run import run

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    digits = data.load("digits")
    hostile = data.Dataset("<script>alert('x')</script>", *(getattr(digits, n) for n in list(vars(digits))[1:]))
    model = FiniteAggregationClassifier(GaussianNB(), k=10, d=3, classes=range(10))
    return write_report(run(hostile, model, tmp_path_factory.mktemp("run")))


def test_report_stands_alone(report):
    text = report.read_text()
    assert len(text) < 3_000_000
    assert "<script" not in text
    assert "http" not in text.replace("http://www.w3.org/", "")
    assert "&lt;script&gt;" in text


@pytest.mark.skipif(CHROMIUM is None, reason="NO BROWSER: the report was not looked at; install Debian's chromium")
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (400, "dark")])
def test_report_opens_without_errors_or_network(report, width, scheme):
    from playwright.sync_api import sync_playwright

    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
        asked, complaints = [], []
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        page.goto(report.as_uri())
        assert "predictions are right and cannot be" in page.locator("h1").inner_text()
        assert page.locator("svg").count() == 1
        assert page.locator("th[scope=col]").count() == 4
        assert page.get_by_text("<script>alert('x')</script>").count() >= 1
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        browser.close()
    assert asked == [report.as_uri()]
    assert complaints == []
