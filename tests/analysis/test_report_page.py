"""The report as a browser shows it: on a phone and a desk, in light and dark, without a mouse."""

import base64
import json
import os
import shutil
import subprocess
from itertools import count

import pytest

from analysis.report import write_report
from orchestrator import store

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
OPTIONS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-extensions", "--hide-scrollbars", "--remote-debugging-pipe",
]  # fmt: skip

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="no Chromium on this machine to open it in")


class Browser:
    """A headless Chromium, spoken to over two pipes in the words of its DevTools."""

    def __init__(self, folder):
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()
        self.process = subprocess.Popen(
            ["sh", "-c", 'exec "$@" 3<&"$IN" 4>&"$OUT"', "sh", CHROMIUM, *OPTIONS,
             f"--user-data-dir={folder}", "about:blank"],
            pass_fds=(theirs_in, theirs_out), env=os.environ | {"IN": str(theirs_in), "OUT": str(theirs_out)},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
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
        while not self.happened("Page.loadEventFired"):
            self.events.append(self.receive())

    def scheme(self, scheme, media=""):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self("Emulation.setEmulatedMedia", media=media, features=features)

    def happened(self, *methods):
        return [event for event in self.events if event.get("method") in methods]

    def ask(self, script):
        return self("Runtime.evaluate", expression=script, returnByValue=True)["result"]["value"]

    def press(self, key, code):
        for kind in ("rawKeyDown", "keyUp"):
            self("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code)

    def shot(self, path):
        data = self("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        path.write_bytes(base64.b64decode(data))

    def close(self):
        self.session = None
        self("Browser.close")
        self.process.wait(30)
        self.sender.close()
        self.receiver.close()
