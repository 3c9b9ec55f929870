import csv
import re
import shutil
import subprocess
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import typer.main

from orchestrator import run
from orchestrator.cli import app
from orchestrator.store import trials
from orchestrator.yaml_file import write


@pytest.fixture
def study(tmp_path, mapping):
    """Writes the small study, with some of its parts replaced, into study.yaml."""

    def written(**parts):
        path = tmp_path / "study.yaml"
        path.write_text(write(mapping(**parts)))
        return path.name

    return written


@pytest.fixture
def copy(finished):
    """The finished run as the folder `run`."""
    return Path(shutil.copytree(finished, "run"))


def refused(done, *pieces):
    assert done.code == 2
    assert done.out == ""
    (line,) = done.err.splitlines()
    assert line.startswith("error: ")
    for piece in pieces:
        assert piece in line


AXES = {"depth": [1, 2], "width": 8, "seeds": 2}
SEARCH = {"lr": {"low": 0.01, "high": 1.0}, "points": 3, "seeds": 1}

HOSTILE = {
    "a key with a typing error": (
        {"grid": {"dept": [2], "depth": 1, "width": 8, "seeds": 2}},
        ['grid.dept: unknown key; did you mean "depth"?'],
    ),
    "a rule with a typing error": (
        {"rules": ["bp", "sdi"]},
        ['no rule "sdi"; did you mean "sdil"?'],
    ),
    "a range upside down": (
        {"search": SEARCH | {"lr": {"low": 1, "high": 0.1}}},
        ["search.lr.high: should be more than low, 1; got 0.1"],
    ),
    "seeds that choose and report": (
        {"search": SEARCH | {"seeds": [0, 7]}},
        ["search.seeds: tuning and evaluation share [0]; seeds that choose must not report"],
    ),
    "no units": (
        {"grid": AXES | {"width": 0}},
        ["grid.width: should be at least 1; got 0"],
    ),
    "an unknown data set": (
        {"task": {"dataset": "minst-1d"}},
        ["no data set 'minst-1d'; did you mean 'mnist-1d'?"],
    ),
    "an unknown option of a data set": (
        {"task": {"dataset": "teacher", "sample": 3}},
        ["teacher has no option 'sample'; did you mean 'samples'?"],
    ),
    "an unknown option of a rule": (
        {"rules": [{"name": "sdil", "options": {"pert_evry": 4}}]},
        ['rule "sdil" has no option "pert_evry"; did you mean "pert_every"?'],
    ),
    "an option of the wrong type": (
        {"rules": [{"name": "sdil", "options": {"pert_every": 1.5}}]},
        ['option "pert_every" of rule "sdil" is 1.5; it takes a int'],
    ),
    "a rule of one's own that is not there": (
        {"rules": ["my_rules.hebb:Hebb"]},
        ['rule "my_rules.hebb:Hebb" cannot be imported: ', "No module named 'my_rules'"],
    ),
    "something that is no rule": (
        {"rules": ["pathlib:Path"]},
        ['"pathlib:Path" is no rule: a rule is a frozen dataclass with '],
    ),
    "a name that leads out of the folder": (
        {"name": "../../etc"},
        ["name: should be letters, digits, - _ . "],
    ),
    "a comparison with nobody": (
        {"compare": {"pairs": [["fa", "pb"]]}},
        ['compare.pairs.0.1: no rule has the label "pb"; did you mean "bp"?'],
    ),
}


@pytest.mark.parametrize("first", ["run", "plan"])
@pytest.mark.parametrize("case", HOSTILE)
def test_a_study_that_cannot_run_is_one_clear_line_and_nothing_is_written(
    study, command, files, tmp_path, first, case
):
    parts, pieces = HOSTILE[case]
    words = [first, study(**parts), *(["--inline"] if first == "run" else [])]
    before = files(tmp_path)
    refused(command(*words), *pieces)
    assert files(tmp_path) == before


