"""The report read as a machine reads it: numbers, names, links, and what must not be in it."""

import base64
import csv
import gzip
import io
import json
import re
import shutil
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from analysis import accuracy_vs_depth, comparisons, depth_utility, lr_sensitivity, probes
from analysis.report import download, write_report
from analysis.report_words import decimals
from analysis.trials import load_trials
from orchestrator import store
from orchestrator.driver import run
from orchestrator.spec import study_from

SCRIPT, MATH = "<script>alert(1)</script>", "$x_1$ & _y"
STUDY = {
    "name": "small",
    "task": {
        "dataset": "teacher", "samples": 80, "test_samples": 40, "inputs": 6, "outputs": 3,
        "width": 8, "targets": "classes", "validation": 0.25,
    },
    "training": {"steps": 10, "batch_size": 16, "record": 2},
    "rules": ["bp", {"name": "fa", "label": SCRIPT}, {"name": "dfa", "label": MATH}],
    "grid": {"depth": [1, 2, 3], "width": 8, "seeds": 2},
    "search": {"lr": {"low": 0.01, "high": 1.0}, "rounds": 1, "points": 2, "seeds": 1},
    "compare": {"metric": "test_loss", "pairs": [[SCRIPT, "bp"], [MATH, "bp"]]},
}  # fmt: skip
VOID = {"meta", "link", "br"}
HEADINGS = ("h1", "h2", "h3", "h4")


