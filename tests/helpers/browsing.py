"""A real browser for tests, which afterwards has asked for nothing else and complained of nothing."""

import shutil

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
HOSTILE = [
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(2)>",
    "\"' onclick=alert(3) {{ 7*7 }}",
    "Ünïcøde 猫 \u2028",
]
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="NO BROWSER: the report was not looked at; install Debian's chromium"),
]


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def look(browser):
    """Open a report; afterwards, whatever the test did, it asked for nothing else and complained of nothing."""
    opened = []

    def open_page(path, width=1280, scheme="light"):
        page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
        asked, complaints = [], []

        def answer(route):
            asked.append(route.request.url)
            route.continue_() if route.request.url == path.as_uri() else route.abort()

        page.route("**/*", answer)
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: (complaints.append(dialog.message), dialog.dismiss()))
        page.goto(path.as_uri())
        opened.append((page, path, asked, complaints))
        return page

    yield open_page
    for page, path, asked, complaints in opened:
        page.wait_for_timeout(50)
        assert [url for url in asked if not url.startswith("data:")] == [path.as_uri()]
        assert complaints == []
        page.close()