@pytest.mark.parametrize(
    ("override", "piece"),
    [
        ("grid.sedes=3", 'grid.sedes: unknown key; did you mean "seeds"?'),
        ("gird.seeds=3", 'gird: unknown key; did you mean "grid"?'),
        ("grid.seeds", '--set "grid.seeds": should look like grid.seeds=3'),
        ("rules.7.label=x", "--set rules.7: rules is a list of 2, counted from 0"),
        ("grid.depth=[1", "--set grid.depth, line 1, column 3: "),
    ],
)
def test_an_override_that_cannot_be_is_one_clear_line(study, command, override, piece):
    refused(command("run", study(), "--inline", "--set", override), piece)
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("text", "piece"),
    [
        ("name: cut\ngrid: {depth: [1, 2", "study.yaml, line 2, column 20: "),
        ("", "study.yaml: is empty"),
        ("- bp", "study.yaml: holds ['bp']; a study is a mapping"),
    ],
)
def test_a_file_that_is_no_study_is_one_clear_line(command, text, piece):
    Path("study.yaml").write_text(text)
    refused(command("run", "study.yaml"), piece)
    assert not Path("runs").exists()


def test_a_study_file_that_is_not_there_names_the_nearest(study, command):
    study()
    refused(command("run", "stduy.yaml"), 'stduy.yaml: no such file; did you mean "study.yaml"?')
    refused(command("plan", "nowhere/at/all.yaml"), "nowhere/at/all.yaml: no such file")


@pytest.mark.parametrize("folder", ["taken", "taken/below", "/proc/nowhere/run"])
def test_a_run_folder_that_cannot_be_written_is_one_clear_line(study, command, folder):
    Path("taken").write_text("a file")
    done = command("run", study(), "--inline", "--out", folder)
    refused(done, f"run folder {folder} cannot be written: ", "give another with --out")


@pytest.mark.parametrize("first", ["status", "figures", "export", "verify"])
@pytest.mark.parametrize("folder", ["nowhere", "empty", "taken"])
def test_a_folder_that_holds_no_run_is_one_clear_line(command, files, tmp_path, first, folder):
    Path("empty").mkdir()
    Path("taken").write_text("a file")
    before = files(tmp_path)
    refused(command(first, folder), folder)
    if first == "export":
        refused(command(first, folder, "--all"), folder)
    assert files(tmp_path) == before


def test_an_export_that_cannot_be_written_is_one_clear_line(copy, command):
    done = command("export", copy, "--out", "nowhere/table.csv")
    refused(done, "nowhere/table.csv cannot be written: ")


def test_an_unknown_rule_or_row_is_one_clear_line(copy, command):
    refused(command("rules", "sdi"), 'no rule "sdi"; did you mean "sdil"?')
    refused(command("verify", copy, "--trial", "0000"), "0000")
    refused(command("datasets", "fetch", "minst-1d"), "did you mean 'mnist-1d'?")


@pytest.mark.parametrize(
    "words",
    [
        ["sweep"],
        ["run"],
        ["run", "study.yaml", "--depth", "3"],
        ["run", "study.yaml", "--workers", "0"],
        ["run", "study.yaml", "--workers", "many"],
        ["export", "run", "--format", "xml"],
        ["verify", "run", "--sample", "0"],
    ],
    ids=" ".join,
)
def test_what_is_no_command_is_refused_with_the_usage(command, words):
    done = command(*words)
    assert done.code == 2
    assert "Usage: rulesweep" in done.err
    assert "Traceback" not in done.err
    assert list(Path().iterdir()) == []


def commands(group, *above):
    for name, found in group.commands.items():
        yield (*above, name)
        if hasattr(found, "commands"):
            yield from commands(found, *above, name)


@pytest.mark.parametrize("words", [*commands(typer.main.get_command(app))], ids=" ".join)
def test_every_command_explains_itself_with_an_example(command, words):
    done = command(*words, "--help")
    assert done.code == 0
    assert f"Example: rulesweep {' '.join(words)}" in done.out
    assert command(*words, "-h").out == done.out


def test_the_commands_are_listed(command):
    done = command("--help")
    assert done.code == 0
    for name in (
        "run",
        "plan",
        "status",
        "figures",
        "export",
        "verify",
        "rules",
        "datasets",
        "merge",
        "cluster",
        "submit",
        "jobs",
        "stop",
        "fetch",
    ):
        assert re.search(rf"^\W*{name}\b", done.out, re.MULTILINE)


