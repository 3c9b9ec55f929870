import json
import math
import shutil
from pathlib import Path
from threading import Thread

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from orchestrator import run, verify
from orchestrator.campaign import campaigns
from orchestrator.columns import COLUMNS, SCHEMA, from_blob, named, table_of, to_blob
from orchestrator.grid import expand
from orchestrator.row_order import AXES
from orchestrator.store import Store, StoreError, every_result, export, trials

GOLDEN = Path(__file__).with_name("data") / "table_v1.parquet"


@pytest.fixture
def copy(finished, tmp_path):
    """The finished run, to be damaged."""
    return Path(shutil.copytree(finished, tmp_path / "copy"))


def parts(folder):
    return sorted((folder / "trials").glob("part-*.parquet"))


def results_of(folder):
    """The parts that hold results."""
    return [p for p in parts(folder) if pq.read_table(p)["status"][0].as_py() != "pending"]


def result(trial, loss, status="ok"):
    return {"trial": trial, "status": status, "validation_loss": loss, "initial_loss": 2.0}


def added(folder, *rows):
    store = Store(folder)
    store.add(table_of(rows))
    return store


def test_a_part_half_written_when_the_machine_died_is_ignored_then_set_aside(
    copy, small, table, capsys
):
    before = table(copy)
    (copy / "trials" / ".part-00000003.parquet.tmp").write_bytes(b"PAR1 half a par")
    (copy / "trials" / ".part-99999999.parquet.tmp").write_bytes(parts(copy)[0].read_bytes())
    assert table(copy) == before
    assert capsys.readouterr().err == ""
    run(small(), copy, inline=True)
    assert not list((copy / "trials").glob(".*"))
    assert len(list((copy / "damaged").iterdir())) == 2
    assert table(copy) == before


def test_no_part_is_left_half_written(copy):
    assert [path.name for path in (copy / "trials").iterdir() if ".tmp" in path.name] == []


def rewritten(path, table):
    """Put another table in a part's place, as parts were named before their hash."""
    pq.write_table(table, path.with_name("-".join(path.stem.split("-")[:2]) + ".parquet"))
    path.unlink()


def of_version(path, version):
    rewritten(path, pq.read_table(path).replace_schema_metadata({"rulesweep.table": version}))


def one_bit_flipped(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


DAMAGES = {
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-100]),
    "empty": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_text("no table"),
    "one bit flipped": one_bit_flipped,
    "foreign": lambda path: rewritten(path, pa.table({"a": [1]})),
    "without ids": lambda path: rewritten(path, pq.read_table(path).drop_columns(["trial"])),
    "of an older version": lambda path: of_version(path, "0"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_part_that_cannot_be_read_is_named_set_aside_and_its_trials_train_again(
    copy, small, table, results, capsys, damage
):
    before, found = table(copy), results(copy)
    with_results = [p for p in parts(copy) if pq.read_table(p)["status"][0].as_py() == "ok"]
    lost = pq.read_table(with_results[1]).num_rows
    number = with_results[1].stem.split("-")[1]
    damage(with_results[1])
    (damaged,) = (copy / "trials").glob(f"part-{number}*")
    content = damaged.read_bytes()
    assert results(copy) == found - lost
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"rulesweep: {damaged} cannot be read, it is left out: ")
    assert run(small(), copy, inline=True).trained == lost
    (line,) = capsys.readouterr().err.splitlines()
    aside = copy / "damaged" / damaged.name
    assert line.startswith(f"rulesweep: {damaged} cannot be read, it is set aside in {aside}: ")
    assert aside.read_bytes() == content
    assert table(copy) == before
    assert capsys.readouterr().err == ""


def test_a_damaged_part_of_plans_is_written_again(copy, small, table):
    before, asked = table(copy), Store(copy).asked
    planned = [p for p in parts(copy) if pq.read_table(p)["status"][0].as_py() == "pending"]
    for path in planned:
        path.write_bytes(b"")
    assert table(copy) == []
    assert run(small(), copy, inline=True).trained == 0
    assert table(copy) == before
    assert Store(copy).asked == asked


def test_a_table_of_a_newer_version_is_named_and_never_trained_again(copy, small, capsys):
    of_version(parts(copy)[0], "17")
    every_result(copy)
    assert "table version 17, this rulesweep reads 1" in capsys.readouterr().err
    with pytest.raises(StoreError, match="version 17, this rulesweep reads 1; run the study with"):
        run(small(), copy, inline=True)


