"""Downloads of image sets, from a server on this machine."""

import gzip
import hashlib
import io
import tarfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from rules import files
from rules.data import DataError, DatasetInfo, fetch, load
from rules.files import RawFile
from rules.images import IMAGES, ImageSet, read_images

FASHION = files.SYSTEM / "fashion-mnist"
RAW = {"first": b"1" * 100, "second": b"2" * 100}


def digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


@dataclass
class Server:
    """A web server of a folder; `faults` are what the next answers do instead."""

    folder: Path
    url: str = ""
    faults: list[Callable[[SimpleHTTPRequestHandler], None]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)


class Handler(SimpleHTTPRequestHandler):
    def __init__(self, plan: Server, *args: object):
        self.plan = plan
        super().__init__(*args, directory=str(plan.folder))

    def do_GET(self) -> None:
        self.plan.asked.append(self.path)
        if self.plan.faults:
            self.plan.faults.pop(0)(self)
        else:
            super().do_GET()

    def log_message(self, *_: object) -> None:
        """Silence."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    plan = Server(tmp_path / "served")
    plan.folder.mkdir()
    for name, content in RAW.items():
        (plan.folder / f"{name}.gz").write_bytes(gzip.compress(content))
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, plan)) as http:
        plan.url = f"http://127.0.0.1:{http.server_port}/"
        thread = threading.Thread(target=http.serve_forever, args=(0.02,))
        thread.start()
        yield plan
        http.shutdown()
        thread.join()


@pytest.fixture
def pair(server: Server) -> ImageSet:
    """An image set of two files, left as they are, that the server has."""
    return ImageSet(
        DatasetInfo("pair", "two files", inputs=1, classes=2, source="this test"),
        files=tuple(RawFile(name, digest(content)) for name, content in RAW.items()),
        folders=(),
        urls=(server.url,),
        decode=dict,
        advice="look into this test",
    )


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RULESWEEP_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("RULESWEEP_DATA", raising=False)
    monkeypatch.setattr(files, "PAUSE", 0.01)
    return tmp_path / "cache"


def is_unavailable(handler: SimpleHTTPRequestHandler) -> None:
    handler.send_error(503)


def breaks_off(handler: SimpleHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "100")
    handler.end_headers()
    handler.wfile.write(b"\x1f\x8bhalf")


def asks_to_log_in(handler: SimpleHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    handler.wfile.write(b"<html>Welcome to our wireless network</html>")


@pytest.mark.parametrize("fault", [is_unavailable, breaks_off, asks_to_log_in])
def test_missing_files_are_downloaded_once_whatever_the_first_answer_is(
    server: Server, pair: ImageSet, cache: Path, fault: Callable
):
    server.faults.append(fault)
    assert read_images(pair) == RAW
    assert server.asked == ["/first.gz", "/first.gz", "/second.gz"]
    assert read_images(pair) == RAW
    assert len(server.asked) == 3
    assert sorted(path.name for path in (cache / "pair").iterdir()) == ["first.gz", "second.gz"]


def test_a_source_that_lacks_a_file_is_passed_over(server: Server, pair: ImageSet):
    pair = replace(pair, urls=(f"{server.url}elsewhere/", server.url))
    assert read_images(pair) == RAW
    assert server.asked[:2] == ["/elsewhere/first.gz", "/first.gz"]


def test_only_what_is_missing_is_downloaded_and_to_the_folder_given(
    server: Server, pair: ImageSet, tmp_path: Path
):
    (tmp_path / "first").write_bytes(RAW["first"])
    assert read_images(pair, tmp_path) == RAW
    assert server.asked == ["/second.gz"]
    assert (tmp_path / "pair" / "second.gz").is_file()


def test_a_file_that_the_server_unpacked_on_the_way_is_good(server: Server, pair: ImageSet):
    (server.folder / "first.gz").write_bytes(RAW["first"])
    assert read_images(pair) == RAW


def test_an_archive_is_downloaded_whole_and_its_members_read(server: Server, pair: ImageSet):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        tar.add(server.folder, "pair")
        for name, content in RAW.items():
            member = tarfile.TarInfo(f"pair/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    (server.folder / "pair.tar.gz").write_bytes(packed.getvalue())
    archive = RawFile("pair.tar.gz", digest(packed.getvalue()), unpack=False)
    for _ in range(2):
        assert read_images(replace(pair, archive=archive)) == RAW
    assert server.asked == ["/pair.tar.gz"]


def test_a_set_that_is_nowhere_says_in_one_message_how_to_get_it(
    server: Server, pair: ImageSet, cache: Path
):
    server.faults.extend([is_unavailable] * 2)
    with pytest.raises(DataError) as refused:
        read_images(pair)
    message = str(refused.value)
    assert message.startswith("pair is not on this machine, and first could not be downloaded to")
    assert "503" in message
    assert message.endswith(
        "look into this test, and give their folder as data_dir or in RULESWEEP_DATA"
    )
    assert "\n" not in message
    assert list((cache / "pair").iterdir()) == []


def test_a_download_of_something_else_is_not_kept(server: Server, pair: ImageSet, cache: Path):
    (server.folder / "first.gz").write_bytes(gzip.compress(RAW["second"]))
    with pytest.raises(DataError, match=r"first\.gz gave another file than expected"):
        read_images(pair)
    assert list((cache / "pair").iterdir()) == []


def test_a_machine_without_a_network_says_so(pair: ImageSet):
    with pytest.raises(DataError, match=r"could not be downloaded .*Connection refused"):
        read_images(replace(pair, urls=("http://127.0.0.1:9/",)))


def test_a_download_to_an_unwritable_folder_says_so(pair: ImageSet, cache: Path):
    cache.write_text("a file where the folder should be")
    with pytest.raises(DataError, match=r"could not be downloaded to .*Not a directory"):
        read_images(pair)


@pytest.mark.skipif(
    not FASHION.is_dir(), reason="Debian's package dataset-fashion-mnist is not installed"
)
def test_fashion_mnist_is_fetched_ahead_of_time_where_it_is_not_installed(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    server.folder = FASHION
    monkeypatch.setattr(files, "SYSTEM", tmp_path / "nothing")
    images = replace(IMAGES["fashion-mnist"], urls=(server.url,))
    monkeypatch.setitem(IMAGES, "fashion-mnist", images)
    assert fetch("fashion-mnist", tmp_path / "shared").fingerprint == "fec754e92e48008c"
    load("fashion-mnist", data_dir=tmp_path / "shared")
    assert len(server.asked) == 4