def test_a_run_tells_how_it_goes_and_ends_with_figures_and_a_summary(study, command):
    path = study(rules=["bp"], search={"lr": 0.1})
    done = command("run", path, "--inline", "--set", "grid.seeds=3")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0] == "0 networks in the table, 6 to train"
    assert lines[1].startswith("[3/6] bp evaluate depth 2 width 8 teacher: 3 ok in ")
    assert lines[2].startswith("[6/6] bp evaluate depth 1 width 8 teacher: 3 ok in ")
    assert lines[3] == (
        "runs/small: 6 networks, 0 were in the table, 6 trained now, 0 diverged, 0 failed"
    )
    drawn = [line.removeprefix("figure ") for line in lines if line.startswith("figure ")]
    assert "runs/small/figures/accuracy_vs_depth.png" in drawn
    assert all(Path(figure).stat().st_size > 1000 for figure in drawn)
    assert re.search(r"^bp .* n=3 ", done.out, re.MULTILINE)
    again = command("run", path, "--inline", "--set", "grid.seeds=3")
    assert again.code == 0
    assert "6 were in the table, 0 trained now" in again.out
    assert "nothing to train; figures: runs/small/figures" in again.out
    shutil.rmtree("runs/small/figures")
    redrawn = command("figures", "runs/small")
    assert redrawn.code == 0
    assert redrawn.out.splitlines() == lines[4:]
    assert all(Path(figure).exists() for figure in drawn)


def test_a_run_all_of_whose_networks_fail_ends_with_1_and_says_why(study, command, own_rule):
    path = study(
        rules=[own_rule("hopeless", "if trace.step > 2:\n    raise ValueError('no hope')")]
    )
    done = command("run", path, "--inline", "--out", "run")
    assert (done.code, done.err) == (1, "")
    assert "failed: ValueError: no hope" in done.out
    assert "own: every point of a campaign failed, so it was not evaluated; " in done.out
    assert "see rulesweep status run --failed" in done.out
    assert re.search(r"^own +pending +pending", done.out, re.MULTILINE)
    short, whole = command("status", "run"), command("status", "run", "--failed")
    assert (short.code, whole.code) == (0, 0)
    assert "Traceback" not in short.out
    assert "ValueError: no hope" in short.out
    assert whole.out.count("Traceback (most recent call last)") == 6
    (trial, *_) = re.findall("rulesweep verify run --trial (.*)", whole.out)
    assert trial in trials("run")["trial"].to_pylist()
    assert command("verify", "run", "--trial", trial).code == 0


def test_a_plan_counts_what_is_missing(study, copy, command, files):
    before = files(copy)
    new = command("plan", study())
    assert (new.code, new.err) == (0, "")
    assert re.search(r"^bp +tune +12 +0 +12", new.out, re.MULTILINE)
    assert re.search(r"^32 networks to train, about .* on \d+ workers", new.out, re.MULTILINE)
    done = command("plan", study(), "--out", copy, "--set", "grid.seeds=3", "--no-timing")
    assert re.search(r"^fa +evaluate +6 +4 +2", done.out, re.MULTILINE)
    assert done.out.endswith("\n4 networks to train\n")
    assert files(copy) == before
    assert not Path("runs").exists()


def test_the_status_tells_counts_and_rates(copy, command):
    done = command("status", copy)
    assert (done.code, done.err) == (0, "")
    assert "study small in run" in done.out
    assert re.search(r"^bp +tune +12 +0 +0 +0", done.out, re.MULTILINE)
    assert re.search(r"^fa +evaluate +4 +0 +0 +0", done.out, re.MULTILINE)
    for row in trials(copy).to_pylist():
        if row["phase"] == "evaluate":
            rate = f"{row['lr']:.3g}"
            pattern = rf"^{row['label']} +teacher +{row['depth']} +8 +tanh +False +{rate}\b"
            assert re.search(pattern, done.out, re.MULTILINE)


def test_the_status_counts_results_that_nobody_wants_any_more(copy, command, small):
    run(small(grid={"depth": [1, 2], "width": 8, "seeds": 1}), copy, inline=True)
    done = command("status", copy)
    assert "4 more results in the folder belong to no trial of the current study" in done.out