def test_parts_set_aside_never_take_each_others_place(copy, small):
    kept = set()
    for _ in range(3):
        path = parts(copy)[-1].with_name("part-00000001.parquet")
        path.write_bytes(f"damaged {len(kept)}".encode())
        kept.add(path.read_bytes())
        run(small(), copy, inline=True)
        assert {path.read_bytes() for path in (copy / "damaged").iterdir()} == kept


def test_a_column_that_an_older_table_lacks_is_null(copy, results):
    found = results(copy)
    for path in parts(copy):
        rewritten(path, pq.read_table(path).drop_columns(["revision"]))
    assert results(copy) == found
    assert set(trials(copy)["revision"].to_pylist()) == {None}


def test_settings_that_an_older_table_does_not_tell_were_at_their_defaults(copy):
    later = ["optimizer", "schedule", "warmup"]
    before = trials(copy).select(later)
    for path in parts(copy):
        rewritten(path, pq.read_table(path).drop_columns(later))
    assert trials(copy).select(later).equals(before)
    assert set(before["optimizer"].to_pylist()) == {"sgd"}


def test_the_newest_result_of_a_trial_counts(tmp_path):
    added(tmp_path, result("a", 1.0), result("b", 5.0))
    added(tmp_path, result("a", 2.0))
    store = added(tmp_path, result("c", 7.0), result("c", 8.0, "failed"))
    losses = {"a": 2.0, "b": 5.0, "c": 8.0}
    for answers in (store.answers, Store(tmp_path).answers):
        assert {t: answer["validation_loss"] for t, answer in answers.items()} == losses
        assert answers["c"]["status"] == "failed"
    (tmp_path / "resolved.json").write_text('{"study_id": "any"}')
    found = every_result(tmp_path).select(["trial", "validation_loss"]).to_pylist()
    assert {row["trial"]: row["validation_loss"] for row in found} == losses
    assert len(found) == 3


def test_compaction_keeps_every_result_and_every_plan(copy, small, table, monkeypatch):
    another = small(name="another", grid={"depth": 3, "width": 4, "seeds": 1})
    run(another, copy, inline=True)
    run(small(), copy, inline=True)
    before, found = table(copy), every_result(copy).sort_by("trial")
    store, asked = Store(copy), Store(copy).asked
    monkeypatch.setattr("orchestrator.store.PARTS", len(parts(copy)) + 1)
    outdated = found.slice(0, 1).to_pylist()[0] | {"test_loss": -1.0}
    store.append(table_of([outdated]))
    store.append(found.slice(0, 1))
    compact = Store(copy, owner=True)
    assert len(parts(copy)) == 1
    assert compact.answers == Store(copy).answers == store.answers
    assert compact.asked == Store(copy).asked == asked
    assert table(copy) == before
    assert every_result(copy).sort_by("trial").equals(found)
    assert run(small(), copy, inline=True).trained == 0
    assert run(another, copy, inline=True).trained == 0


def test_a_compaction_that_was_killed_before_it_removed_the_old_parts_does_no_harm(
    copy, table, tmp_path, monkeypatch
):
    before, old = table(copy), Path(shutil.copytree(copy / "trials", tmp_path / "old"))
    monkeypatch.setattr("orchestrator.store.PARTS", len(parts(copy)) - 1)
    Store(copy, owner=True)
    assert len(parts(copy)) == 1
    for path in list(old.iterdir())[::2]:
        shutil.copy(path, copy / "trials")
    assert table(copy) == before


def test_a_few_parts_are_left_as_they_are(copy):
    before = parts(copy)
    Store(copy, owner=True)
    assert parts(copy) == before


def test_a_run_merges_its_small_parts_as_it_goes(small, train, table, monkeypatch, tmp_path):
    train(small(), usual := tmp_path / "usual")
    written = len(parts(usual))
    monkeypatch.setattr("orchestrator.store.PARTS", 3)
    train(small(), merged := tmp_path / "merged")
    assert len(parts(merged)) <= 3 < written
    assert table(merged) == table(usual)
    before = parts(merged)
    assert run(small(), merged, inline=True).trained == 0
    assert parts(merged) == before


def test_the_newest_result_counts_also_where_it_stands_in_a_large_part(tmp_path, monkeypatch):
    monkeypatch.setattr("orchestrator.store.SMALL", 2)
    for rows in ([result("a", 1.0, "failed")], [result("a", 2.0), result("b", 3.0)]):
        added(tmp_path, *rows)
    added(tmp_path, result("c", 4.0))
    monkeypatch.setattr("orchestrator.store.PARTS", 1)
    Store(tmp_path, owner=True)
    assert len(parts(tmp_path)) < 3
    assert Store(tmp_path).answers["a"]["status"] == "ok"


