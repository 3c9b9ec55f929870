"""A storage for tests: moto's S3 on loopback, behind a gate that can fail as a real one does."""

import contextlib
import http.client
import logging
import random
import socket
import threading
import time
from collections import Counter
from urllib.parse import quote

import pytest
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

from orchestrator import lease, remote

FAULTS = ("busy", "broken", "dropped", "lost answer", "slow")


class Gate:
    """Passes requests on to S3, but for those that its dice or its switch make fail."""

    def __init__(self, app):
        self.app = app
        self.lock = threading.Lock()
        self.heal()

    def heal(self):
        """Let everything through again, and forget what was asked."""
        self.dice, self.rate, self.closed, self.delay = random.Random(0), 0.0, lambda *_: False, 0
        self.asked, self.faults = [], Counter()

    def disturb(self, seed, rate, delay):
        """Let a share of the requests fail, each way in turn; a slow one takes `delay` seconds."""
        self.dice, self.rate, self.delay = random.Random(seed), rate, delay

    def __call__(self, environ, start):
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        with self.lock:
            self.asked.append((method, path))
            fault = self.dice.choice(FAULTS) if self.dice.random() < self.rate else ""
            if self.closed(method, path):
                fault = "broken"
            if "HTTP_AUTHORIZATION" not in environ:
                fault = "denied"
            self.faults[fault] += 1
        return self.answer(environ, start, fault)

    def answer(self, environ, start, fault):
        if fault in ("busy", "broken", "denied"):
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            start({"busy": "503 Busy", "broken": "500 Broken", "denied": "403 No"}[fault], [])
            return [b"<Error><Code>AccessDenied</Code></Error>" if fault == "denied" else b""]
        if fault == "slow":
            time.sleep(self.delay)
        if fault == "dropped":
            hang_up(environ)
        body = self.app(environ, start)
        if fault == "lost answer":  # it was done, and nobody is told
            hang_up(environ)
        return body


def hang_up(environ):
    with contextlib.suppress(OSError):
        environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)


class Storage:
    """A running S3 with one bucket, `lab`."""

    def __init__(self):
        logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
        self.gate = Gate(DomainDispatcherApplication(create_backend_app))
        self.server = make_server("127.0.0.1", 0, self.gate, threaded=True)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()
        self.request("PUT", "/lab")

    def close(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def uri(self, name, bucket="lab"):
        options = f"endpoint_override=127.0.0.1:{self.server.server_port}&scheme=http"
        return f"s3://{bucket}/{name}?{options}&region=us-east-1"

    def request(self, method, path, content=None):
        """A request of somebody else's."""
        connection = http.client.HTTPConnection("127.0.0.1", self.server.server_port)
        connection.request(method, quote(path), content, {"Authorization": "AWS test:test"})
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        assert answer.status < 300, body
        return body


@pytest.fixture(scope="session")
def server():
    """One S3 for all tests; each uses names of its own."""
    running = Storage()
    yield running
    running.close()


@pytest.fixture
def storage(server, monkeypatch):
    """An S3 that works, the keys to it in the environment, and short pauses in this process."""
    server.gate.heal()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setattr(remote, "PAUSE", 0.002)
    monkeypatch.setattr(lease, "SETTLE", 0.02)
    return server


@pytest.fixture
def uri(storage, tmp_path):
    """Where a test's run goes."""
    return storage.uri(f"runs/{tmp_path.name}")


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Changes to another machine, as far as a mirror can tell: another cache."""

    def change(name):
        monkeypatch.setenv("RULESWEEP_CACHE", str(tmp_path / f"cache of {name}"))

    change("first")
    return change