def test_a_table_is_exported(copy, command):
    done = command("export", copy)
    assert (done.code, done.out) == (0, "run/trials.csv: 32 rows\n")
    with Path("run/trials.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 32
    done = command("export", copy, "--format", "parquet", "--out", "here.parquet")
    assert (done.code, done.out) == (0, "here.parquet: 32 rows\n")
    assert pq.read_table("here.parquet").equals(trials(copy))


def test_rows_are_verified(copy, command):
    done = command("verify", copy, "--sample", "3")
    assert done.code == 0
    assert done.out.count(" on cpu: exact\n") == 3
    assert done.out.endswith("3 rows trained again, 0 different\n")
    for path in (copy / "trials").iterdir():
        rows = pq.read_table(path)
        place = rows.schema.get_field_index("train_loss")
        wrong = pc.multiply(rows["train_loss"], 1.5)
        changed = rows.set_column(place, "train_loss", wrong)
        pq.write_table(changed, path.with_name(path.name[:13] + ".parquet"))  # without a hash
        path.unlink()
    done = command("verify", copy, "--sample", "2")
    assert done.code == 1
    assert done.out.count("different (train_loss by 0.33)") == 2


def test_the_rules_are_listed_and_told(command, own_rule):
    done = command("rules")
    assert (done.code, done.err) == (0, "")
    for name in ("bp", "fa", "dfa", "sdil"):
        assert re.search(rf"^{name} ", done.out, re.MULTILINE)
    told = command("rules", "sdil")
    assert told.code == 0
    assert told.out.startswith("sdil (rules.sdil:SDIL, revision ")
    assert "A_l <- A_l + eta_A" in told.out
    assert "eta_A = 0.1" in told.out
    assert "may be searched; try eta_A: {low: 0.03, high: 0.3}" in told.out
    assert "in a network 40-64-64-64-64-64-64-10, 1.81 times bp's\n" in told.out
    assert '\n  Lansdell, Prakash, Kording, "Learning to solve the credit' in told.out
    assert "\n@inproceedings{lansdell2020learning,\n" in told.out
    own_rule("told")
    own = command("rules", "told:Own").out
    assert own.startswith("told:Own (told:Own, revision 1)")
    assert "sources" not in own


def test_a_rule_that_cannot_be_counted_is_told_all_the_same(command, own_rule):
    own_rule("uncounted")
    path = Path("uncounted.py")
    path.write_text(path.read_text() + "\n\nOwn.operations = lambda self, dims: dims.layers\n")
    told = command("rules", "uncounted:Own")
    assert (told.code, told.err) == (0, "")
    assert "a step: its cost is not known (AttributeError: 'Dims' object has no attr" in told.out


def test_the_data_sets_are_listed_and_fetched(command):
    done = command("datasets")
    assert (done.code, done.err) == (0, "")
    for name in ("mnist-1d", "digits", "teacher", "gaussian-regression", "fashion-mnist"):
        assert re.search(rf"^{name} ", done.out, re.MULTILINE)
    assert command("datasets", "fetch", "teacher").out == "teacher: ready\n"


def test_a_users_folder_cannot_stand_in_front_of_an_installed_package(program, study, tmp_path):
    for name in ("rules", "analysis", "torch", "yaml", "typing"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong module')")
    words = [program, "plan", study(), "--no-timing"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "32 networks to train" in done.stdout


def test_the_installed_command_refuses_in_one_line(program, study):
    words = [program, "run", study(rules=["sdi"]), "--inline"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        'error: no rule "sdi"; did you mean "sdil"? (or give your own as package.module:Class)\n'
    )


def test_a_package_that_another_distribution_owns_too_is_refused(command, tmp_path, monkeypatch):
    other = tmp_path / "site" / "other-1.0.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (other / "top_level.txt").write_text("analysis\n")
    monkeypatch.syspath_prepend(tmp_path / "site")
    done = command("rules")
    refused(done, "package 'analysis' belongs to ['other', 'rulesweep']; install rulesweep in an")
