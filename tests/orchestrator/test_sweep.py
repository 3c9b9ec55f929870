import random
import shutil
from collections import Counter

import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator import verify
from orchestrator.campaign import campaigns
from orchestrator.folder import describe, study_id
from orchestrator.grid import expand
from orchestrator.store import Store, trials
from orchestrator.sweep import Pump, run_inline
from orchestrator.worker import Worker


def pumping(study, folder, workers=1):
    """A pump on the table of a folder, as `run` makes it."""
    folder.mkdir(exist_ok=True)
    grid = expand(study)
    describe(folder, grid, None, [])
    pump = Pump(grid, Store(folder), study_id(grid))
    pump.workers = workers
    return pump


def working(pump):
    return Worker(pump.grid.data, pump.grid.study.resources.cpus).train_pack


def several(values, most):
    return st.lists(values, min_size=1, max_size=most, unique=True)


studies = st.fixed_dictionaries(
    {
        "rules": several(st.sampled_from(["bp", "fa", "dfa", "sdil"]), 3),
        "grid": st.fixed_dictionaries(
            {
                "depth": several(st.integers(1, 9), 3),
                "width": several(st.integers(1, 9), 2),
                "seeds": st.integers(1, 9)
                | st.fixed_dictionaries({"init": st.integers(1, 3), "feedback": st.integers(1, 3)}),
            }
        ),
        "search": st.fixed_dictionaries(
            {
                "lr": st.sampled_from([0.1, {"low": 0.01, "high": 1.0}]),
                "points": st.integers(2, 6),
                "seeds": st.integers(1, 4),
                "per": st.sampled_from(["cell", "rule", ["depth"]]),
            }
        ),
        "resources": st.fixed_dictionaries({"replicas": st.just("auto") | st.integers(1, 9)}),
    }
)


@settings(max_examples=15)
@given(studies, st.integers(1, 12))
def test_packs_partition_what_is_wanted_never_mix_cells_and_keep_the_limit(
    tmp_path_factory, small, parts, workers
):
    study = small(**parts)
    pump = pumping(study, tmp_path_factory.mktemp("law"), workers)
    packs = []
    while (pack := pump.take()) is not None:
        packs.append(pack)
    handed = [trial.id for pack in packs for trial in pack.trials]
    wanted = [w.trial.id for campaign in campaigns(pump.grid) for w in next(campaign.run({}))]
    assert sorted(handed) == sorted(set(wanted))
    limit = study.resources.replicas
    assert all(len(pack.trials) <= (64 if limit == "auto" else limit) for pack in packs)
    assert all(len({trial.cell for trial in pack.trials}) == 1 for pack in packs)
    assert not pump.finished


@settings(max_examples=6)
@given(studies)
def test_a_lone_worker_is_given_the_costliest_pack_first(tmp_path_factory, small, parts):
    pump = pumping(small(**parts), tmp_path_factory.mktemp("order"))
    costs = []
    while (pack := pump.take()) is not None:
        costs.append(pack.cost)
    assert costs == sorted(costs, reverse=True)


ONE_CELL = {
    "rules": ["fa"],
    "grid": {"depth": 1, "width": 4, "seeds": 8},
    "search": {"lr": 0.1},
}


@pytest.mark.parametrize(("workers", "sizes"), [(1, [8]), (2, [4, 4]), (4, [2, 2, 2, 2])])
def test_packs_are_split_where_workers_would_idle(small, tmp_path, workers, sizes):
    pump = pumping(small(**ONE_CELL), tmp_path / "run", workers)
    packs = [pump.take() for _ in range(workers)]
    assert [len(pack.trials) for pack in packs] == sizes
    assert pump.take() is None


def test_a_pack_holds_at_most_as_many_networks_as_the_study_says(small, tmp_path):
    pump = pumping(small(**ONE_CELL, resources={"replicas": 3}), tmp_path / "run")
    assert [len(pump.take().trials) for _ in range(3)] == [3, 3, 2]
    assert pump.take() is None


def test_more_workers_than_networks_are_given_one_each(small, tmp_path):
    pump = pumping(small(**ONE_CELL), tmp_path / "run", workers=20)
    assert [len(pump.take().trials) for _ in range(8)] == [1] * 8
    assert pump.take() is None


