"""The report as a browser shows it: on a phone and a desk, in light and dark, without a mouse."""

import json
import os
import shutil
import subprocess
import sys
from itertools import count

import pytest

from analysis.report import write_report
from orchestrator import store
from orchestrator.driver import run
from orchestrator.spec import study_from

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
CHROMIUM = next((found for found in map(shutil.which, NAMES) if found), None)
OPTIONS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-extensions", "--hide-scrollbars", "--remote-debugging-pipe",
]  # fmt: skip
LAUNCH = """import os, sys
os.dup2(int(sys.argv[1]), 3), os.dup2(int(sys.argv[2]), 4)
os.execv(sys.argv[3], sys.argv[3:])"""  # Chromium reads commands from 3 and answers on 4
SCRIPT, MATH = "<script>alert(1)</script>", "$x_1$"
STUDY = {
    "name": "small",
    "task": {
        "dataset": "teacher", "samples": 80, "test_samples": 40, "inputs": 6, "outputs": 3,
        "width": 8, "targets": "classes", "validation": 0.25,
    },
    "training": {"steps": 10, "batch_size": 16, "record": 2},
    "rules": ["bp", {"name": "fa", "label": SCRIPT}, {"name": "dfa", "label": MATH}],
    "grid": {"depth": [1, 2, 3], "width": 8, "seeds": 2},
    "search": {"lr": 0.1},
}  # fmt: skip

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine to open the page in"),
]


