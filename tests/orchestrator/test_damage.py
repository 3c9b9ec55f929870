"""A run folder damaged at random: never a wrong row, never a traceback."""

import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator import run
from orchestrator.store import Store, StoreError, every_result, trials

damages = st.lists(
    st.tuples(st.integers(0), st.integers(0), st.integers(1, 255)), min_size=1, max_size=4
)


@pytest.fixture(scope="module")
def whole(finished, table):
    """The parts of the finished run by name, its rows by trial, and its table."""
    parts = {path.name: path.read_bytes() for path in (finished / "trials").iterdir()}
    rows = {row["trial"]: repr(row) for row in every_result(finished).to_pylist()}
    return parts, rows, table(finished)


@pytest.fixture(scope="module")
def place(finished, tmp_path_factory):
    """A copy of the run whose parts may be damaged."""
    return Path(shutil.copytree(finished, tmp_path_factory.mktemp("damaged") / "run"))


def restored(place, parts):
    shutil.rmtree(place / "trials")
    (place / "trials").mkdir()
    for name, content in parts.items():
        (place / "trials" / name).write_bytes(content)


def damaged(place, parts, damages):
    """Put the parts back and flip bytes in some; the names of those that were hit."""
    restored(place, parts)
    names = sorted(parts)
    for which, where, bits in damages:
        path = place / "trials" / names[which % len(names)]
        path.write_bytes(flipped(path.read_bytes(), [(where, bits)]))
    return {names[which % len(names)] for which, _, _ in damages}


def flipped(content, changes):
    content = bytearray(content)
    for where, bits in changes:
        content[where % len(content)] ^= bits
    return bytes(content)


@settings(max_examples=settings.default.max_examples // 2, deadline=None)
@given(damages)
def test_flipped_bytes_in_parts_lose_rows_and_never_change_one(place, whole, damages):
    parts, rows, _ = whole
    hit = damaged(place, parts, damages)
    found = {row["trial"]: repr(row) for row in every_result(place).to_pylist()}
    assert found.items() <= rows.items()
    answered = {row["trial"] for row in trials(place).to_pylist() if row["status"] != "pending"}
    assert answered <= set(rows)
    if all((place / "trials" / name).read_bytes() == parts[name] for name in hit):
        assert found == rows  # a byte flipped twice is whole again


@settings(max_examples=10, deadline=None)
@given(damages=damages)
def test_a_damaged_run_trains_what_it_lost_and_is_whole_again(place, whole, small, table, damages):
    parts, _, undisturbed = whole
    damaged(place, parts, damages)
    assert run(small(), place, inline=True).exit_code == 0
    assert table(place) == undisturbed


@settings(max_examples=settings.default.max_examples // 2, deadline=None)
@given(st.binary(max_size=200) | st.lists(st.tuples(st.integers(0), st.integers(1, 255))))
def test_a_damaged_description_is_one_line_or_none(place, finished, damage):
    whole = (finished / "resolved.json").read_bytes()
    content = damage if isinstance(damage, bytes) else flipped(whole, damage)
    (place / "resolved.json").write_bytes(content)
    told = ""
    try:
        trials(place)
    except StoreError as error:
        told = str(error)
    (place / "resolved.json").write_bytes(whole)
    assert "\n" not in told


@settings(max_examples=settings.default.max_examples // 2, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_may_lie_where_a_part_belongs(tmp_path_factory, content):
    folder = tmp_path_factory.mktemp("any")
    (folder / "trials").mkdir()
    (folder / "trials" / "part-00000001.parquet").write_bytes(content)
    assert Store(folder).answers == {}
