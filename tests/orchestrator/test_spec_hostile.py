import pytest

from orchestrator.spec import StudyError, load_study, study_from

SMALL = """\
name: small
task: {dataset: mnist1d}
rules: [bp, {name: sdil, options: {pert_every: 4}}]
grid: {depth: [1, 2], width: 8, seeds: 2}
search: {lr: {low: 0.1, high: 1}, seeds: 2}
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "study.yaml").write_text(SMALL, encoding="utf-8")
    return tmp_path


def complaint(read, *arguments):
    with pytest.raises(StudyError) as refusal:
        read(*arguments)
    message = str(refusal.value)
    assert all(0 < len(line) <= 200 for line in message.split("\n"))
    return message


WRONG = [
    # unknown keys
    ("grid.dept=3", 'grid.dept: unknown key; did you mean "depth"?'),
    ("gird={}", 'gird: unknown key; did you mean "grid"?'),
    ("task.validaton=0.1", 'task.validaton: unknown key; did you mean "validation"?'),
    ("search.lr.hihg=3", 'search.lr.hihg: unknown key; did you mean "high"?'),
    ("rules.1.serach={}", 'rules.1.serach: unknown key; did you mean "search"?'),
    ("resources.x=1", "resources.x: unknown key; known here: cpus, gpus, replicas"),
    ("task.nested={a: 1}", "task.nested: unknown key; known here: dataset, options, validation, "
     "split_seed"),
    ("grid.width={match: {depth: 1}}", "grid.width.match_parameters: missing\n"
     "grid.width.match: unknown key; known here: match_parameters"),
    # numbers
    ("grid.depth=yes", "grid.depth: should be a whole number; got true"),
    ("grid.depth=[1, no]", "grid.depth.1: should be a whole number; got false"),
    ("grid.depth=2.0", "grid.depth: should be a whole number; got 2.0"),
    ('grid.depth="4"', 'grid.depth: should be a whole number; got "4"'),
    ("grid.depth=0", "grid.depth: should be at least 1; got 0"),
    ("grid.depth=99999999999", "grid.depth: should be at most 10000; got 99999999999"),
    ("grid.depth=[]", "grid.depth: should have at least one entry; got []"),
    ("grid.depth=[4, 2, 4]", "grid.depth: 4 is given twice"),
    ("grid.depth=0x10", '--set grid.depth, line 1, column 1: "0x10" is ambiguous; '
     "write it in decimal, or in quotes"),
    ("grid.seeds=-1", "grid.seeds: should be at least 1; got -1"),
    ("grid.seeds=1000000000", "grid.seeds: should be at most 100000; got 1000000000"),
    ("grid.seeds=[3, -1]", "grid.seeds.1: should be at least 0; got -1"),
    ("grid.seeds=[3, 3]", "grid.seeds: 3 is given twice"),
    ("grid.seeds={init: 3}", "grid.seeds.feedback: missing"),
    ("grid.seeds=ten", 'grid.seeds: should be a count, a list of seeds or '
     '{init: ..., feedback: ...}; got "ten"'),
    ("grid.seeds={init: 400, feedback: 251}", "grid.seeds: should be at most 100000 pairs; "
     "got 100400"),
    ("grid.width={match_parameters: {depth: 20000, width: 1}}",
     "grid.width.match_parameters.depth: should be at most 10000; got 20000"),
    ("grid={depth: [1, 2, 3], width: [4, 5], seeds: 100000}", "grid: should want at most 1000000 "
     "networks; got 1200000"),
    ("search.points=200000", "search: should want at most 1000000 networks; got 3200000"),
    ("search.rounds=2147483647", "search: should want at most 1000000 networks; "
     "got 154618822584"),
    ("search.lr={low: 1e-31, high: 1}", "search.lr: should lie within 1e-30 and 1e30; "
     "got 1e-31 to 1"),
    ("training.record=200000", "training.record: should be at most 100000; got 200000"),
    ("grid.width=[[8]]", "grid.width.0: should be a whole number; got [8]"),
    ("training.epochs=no", "training.epochs: should be a number; got false"),
    ("training.epochs=0", "training.epochs: should be more than 0; got 0"),
    ("training.momentum=1", "training.momentum: should be less than 1; got 1"),
    ("training.optimizer=adm", 'training.optimizer: should be "sgd" or "adam"; got "adm"; '
     'did you mean "adam"?'),
    ("training.schedule=cos", 'training.schedule: should be "constant", "linear" or "cosine"; '
     'got "cos"; did you mean "cosine"?'),
    ("training.warmup=100", "training.warmup: should be less than 1; got 100"),
    ("training.batch_size=ful", 'training.batch_size: should be "full"; got "ful"; '
     'did you mean "full"?'),
    ("training.record=[5, 3]", "training.record: should ascend; 3 comes after 5"),
    ("training={steps: 9, record: [10]}", "training.record: should end by the last step, 9; "
     "got 10"),
    ("training={steps: 9, epochs: 1}", "training: should say either epochs or steps, and not both"),
    ("task.validation=0.7", "task.validation: should be at most 0.5; got 0.7"),
    ("resources.gpus=1.5", "resources.gpus: should be a share of one GPU or a whole number up to "
     "1024; got 1.5"),
    ("resources.gpus=1e300", "resources.gpus: should be a share of one GPU or a whole number up to "
     "1024; got 1e+300"),
    ("resources.gpus=-1", "resources.gpus: should be at least 0; got -1"),
    ("search.lr=0", "search.lr: should be more than 0; got 0.0"),
    ("search.lr=[1]", "search.lr: should be a number or {low: ..., high: ...}; got [1]"),
    ("search.lr={low: 1, high: 0.1}", "search.lr.high: should be more than low, 1; got 0.1"),
    ("search.lr={low: 0, high: 1}", "search.lr.low: should be more than 0; got 0"),
    ("search.points=1", "search.points: should be at least 2; got 1"),
    ("search={sampler: grid, rounds: 2}", "search.rounds: should be 1 with sampler: grid; got 2"),
    # names
    ("network.activation=tahn", 'network.activation: should be "tanh", "relu" or "sigmoid"; '
     'got "tahn"; did you mean "tanh"?'),
    ("network.bias=1", "network.bias: should be true or false; got 1"),
    ("name=../up", "name: should be letters, digits, - _ . (at most 64, and no . first); "
     'got "../up"'),
    ("name=.hidden", "name: should be letters, digits, - _ . (at most 64, and no . first); "
     'got ".hidden"'),
    ("name=2026", "name: should be text; got 2026"),
    ("rules=bp", 'rules: should be a list; got "bp"'),
    ("rules=[]", "rules: should have at least one entry; got []"),
    ("rules.0=a/b", "rules.0.name: should be a rule's name or package.module:Class; got \"a/b\""),
    ('rules.0.label="b\\u200bp"', "rules.0.label: should be a line of 1 to 64 visible characters "
     'without blanks around it; got "b\\u200bp"'),
    ('rules.0.label="\\u202epb"', "rules.0.label: should be a line of 1 to 64 visible characters "
     'without blanks around it; got "\\u202epb"'),
    ('rules.0.label="\\udc80"', "--set rules.0.label, line 1, column 1: half of a character; "
     "write it whole, without \\u escapes"),
    ("rules=[bp, fa, bp]", 'rules.2: label "bp" is taken; give it another, as label: ...'),
    ("rules.1.search.pert_every=1", "rules.1.search.pert_every: is fixed in options too; "
     "leave one of them out"),
    ("rules.1.search.lr=-1", "rules.1.search.lr: should be more than 0; got -1.0"),
    ("rules.1.options=3", "rules.1.options: should be a mapping; got 3"),
    ("grid.exclude=[{label: sdli}]", 'grid.exclude.0.label: no rule has the label "sdli"; '
     'did you mean "sdil"?'),
    ("grid.exclude=[{}]", "grid.exclude.0: should name a label or a value of an axis; "
     "this drops every cell"),
    ("compare.pairs=[[sdil, pb]]", 'compare.pairs.0.1: no rule has the label "pb"; '
     'did you mean "bp"?'),
    ("compare.pairs=[[bp, bp]]", 'compare.pairs.0: compares "bp" with itself'),
    ("compare.pairs=[[bp]]", "compare.pairs.0.1: missing"),
    ("search.per=[depth, sed]", 'search.per.1: should be "dataset", "depth", "width", '
     '"activation" or "residual"; got "sed"'),
    # the whole
    ("task.dataset=null", "task.dataset: missing; name it here or in every block of the grid"),
    ("task={dataset: a, options: {n: 1}, n: 2}", "task.n: is given twice, here and in options"),
    ("task.validation=0", "task.validation: should be more than 0 where rates are searched; "
     "leave it out for 0.1, or fix lr"),
    ("search.seeds=[1, 7]", "search.seeds: tuning and evaluation share [1]; "
     "seeds that choose must not report"),
    ("grid.seeds={init: 2, feedback: [1000001]}", "search.seeds: tuning and evaluation share "
     "[1000001]; seeds that choose must not report"),
    # overrides themselves
    ("foo", '--set "foo": should look like grid.seeds=3'),
    ("grid..seeds=3", '--set "grid..seeds=3": should look like grid.seeds=3'),
    ("rules.7.label=x", "--set rules.7: rules is a list of 2, counted from 0; "
     "say rules.0.label=..."),
    ("rules.label=x", "--set rules.label: rules is a list of 2, counted from 0; "
     "say rules.0.label=..."),
    ("grid.seeds=[1", "--set grid.seeds, line 1, column 3: while parsing a flow sequence, "
     "expected ',' or ']', but got '<stream end>'"),
    ("grid.seeds=010", '--set grid.seeds, line 1, column 1: "010" is ambiguous; write it in '
     "decimal, or in quotes"),
    ("search.lr=.nan", '--set search.lr, line 1, column 1: ".nan" is not a finite number'),
]  # fmt: skip


@pytest.mark.parametrize(("override", "message"), WRONG, ids=[override for override, _ in WRONG])
def test_a_wrong_value_is_named_with_what_would_be_right(folder, override, message):
    assert complaint(load_study, folder / "study.yaml", [override]) == message


def test_all_problems_are_told_at_once(folder):
    message = complaint(load_study, folder / "study.yaml", ["grid.dept=1", "network.bias=3", "x=1"])
    assert [line.split(":")[0] for line in message.split("\n")] == [
        "network.bias",
        "grid.dept",
        "x",
    ]


def test_a_thousand_problems_are_cut_short():
    message = complaint(study_from, {"grid": {"depth": [0] * 1000}})
    assert message.split("\n")[-1].endswith("more")
    assert len(message.split("\n")) == 51


MALFORMED = [
    ("a: 1\nb: 2\na: 3", ', line 3, column 1: key "a" stands here again (first on line 1)'),
    ("grid: {depth: 1, depth: 2}", ', line 1, column 18: key "depth" stands here again (first on '
     "line 1)"),
    ("name: [1, 2", ", line 1, column 12: while parsing a flow sequence, expected ',' or ']', "
     "but got '<stream end>'"),
    ("name: 'cut", ", line 1, column 11: while scanning a quoted scalar, found unexpected end of "
     "stream"),
    ("name: a\n\tb: 1", ", line 2, column 1: while scanning for the next token, found character "
     "'\\t' that cannot start any token"),
    ("name: 010", ', line 1, column 7: "010" is ambiguous; write it in decimal, or in quotes'),
    ("name: 0o17", ', line 1, column 7: "0o17" is ambiguous; write it in decimal, or in quotes'),
    ("name: -.INF", ', line 1, column 7: "-.INF" is not a finite number'),
    ("name: 1e999", ', line 1, column 7: "1e999" is not a finite number'),
    ("a: &x [1]\nb: *x", ", line 2, column 4: aliases (*name) are not read; write the text again"),
    ("a: !!python/object/apply:os.system [ls]", ', line 1, column 4: tags such as '
     '"!!python/object/apply:os.system" are not read; remove it'),
    ("a: !!int '3'", ', line 1, column 4: tags such as "!!int" are not read; remove it'),
    ("a: " + "[" * 5000, ", line 1, column 23: nested deeper than 20 levels"),
    ("a: 1\n---\nb: 2", ", line 2, column 1: expected a single document in the stream, but found "
     "another document"),
    ("1: a", ", line 1, column 1: a key should be text; got 1"),
    ("yes: a", ", line 1, column 1: a key should be text; got true"),
    ("[a, b]: c", ", line 1, column 1: a key should be text; got ['a', 'b']"),
    ('a: {"\\ud83d": 1}', ", line 1, column 5: half of a character; write it whole, without \\u "
     "escapes"),
    ('a: "\\UFFFFFFFF"', ": is not YAML: Python int too large to convert to C int"),
    ("", ": is empty; a study is a mapping, such as name: first"),
    ("# nothing\n", ": is empty; a study is a mapping, such as name: first"),
    ("- a\n- b", ": holds ['a', 'b']; a study is a mapping, such as name: first"),
    ("only words", ': holds "only words"; a study is a mapping, such as name: first'),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), MALFORMED, ids=[text[:25] for text, _ in MALFORMED])
def test_malformed_yaml_is_one_line_with_its_place(tmp_path, monkeypatch, text, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").write_text(text, encoding="utf-8")
    assert complaint(load_study, "s.yaml") == f"s.yaml{message}"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"name: \xff\xfe", ": is not text in UTF-8 (at byte 6); is it a study file?"),
        (b"\x7fELF\x00\x01\x02", ": character 0 cannot stand in YAML; is it a text file?"),
        (b"a: 1\n" * 300_000, ": is larger than 1,048,576 bytes; is it a study file?"),
    ],
)
def test_a_file_that_is_no_text_is_refused(tmp_path, monkeypatch, content, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").write_bytes(content)
    assert complaint(load_study, "s.yaml") == f"s.yaml{message}"


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + SMALL.replace("\n", "\r\n").encode())
    assert load_study(path).name == "small"


def test_a_missing_file_names_the_nearest_one(folder, monkeypatch):
    monkeypatch.chdir(folder)
    message = complaint(load_study, "stduy.yaml")
    assert message == 'stduy.yaml: no such file; did you mean "study.yaml"?'
    assert complaint(load_study, "no/such/folder") == "no/such/folder: no such file"
    assert complaint(load_study, "nul\0byte").endswith("no such file")


def test_a_folder_is_no_study(folder):
    assert "is a folder; a study is a YAML file" in complaint(load_study, folder)


def test_what_only_code_can_write_is_refused_as_well():
    endless: dict[str, object] = {}
    endless["again"] = endless
    options = {"nan": float("nan"), "set": {1}, "endless": endless, "pair": (1, 2), "x": {3: 4}}
    message = complaint(study_from, {"rules": [{"name": "bp", "options": options}], 7: 8})
    assert "rules.0.options.nan: should be a finite number; got nan" in message
    assert "rules.0.options.set: should be plain data; got {1}" in message
    assert complaint(study_from, ["no", "mapping"]).startswith("study: should be a mapping; got")
    huge = complaint(study_from, {"grid": {"depth": 10**5000}, "name": "a\nb" * 500})
    assert "grid.depth: should be at most 10000; got a number too long to show" in huge