class Browser:
    """A headless Chromium, spoken to over two pipes in the words of its DevTools."""

    def __init__(self, folder):
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()
        command = [CHROMIUM, *OPTIONS, f"--user-data-dir={folder}", "about:blank"]
        self.process = subprocess.Popen(
            [sys.executable, "-c", LAUNCH, str(theirs_in), str(theirs_out), *command],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self.sender, self.receiver = os.fdopen(ours_out, "wb", 0), os.fdopen(ours_in, "rb")
        self.ids, self.events, self.session = count(1), [], None
        target = next(t for t in self("Target.getTargets")["targetInfos"] if t["type"] == "page")
        attached = self("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Accessibility"):
            self(f"{domain}.enable")

    def __call__(self, method, **params):
        asked = next(self.ids)
        message = {"id": asked, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        self.sender.write(json.dumps(message).encode() + b"\0")
        while (answer := self.receive()).get("id") != asked:
            self.events.append(answer)
        assert "error" not in answer, answer
        return answer["result"]

    def receive(self):
        text = bytearray()
        while (byte := self.receiver.read(1)) != b"\0":
            assert byte, "Chromium ended"
            text += byte
        return json.loads(text)

    def open(self, path, width=1280, scheme="light"):
        self.events.clear()
        self(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=900, deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip
        self.scheme(scheme)
        self("Page.navigate", url=path.as_uri())
        self.wait_for("Page.loadEventFired")

    def scheme(self, scheme, media=""):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self("Emulation.setEmulatedMedia", media=media, features=features)

    def happened(self, *methods):
        return [event for event in self.events if event.get("method") in methods]

    def ask(self, script, *, wait=False):
        """The value of a script; with `wait`, of the promise that it is."""
        asked = self("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=wait)
        return asked["result"].get("value")

    def press(self, key, code):
        for kind in ("rawKeyDown", "keyUp"):
            self("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code)

    def wait_for(self, method, **wanted):
        while not any(wanted.items() <= e["params"].items() for e in self.happened(method)):
            self.events.append(self.receive())

    def close(self):
        self.session = None
        self("Browser.close")
        self.process.wait(30)
        self.sender.close()
        self.receiver.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of a small study, trained in this process, with its report."""
    made = tmp_path_factory.mktemp("run") / "small"
    assert run(study_from(STUDY), made, inline=True).exit_code == 0
    write_report(made)
    return made


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    started = Browser(tmp_path_factory.mktemp("chromium"))
    yield started
    started.close()


@pytest.fixture(params=[(360, "light"), (360, "dark"), (1280, "light"), (1280, "dark")])
def page(browser, folder, request):
    """The browser with the report open, at each width in each scheme."""
    browser.open(folder / "report.html", *request.param)
    return browser


def test_the_page_is_as_wide_as_the_screen(page):
    assert page.ask("document.documentElement.scrollWidth <= innerWidth")
    boxes = "[...document.querySelectorAll('svg, h1, h2, h3, p, dd, .scroll')]"
    assert page.ask(f"{boxes}.every(e => e.getBoundingClientRect().right <= innerWidth + 1)")


def test_text_and_figures_are_visible(page):
    body = page.ask("document.body.innerText")
    assert "small" in body
    assert SCRIPT in body
    assert MATH in body
    sizes = page.ask(
        "[...document.querySelectorAll('svg')].map(e => {"
        "const box = e.getBoundingClientRect(); return [box.width, box.height]})"
    )
    assert len(sizes) >= 4
    assert all(width > 200 and height > 100 for width, height in sizes)
    shade = "getComputedStyle(document.body)"
    assert page.ask(f"{shade}.color !== {shade}.backgroundColor")


def test_dark_and_light_differ_but_figures_stay_on_white(browser, folder):
    browser.open(folder / "report.html")
    shade = "getComputedStyle(document.querySelector('{}')).backgroundColor"
    colors = []
    for scheme in ("light", "dark"):
        browser.scheme(scheme)
        colors.append(browser.ask(shade.format("body")))
        assert browser.ask(shade.format(".card")) == "rgb(255, 255, 255)"
    assert colors == ["rgb(252, 252, 251)", "rgb(22, 24, 26)"]


def test_nothing_is_complained_of_fetched_or_run(page):
    assert not page.happened(
        "Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled",
        "Page.javascriptDialogOpening",
    )  # fmt: skip
    asked = [event["params"]["request"]["url"] for event in page.happened(REQUEST)]
    assert all(url.startswith(("file:", "data:")) for url in asked)
    assert page.ask("document.scripts.length") == 0


REQUEST = "Network.requestWillBeSent"


def test_a_script_that_gets_in_is_not_run(browser, folder, tmp_path):
    text = (folder / "report.html").read_text()
    attack = tmp_path / "attacked.html"
    attack.write_text(text.replace("<main", "<script>document.title = 'run'</script><main"))
    browser.open(attack)
    assert browser.ask("document.title") == "small: rulesweep report"
    assert "Content Security Policy" in str(browser.happened("Log.entryAdded"))


def test_figures_have_names_and_numbers_for_a_screen_reader(page):
    nodes = page("Accessibility.getFullAXTree")["nodes"]
    images = [node for node in nodes if node.get("role", {}).get("value") in ("image", "img")]
    named = {node["name"]["value"]: node.get("description", {}).get("value") for node in images}
    assert f"{MATH}: ." in named["Accuracy over depth"]
    assert " at depth 1, " in named["Accuracy over depth"]


def test_the_first_tab_leads_to_a_link_past_the_contents(page):
    page.press("Tab", 9)
    focus = "document.activeElement"
    assert page.ask(f"{focus}.className") == "skip"
    assert page.ask(f"{focus}.getBoundingClientRect().left") == 0
    page.press("Enter", 13)
    page.wait_for("Page.navigatedWithinDocument")
    assert page.ask(f"{focus}.id") == "main"


def test_a_wide_table_scrolls_in_its_box_by_keyboard(browser, folder):
    browser.open(folder / "report.html", 360)
    box = "[...document.querySelectorAll('.scroll')].find(e => e.scrollWidth > e.clientWidth + 50)"
    assert browser.ask(f"({box}).tabIndex") == 0
    browser.ask(f"({box}).focus()")
    browser.press("ArrowRight", 39)
    browser.ask("new Promise(done => setTimeout(done, 500))", wait=True)
    assert browser.ask(f"({box}).scrollLeft") > 0


def test_a_file_is_saved_under_its_name(browser, folder, tmp_path):
    browser.open(folder / "report.html")
    browser(
        "Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path)
    )  # the browser-wide command needs a session of its own
    browser.ask("document.querySelector('a[download=\"trials.csv\"]').click()")
    browser.wait_for("Page.downloadProgress", state="completed")
    store.export(folder, tmp_path / "expected.csv", "csv")
    assert (tmp_path / "trials.csv").read_bytes() == (tmp_path / "expected.csv").read_bytes()


def test_the_printed_page_is_black_on_white(browser, folder):
    browser.open(folder / "report.html", scheme="dark")
    browser.scheme("dark", media="print")
    shade = "getComputedStyle(document.body)"
    assert browser.ask(f"[{shade}.color, {shade}.backgroundColor]") == [
        "rgb(0, 0, 0)", "rgb(255, 255, 255)"
    ]  # fmt: skip
    assert browser.ask("getComputedStyle(document.querySelector('nav')).display") == "none"