def test_a_large_part_is_never_merged(tmp_path, monkeypatch):
    monkeypatch.setattr("orchestrator.store.PARTS", 3)
    monkeypatch.setattr("orchestrator.store.SMALL", 2)
    store = Store(tmp_path)
    for i in range(8):
        store.add(table_of([result(f"{i} {j}", 1.0) for j in range(2)]))
    assert len(parts(tmp_path)) == 8


def test_a_reader_sees_every_row_while_parts_are_merged(tmp_path, monkeypatch):
    monkeypatch.setattr("orchestrator.store.PARTS", 2)
    (tmp_path / "resolved.json").write_text('{"study_id": "any"}')
    written = [0]

    def write():
        store = Store(tmp_path)
        for i in range(150):
            store.add(table_of([result(str(i), float(i))]))
            written[0] = i + 1

    writer = Thread(target=write)
    writer.start()
    readings = 0
    while writer.is_alive() or not readings:
        least, found = written[0], every_result(tmp_path)
        assert found.num_rows >= least
        assert {*found["trial"].to_pylist()} == {str(i) for i in range(found.num_rows)}
        readings += 1
    writer.join()
    assert every_result(tmp_path).num_rows == 150


def test_some_columns_of_the_table_are_those_of_the_whole(finished):
    some = ["test_accuracy", "status", "alignment", "lr"]
    assert trials(finished, some).equals(trials(finished).select(some))
    whole = every_result(finished).select(["trial", "test_loss"])
    assert every_result(finished, ["test_loss"]).select(["trial", "test_loss"]).equals(whole)


def test_a_part_that_is_a_link_to_nowhere_is_set_aside(copy, small, table, capsys):
    before, [path, *_] = table(copy), results_of(copy)
    path.unlink()
    path.symlink_to("nowhere.parquet")
    assert len(table(copy)) == len(before)
    assert f"{path} cannot be read, it is left out" in capsys.readouterr().err
    assert run(small(), copy, inline=True).trained > 0
    assert (copy / "damaged" / path.name).is_symlink()
    assert table(copy) == before


def test_damage_is_seen_in_every_column_of_a_part_that_does_not_tell_its_hash(copy, small, table):
    before, path = table(copy), results_of(copy)[0]
    content = bytearray(path.read_bytes())
    chunk = pq.ParquetFile(path).metadata.row_group(0).column(SCHEMA.get_field_index("test_loss"))
    content[chunk.data_page_offset : chunk.data_page_offset + 8] = b"\xff" * 8
    path.write_bytes(content)
    path.rename(path.with_name("-".join(path.stem.split("-")[:2]) + ".parquet"))
    assert run(small(), copy, inline=True).trained > 0
    assert len(list((copy / "damaged").iterdir())) == 1
    assert table(copy) == before


def test_what_is_wanted_and_not_trained_is_pending(small, tmp_path, train, table):
    train(small())
    for path in parts(tmp_path / "run"):
        if pq.read_table(path)["phase"][0].as_py() is None:  # results
            path.unlink()
    rows = trials(tmp_path / "run").to_pylist()
    assert len(rows) == 4 * (6 + 2)
    assert {row["status"] for row in rows} == {"pending"}
    null = {name for row in rows for name in named("result", "provenance") if row[name] is not None}
    assert null == {"status"}
    assert all(row["depth"] in (1, 2) and row["width"] == 8 for row in rows)


def test_a_plan_row_gives_way_once_its_rate_is_known(finished):
    rows = trials(finished).to_pylist()
    assert len(rows) == 4 * (6 + 2)
    assert all(row["lr"] is not None and row["trial"] is not None for row in rows)
    assert len({(r["trial"], r["label"]) for r in rows}) == len(rows)


def test_rows_stand_in_the_order_of_the_study_whoever_wrote_them(finished, small, tmp_path):
    wanted = [w for campaign in campaigns(expand(small())) for w in campaign.outline()]
    order = [
        (*w.trial.cell.place, w.phase, w.round, w.point, w.trial.init_seed, w.trial.feedback_seed)
        for w in wanted
    ]
    columns = ["label", *AXES, "phase", "round", "point", "init_seed", "feedback_seed"]
    assert [tuple(row.values()) for row in trials(finished, columns).to_pylist()] == order
    rows = pa.concat_tables(pq.read_table(path) for path in parts(finished))
    Store(tmp_path).append(rows.take(list(range(rows.num_rows))[::-1]))
    shutil.copy(finished / "resolved.json", tmp_path)
    assert trials(tmp_path).equals(trials(finished))


