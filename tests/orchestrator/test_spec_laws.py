import string

import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from orchestrator.spec import StudyError, dump, load_study, study_from
from orchestrator.yaml_file import parse, write

numbers = st.floats(1e-6, 1e6) | st.integers(1, 10**6)
ranges = st.tuples(st.floats(1e-6, 1.0), st.floats(1.5, 1e6)).map(
    lambda pair: {"low": pair[0], "high": pair[1]}
)
words = st.text(string.ascii_letters, min_size=1, max_size=9)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.sampled_from(["1e-3", "yes", "010", "null", "0x1f", ".nan", "1__0", "~", "2026-01-01"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
options = st.dictionaries(words.map(str.upper), plain, max_size=3)
chosen = words.map(str.lower)  # no option is both fixed and searched
counts = st.integers(1, 50)
several = st.lists(counts, min_size=1, max_size=4, unique=True)
seeds = counts | several | st.fixed_dictionaries({"init": counts, "feedback": several})
match = st.fixed_dictionaries({"depth": counts, "width": counts}).map(
    lambda reference: {"match_parameters": reference}
)
blocks = st.fixed_dictionaries(
    {"depth": counts | several, "width": counts | several | match, "seeds": seeds},
    optional={
        "residual": st.booleans() | st.just([False, True]),
        "activation": st.just(["relu", "tanh"]),
        "dataset": st.just(["a", "b"]),
        "exclude": st.lists(st.fixed_dictionaries({"depth": several}), max_size=1),
    },
)
studies = st.fixed_dictionaries(
    {
        "name": words,
        "task": st.fixed_dictionaries({"dataset": words}, optional={"options": options}),
        "rules": st.lists(
            st.fixed_dictionaries(
                {"name": words},
                optional={"options": options, "search": st.dictionaries(chosen, numbers | ranges)},
            ),
            min_size=1, max_size=3, unique_by=lambda rule: rule["name"],
        ),
        "grid": blocks | st.lists(blocks, min_size=1, max_size=2),
    },
    optional={
        "training": st.fixed_dictionaries({"steps": counts}) | st.just({"epochs": 0.5}),
        "search": st.fixed_dictionaries({"lr": numbers | ranges, "per": st.just(["depth"])}),
    },
)  # fmt: skip


@settings(deadline=None)
@given(studies)
def test_a_dumped_study_loads_back_equal(tmp_path_factory, mapping):
    study = study_from(mapping)
    path = tmp_path_factory.getbasetemp() / "dumped.yaml"
    path.write_text(dump(study), encoding="utf-8")
    assert load_study(path) == study


@given(plain)
def test_plain_values_written_as_yaml_are_read_back_equal(value):
    again = parse(write(value), "test")
    assert again == value
    assert repr(again) == repr(value)


KEYS = [
    "name", "task", "network", "training", "rules", "grid", "search", "compare", "measure",
    "resources", "dataset", "options", "validation", "depth", "width", "seeds", "exclude", "lr",
    "low", "high", "label", "match_parameters", "init", "feedback", "record", "epochs", "steps",
    "pairs", "per", "sampler", "rounds", "batch_size", "replicas", "residual", "activation",
]  # fmt: skip
odd = st.sampled_from(["bp", "grid", "cell", "full", "auto", "tanh", "relu", "", 0, 1, -1, 2.0])
trees = st.recursive(
    plain | odd | st.floats(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=5), inner, max_size=6)
        | st.dictionaries(st.integers() | st.none() | st.booleans(), inner, max_size=2)
    ),
    max_leaves=20,
)
nearly = studies.flatmap(
    lambda study: st.dictionaries(st.sampled_from(KEYS[:10]), trees, max_size=3).map(
        lambda changes: study | changes
    )
)


def refused_or_read(read):
    try:
        read()
    except StudyError as error:
        lines = str(error).splitlines()
        assert lines
        assert all(0 < len(line) <= 200 for line in lines)


@settings(max_examples=5 * settings.default.max_examples, deadline=None)
@given(trees | nearly)
def test_no_tree_raises_anything_but_a_study_error(tree):
    refused_or_read(lambda: study_from(tree))


@settings(max_examples=3 * settings.default.max_examples, deadline=None)
@given(trees)
def test_no_yaml_raises_anything_but_a_study_error(tmp_path_factory, tree):
    path = tmp_path_factory.getbasetemp() / "tree.yaml"
    path.write_text(yaml.dump(tree, allow_unicode=True), encoding="utf-8", errors="replace")
    refused_or_read(lambda: load_study(path))


@settings(max_examples=3 * settings.default.max_examples, deadline=None)
@given(
    st.binary(max_size=60)
    | st.text("[]{}:,-?!&*|>'\"%@`# \n\tab1.\\\\U", max_size=60).map(str.encode)
)
@example(b'"\\UFFFFFFFF"')
@example(b"%YAML 1" + b"0" * 5000 + b".1\n--- a")
@example(b"- " * 3000)
@example(b"[" * 100_000)
@example(b"? " * 3000)
def test_no_bytes_raise_anything_but_a_study_error(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "bytes.yaml"
    path.write_bytes(content)
    refused_or_read(lambda: load_study(path))


@settings(max_examples=3 * settings.default.max_examples, deadline=None)
@given(st.text("grid.0123rules=[]{}: ,abel", max_size=30), studies)
def test_no_override_raises_anything_but_a_study_error(tmp_path_factory, override, mapping):
    path = tmp_path_factory.getbasetemp() / "overridden.yaml"
    path.write_text(write(mapping), encoding="utf-8")
    refused_or_read(lambda: load_study(path, [override]))