class Page(HTMLParser):
    """A page's tags with their attributes, and the text inside those that are asked for."""

    def __init__(self, path):
        super().__init__()
        self.open, self.tags, self.texts, self.tables = [], [], {}, []
        self.source = path.read_text()
        self.feed(self.source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.texts.setdefault(tag, [])
        if tag not in VOID:
            self.open.append(tag)
            self.texts[tag].append("")
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append([])
        if tag in ("th", "td"):
            self.tables[-1][-1].append("")

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        for tag in set(self.open):
            self.texts[tag][-1] += data
        if {"th", "td"} & set(self.open):
            self.tables[-1][-1][-1] += data

    def all(self, name):
        return [attrs[name] for _, attrs in self.tags if name in attrs]

    def table(self, caption):
        [place] = [i for i, text in enumerate(self.texts["caption"]) if text.startswith(caption)]
        return self.tables[place]

    def rows(self, caption):
        """The table's rows by their first cell, one column after the other."""
        return {row[0]: row[1:] for row in self.table(caption)[1:]}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder of a small study, trained in this process."""
    folder = tmp_path_factory.mktemp("run") / "small"
    assert run(study_from(STUDY), folder, inline=True).exit_code == 0
    return folder


@pytest.fixture(scope="module")
def df(finished):
    return load_trials(finished)


@pytest.fixture(scope="module")
def page(finished):
    return Page(write_report(finished))


@pytest.fixture(scope="module")
def messy(finished, tmp_path_factory):
    """The page of that run with one network diverged, one failed and two pending; a bad name."""
    folder = tmp_path_factory.mktemp("messy") / "small"
    shutil.copytree(finished, folder)
    parts = store.read_parts(folder)
    rows = [row for _, table in parts for row in table.to_pylist()]
    for path, _ in parts:
        path.unlink()
    last = [row for row in rows if row["status"] == "ok" and row["depth"] == 3][-4:]
    for row in last[:2]:
        rows.remove(row)
    results = [name for name in store.named("result") if name not in ("initial_loss", "status")]
    kept = dict.fromkeys([n for n in results if n != "chance_accuracy"])
    last[2] |= kept | {"status": "diverged", "diverged_step": 3}
    error = "Traceback\n  File x\nValueError: <img src=x onerror=alert(1)>"
    last[3] |= kept | {"status": "failed", "error": error}
    store.Store(folder).append(store.SCHEMA.empty_table().from_pylist(rows, schema=store.SCHEMA))
    study = folder / "study.yaml"
    study.write_text(study.read_text().replace("name: small", "name: <b onclick=x>small</b>"))
    return Page(write_report(folder, folder / "out" / "page.html"))


def test_the_page_loads_nothing(page):
    assert page.all("src") == []
    assert all(link.startswith(("#", "data:")) for link in page.all("href"))
    style = " ".join(page.texts["style"])
    assert "@import" not in style
    assert "url(" not in style
    [policy] = [a["content"] for _, a in page.tags if a.get("http-equiv")]
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:;")


@pytest.mark.parametrize("which", ["page", "messy"])
def test_no_text_of_a_study_becomes_markup(which, request):
    page = request.getfixturevalue(which)
    tags = {tag for tag, _ in page.tags}
    assert not tags & {"script", "b", "img", "iframe", "object"}
    assert not [name for _, attrs in page.tags for name in attrs if name.startswith("on")]
    assert SCRIPT in page.texts["body"][0]
    assert MATH in page.texts["body"][0]


def test_ids_are_unique_and_whatever_refers_to_one_finds_it(page):
    ids = page.all("id")
    assert len(ids) == len(set(ids))
    names = ("aria-labelledby", "aria-describedby")
    asked = {each for name in names for text in page.all(name) for each in text.split()}
    links = {link[1:] for link in page.all("href") if link.startswith("#")}
    links |= set(re.findall(r"url\(#([^)]+)\)", page.source))
    assert asked | links <= set(ids)


def test_headings_and_landmarks_are_in_order(page):
    levels = [int(tag[1]) for tag, _ in page.tags if tag in HEADINGS]
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    tags = [tag for tag, _ in page.tags]
    assert [tags.count(name) for name in ("header", "nav", "main", "footer")] == [1, 1, 1, 1]
    assert ("html", {"lang": "en"}) in page.tags


def test_tables_have_captions_and_headings_and_can_be_scrolled_by_keyboard(page):
    assert len(page.texts["caption"]) == len(page.tables) >= 6
    scopes = [attrs.get("scope") for tag, attrs in page.tags if tag == "th"]
    assert set(scopes) == {"col", "row", "rowgroup"}
    boxes = [attrs for _, attrs in page.tags if attrs.get("class") == "scroll"]
    assert len(boxes) == len(page.tables)
    assert all(box["tabindex"] == "0" and box["aria-label"] for box in boxes)


def shown(row, *names):
    mean, low, high = decimals(*(row[name] for name in names))
    return f"{mean} [{low}, {high}]"


def test_the_accuracy_table_shows_means_intervals_and_gaps(page, df):
    rows = page.rows("Test accuracy, and its difference to bp")
    for row in accuracy_vs_depth.summary_table(df).to_dict("records"):
        at = row["depth"] - 1
        assert rows[row["label"]][at].startswith(shown(row, "mean", "low", "high"))
        assert ("edge" in rows[row["label"]][at]) == row["at_edge"]
        if row["label"] != "bp":
            gap = rows[f"{row['label']} − bp"][at]
            assert gap == shown(row, "gap", "gap_low", "gap_high")


@pytest.mark.parametrize(
    ("caption", "suffix", "analysis"),
    [
        ("Alignment with the negative gradient", "", depth_utility.summarise),
        ("Accuracy of ridge probes", ", gain", probes.early_gain),
    ],
)
def test_tables_over_depth_show_what_their_analysis_finds(page, df, caption, suffix, analysis):
    rows, found = page.rows(caption), analysis(df)
    for row in found[found["label"].ne("bp")].to_dict("records"):
        cell = rows[f"{row['label']}{suffix}"][row["depth"] - 1]
        assert cell == shown(row, "mean", "low", "high")


def test_the_rates_are_shown_and_those_at_an_edge_flagged(page, df):
    rows = page.rows("Tuned learning rates")
    for row in lr_sensitivity.edges(df).to_dict("records"):
        cell = rows[row["label"]][row["depth"] - 1]
        assert cell == f"{row['lr']:.3g}{' edge' if row['at_edge'] else ''}"


def test_the_declared_comparisons_are_shown(page, df):
    rows = page.table("Differences in test loss")[1:]
    found = comparisons.claims(comparisons.comparisons(df, STUDY["compare"]))
    assert [row[-1].startswith("yes") for row in rows] == found["claimed"].tolist()
    differences = [shown(row, "mean", "low", "high") for row in found.to_dict("records")]
    assert [row[-4] for row in rows] == differences
    assert [row[0] for row in rows if len(row) == 6] == [f"{SCRIPT} − bp", f"{MATH} − bp"]


def test_figures_say_their_numbers(page, df):
    assert all(a["role"] == "img" for tag, a in page.tags if tag == "svg")
    told = dict(zip(page.texts["title"][1:], page.texts["desc"], strict=True))
    for row in accuracy_vs_depth.summarise(df).to_dict("records"):
        [number] = decimals(row["mean"])
        sentence = told["Accuracy over depth"].partition(f"{row['label']}: ")[2].partition(". ")[0]
        assert number in sentence
    assert {"Depth utility", "Probes", "Learning curves", "Comparisons"} <= set(told)
    assert all(re.search(r"\.\d\d\d", words) for words in told.values())


def test_the_files_of_the_page_are_the_table_and_the_figures_numbers(page, finished, tmp_path):
    files = {a["download"]: a["href"] for _, a in page.tags if "download" in a}
    assert {"trials.csv", "accuracy_vs_depth.csv", "probes.csv", "sources.bib"} <= set(files)
    works = base64.b64decode(files["sources.bib"].partition("base64,")[2]).decode()
    assert works.count("\n}\n") == 3
    store.export(finished, tmp_path / "trials.csv", "csv")
    content = base64.b64decode(files["trials.csv"].partition("base64,")[2])
    assert content == (tmp_path / "trials.csv").read_bytes()
    assert {row["label"] for row in csv.DictReader(io.StringIO(content.decode()))} == {
        "bp", SCRIPT, MATH
    }  # fmt: skip


def test_a_large_file_is_compressed():
    made = download("trials.csv", b"1,2\n" * 2_000_000)
    assert made.name == "trials.csv.gz"
    assert len(gzip.decompress(base64.b64decode(made.url.partition("base64,")[2]))) == 8_000_000


def test_the_page_says_where_its_numbers_come_from(page, finished):
    environment = json.loads((finished / "environment.json").read_text())
    told = dict(zip(page.texts["dt"], page.texts["dd"], strict=True))
    assert environment["libraries"]["torch"] in told["Software"]
    assert told["Host"] == environment["host"]
    assert told["Started"] == environment["started"]
    assert told["networks"] == "36"
    assert "1 tuning seed" in told["Tuning"]


def test_a_finished_run_says_that_nothing_was_lost(page):
    assert "No network diverged or failed." in page.texts["main"][0]
    assert "Incomplete." not in page.texts["body"][0]


def test_an_incomplete_run_says_so_at_the_top(messy):
    top = " ".join(messy.texts["header"][0].split())
    assert "Incomplete. 2 of 36 networks pending (" in top


def test_lost_networks_are_told_with_their_cells_and_errors(messy):
    [_, row] = messy.table("1 network failed")
    assert row[1:] == ["3", "evaluate", "1", "ValueError: <img src=x onerror=alert(1)>"]
    assert messy.table("1 network diverged")[1][-1] == "1 of 2"
    assert messy.texts["h1"] == ["<b onclick=x>small</b>"]


@pytest.fixture
def bare(finished, tmp_path):
    """A folder of a study of which nothing has been planned or trained."""
    for name in ("study.yaml", "resolved.json"):
        shutil.copy(finished / name, tmp_path / name)
    return tmp_path


def test_a_run_without_results_has_a_report(bare):
    text = Page(write_report(bare)).texts["main"][0]
    assert "No network has been evaluated yet." in text
    assert "Fully connected networks with biases" in text


def test_equal_runs_give_equal_reports(bare):
    first = write_report(bare).read_bytes()
    assert write_report(bare, bare / "again.html").read_bytes() == first


@pytest.mark.parametrize(
    ("missing", "told"), [("resolved.json", "is no run"), ("study.yaml", "read")]
)
def test_what_is_no_run_is_refused_by_name(bare, missing, told):
    (bare / missing).unlink()
    with pytest.raises(store.StoreError, match=rf"{bare.name}.*{told}"):
        write_report(bare)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_text_has_contrast(page, scheme):
    blocks = re.findall(r":root \{(.*?)\}", page.texts["style"][0], re.DOTALL)
    colors = dict(re.findall(r"--([\w-]+): (#\w{6})", blocks[scheme]))
    pairs = [(name, "page") for name in ("text", "soft", "link")] + [("warn", "warn-page")]
    assert all(contrast(colors[a], colors[b]) >= 4.5 for a, b in pairs)


def contrast(a, b):
    lights = sorted(map(luminance, (a, b)))
    return (lights[1] + 0.05) / (lights[0] + 0.05)


def luminance(color):
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