def test_an_exported_parquet_file_is_the_table(finished, tmp_path):
    path = tmp_path / "all.parquet"
    assert export(finished, path, "parquet") == 32
    assert pq.read_table(path).equals(trials(finished))


def test_an_exported_csv_file_holds_every_value_exactly(finished, tmp_path):
    path = tmp_path / "all.csv"
    assert export(finished, path, "csv") == 32
    lists = [field.name for field in SCHEMA if pa.types.is_list(field.type)]
    types = {f.name: pa.string() if f.name in lists else f.type for f in SCHEMA}
    options = pacsv.ConvertOptions(
        column_types=types, strings_can_be_null=True, quoted_strings_can_be_null=False
    )
    parsing = pacsv.ParseOptions(newlines_in_values=True)
    read = pacsv.read_csv(path, parse_options=parsing, convert_options=options)
    expected = trials(finished)
    assert read.column_names == expected.column_names
    for name in read.column_names:
        values = read[name].to_pylist()
        if name in lists:
            values = [None if value is None else json.loads(value) for value in values]
        assert repr(values) == repr(expected[name].to_pylist()), name


def test_exporting_everything_includes_what_the_current_study_does_not_want(copy, small, tmp_path):
    run(small(grid={"depth": [1, 2], "width": 8, "seeds": 1}), copy, inline=True)
    assert export(copy, tmp_path / "now.csv", "csv") == 4 * (6 + 1)
    assert export(copy, tmp_path / "all.csv", "csv", everything=True) == 32


@pytest.mark.parametrize("read", [trials, verify])
def test_a_folder_without_a_run_is_refused(tmp_path, read):
    with pytest.raises(StoreError, match="is no run folder: there is no resolved"):
        read(tmp_path)


@pytest.mark.parametrize("content", ["", "[1]", "{}", "{", "\0"])
def test_a_damaged_description_of_a_run_is_named(copy, content):
    (copy / "resolved.json").write_text(content)
    with pytest.raises(StoreError, match=r"resolved.json cannot be read: .*; run the study again"):
        trials(copy)


def test_rows_survive_the_way_from_a_worker(finished):
    rows = trials(finished)
    assert from_blob(to_blob(rows)).equals(rows)
    assert from_blob(to_blob(rows)).schema.metadata == SCHEMA.metadata


def test_every_column_says_what_it_means():
    assert len({column.name for column in COLUMNS}) == len(COLUMNS)
    for column in COLUMNS:
        assert column.kind in ("coordinate", "result", "provenance", "plan")
        assert column.meaning


def test_a_table_of_version_1_can_be_read_for_ever(tmp_path):
    (tmp_path / "trials").mkdir()
    shutil.copy(GOLDEN, tmp_path / "trials" / "part-00000001.parquet")
    (tmp_path / "resolved.json").write_text('{"study_id": "golden"}')
    rows = {row["trial"]: row for row in trials(tmp_path).to_pylist()}
    assert {trial: row["status"] for trial, row in rows.items()} == {
        "0000000000000001": "ok",
        "0000000000000002": "diverged",
        "0000000000000003": "failed",
        "0000000000000004": "pending",
    }
    first = rows["0000000000000001"]
    assert (first["label"], first["phase"], first["lr"]) == ("feedback alignment", "evaluate", 0.03)
    assert (first["depth"], first["residual"], first["init_seed"]) == (2, False, 7)
    assert json.loads(first["hyperparameters"]) == {"lr": 0.03, "scale": 0.5}
    assert (first["test_loss"], first["alignment"]) == (0.125, [0.5, 0.25])
    assert first["curve_alignment"] == [[0.0, 0.0], [0.5, 0.25]]
    assert math.isnan(rows["0000000000000002"]["curve_train_loss"][1])
    assert rows["0000000000000003"]["error"].endswith("ValueError: no")
    assert Store(tmp_path).asked == {"c": {0: [{"lr": 0.03, "scale": 0.5}]}}


def test_columns_keep_the_types_that_version_1_gave_them():
    golden = pq.read_table(GOLDEN).schema
    assert golden.metadata == {b"rulesweep.table": b"1"}
    assert [field.type for field in golden] == [SCHEMA.field(f.name).type for f in golden]