def test_what_is_wanted_is_on_the_disk_before_any_of_it_trains(small, tmp_path):
    pump = pumping(small(), tmp_path / "run")
    assert trials(tmp_path / "run").num_rows == 0
    pump.take()
    rows = trials(tmp_path / "run").to_pylist()
    assert Counter((row["phase"], row["status"]) for row in rows) == {
        ("tune", "pending"): 24,
        ("evaluate", "pending"): 8,
    }
    known = [row for row in rows if row["trial"] is not None]
    assert {(row["phase"], row["round"]) for row in known} == {("tune", 0)}
    assert len(known) == 12


def test_a_lost_pack_comes_back_in_halves(small, tmp_path):
    pump = pumping(small(**ONE_CELL), tmp_path / "run")
    whole = pump.take()
    pump.give(whole, None)
    first, second = pump.take(), pump.take()
    assert first.trials + second.trials == whole.trials
    assert [len(first.trials), len(second.trials)] == [4, 4]
    assert (whole.attempts, first.attempts, second.attempts) == (1, 2, 2)
    assert pump.take() is None


def test_a_lost_node_counts_against_no_network(small, tmp_path, table):
    study = small(**ONE_CELL)
    pump = pumping(study, tmp_path / "run")
    train, lost = working(pump), 0
    while (pack := pump.take()) is not None:
        if lost < 5:
            pump.put_back(pack)
            lost += 1
            sizes = len(pack.trials)
        else:
            assert len(pack.trials) == sizes
            pump.give(pack, train(pack.as_dict()))
    run_inline(undisturbed := pumping(study, tmp_path / "undisturbed"), train)
    assert (pump.finished, undisturbed.finished) == (True, True)
    assert table(tmp_path / "run") == table(tmp_path / "undisturbed")
    assert {row["attempts"] for row in trials(tmp_path / "run").to_pylist()} == {6}


def test_a_network_that_takes_three_workers_with_it_is_a_failed_row(small, tmp_path, table):
    study = small(**ONE_CELL)
    pump = pumping(study, tmp_path / "run")
    train, deaths = working(pump), 0
    while (pack := pump.take()) is not None:
        if any(trial.init_seed == 5 for trial in pack.trials):
            deaths += len(pack.trials) == 1
            pump.give(pack, None)
        else:
            pump.give(pack, train(pack.as_dict()))
    assert pump.finished
    assert deaths == 3
    rows = {row["init_seed"]: row for row in trials(tmp_path / "run").to_pylist()}
    assert {seed: row["status"] for seed, row in rows.items()} == {
        seed: "failed" if seed == 5 else "ok" for seed in range(8)
    }
    assert "the worker died 3 times" in rows[5]["error"]
    undisturbed = pumping(study, tmp_path / "undisturbed")
    run_inline(undisturbed, train)
    healthy = [row for row in table(tmp_path / "undisturbed") if row["init_seed"] != "5"]
    assert [row for row in table(tmp_path / "run") if row["init_seed"] != "5"] == healthy


@pytest.mark.parametrize("seed", range(2))
def test_what_comes_back_first_or_is_lost_does_not_change_the_table(
    small, tmp_path, table, finished, seed
):
    pump = pumping(small(), tmp_path / "run", workers=3)
    train, chance, out = working(pump), random.Random(seed), []
    while not pump.finished:
        pack = pump.take() if len(out) < 3 else None
        if pack is not None:
            out.append(pack)
            continue
        pack = out.pop(chance.randrange(len(out)))
        lost = pack.attempts < 3 and chance.random() < 0.3
        pump.give(pack, None if lost else train(pack.as_dict()))
    assert max(trials(tmp_path / "run")["attempts"].to_pylist()) > 1
    assert table(tmp_path / "run") == table(finished)


def test_an_observer_hears_of_every_network_once(small, tmp_path):
    pump, heard = pumping(small(), tmp_path / "run"), []
    pump.observe = heard.append
    run_inline(pump, working(pump))
    ids = [trial.id for done in heard for trial in done.pack.trials]
    assert sorted(ids) == sorted(trials(tmp_path / "run")["trial"].to_pylist())
    assert Counter(s for done in heard for s in done.statuses) == {"ok": 32}
    assert pump.missing == 0


def test_a_rule_under_two_labels_trains_once(small, train, table, results, tmp_path):
    rules = ["fa", {"name": "fa", "label": "again"}]
    result = train(small(rules=rules))
    assert (result.exit_code, result.wanted) == (0, 32)
    assert results(tmp_path / "run") == 16
    rows = table(tmp_path / "run")
    plain = [{k: v for k, v in r.items() if k != "label"} for r in rows]
    assert [r for r in plain if plain.count(r) != 2] == []


def test_a_range_so_narrow_that_its_points_are_one_is_no_trouble(small, train, tmp_path, table):
    study = small(search={"lr": {"low": 0.1, "high": 0.10000001}, "points": 3, "seeds": 1})
    assert train(study).exit_code == 0
    before = table(tmp_path / "run")
    for path in (tmp_path / "run" / "trials").iterdir():
        rows = pq.read_table(path).to_pylist()
        if rows[0]["status"] == "ok" and rows[0]["init_seed"] >= 1_000_000:
            path.unlink()
    again = train(study)
    assert (again.exit_code, again.interrupted) == (0, False)
    assert table(tmp_path / "run") == before


EXTENSIONS = {
    "more seeds": ({"grid": {"depth": [1, 2], "width": 8, "seeds": 4}}, 8),
    "fewer seeds": ({"grid": {"depth": [1, 2], "width": 8, "seeds": 1}}, 0),
    "another depth": ({"grid": {"depth": [1, 2, 3], "width": 8, "seeds": 2}}, 16),
    "another rule": ({"rules": ["bp", "dfa", "fa"]}, 16),
    "another label": ({"rules": ["bp", {"name": "fa", "label": "feedback alignment"}]}, 0),
    "another name": ({"name": "other"}, 0),
    "a declared comparison": ({"compare": {"pairs": [["fa", "bp"]]}}, 0),
    "other packs": ({"resources": {"replicas": 2}}, 0),
    "other measures": ({"measure": {"probes": False}}, 8),
}


@pytest.mark.parametrize("change", EXTENSIONS)
def test_an_extended_study_trains_the_new_networks_only(small, train, results, finished, change):
    parts, new = EXTENSIONS[change]
    shutil.copytree(finished, "run")
    before = results("run")
    assert train(small(**parts)).trained == new
    assert results("run") - before == new
    assert set(trials("run")["status"].to_pylist()) == {"ok"}
    assert trials("run").num_rows == len({*trials("run")["trial"].to_pylist()})


def test_a_study_that_grew_has_the_table_of_one_that_did_not(small, train, table, finished):
    shutil.copytree(finished, "run")
    grid, parts = {"depth": [1, 2], "width": 8, "seeds": 2}, {}
    for change in ({"depth": [3, 1, 2]}, {"seeds": 3}, {"rules": ["dfa", "bp"]}):
        grid |= {key: value for key, value in change.items() if key in grid}
        parts |= {key: value for key, value in change.items() if key not in grid}
        train(small(grid=grid, **parts))
    train(small(grid=grid, **parts), "at once")
    assert table("run") == table("at once")


def test_more_rounds_train_these_and_the_best_points_that_moved(small, train, table):
    def rows_of(rounds, folder="run"):
        search = {"lr": {"low": 0.01, "high": 1.0}, "points": 3, "seeds": 1, "rounds": rounds}
        trained = train(small(search=search), folder).trained
        rows = trials(folder).to_pylist()
        best = {(r["label"], r["depth"]): r["lr"] for r in rows if r["phase"] == "evaluate"}
        return trained, best

    _, before = rows_of(1)
    trained, after = rows_of(3)
    moved = sum(before[cell] != lr for cell, lr in after.items())
    assert moved > 0
    assert trained == 4 * 2 * 3 + 2 * moved
    rows_of(3, "at once")
    assert table("run") == table("at once")


EXACT = torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")


@pytest.mark.skipif(not EXACT, reason="bit for bit on CPUs with AVX2")
def test_a_network_does_not_depend_on_its_pack(small, train, table, statuses, tmp_path):
    def trained(folder, replicas):
        study = small(
            rules=["dfa", {"name": "sdil", "search": {"eta_A": {"low": 0.1, "high": 1}}}],
            network={"activation": "relu"},
            training={"steps": 12, "batch_size": 13, "record": 3},
            grid={"depth": [1, 3], "width": 7, "seeds": {"init": 2, "feedback": 2}},
            search={"lr": {"low": 0.01, "high": 1e4}, "points": 4, "rounds": 2, "seeds": 1},
            resources={"replicas": replicas},
        )
        train(study, folder)
        return table(tmp_path / folder)

    whole = trained("auto", "auto")
    assert set(statuses(tmp_path / "auto")) == {"ok", "diverged"}
    assert trained("alone", 1) == whole
    assert trained("threes", 3) == whole
    sizes = [{*trials(tmp_path / f)["pack_size"].to_pylist()} for f in ("auto", "alone", "threes")]
    assert sizes == [{4}, {1}, {2}]
    assert {v.verdict for v in verify(tmp_path / "threes", sample=10)} == {"exact"}
