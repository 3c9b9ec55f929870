"""The columns of the trial table: names, dtypes, units and meanings; and rows as Arrow tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

TABLE_VERSION = 1

NOTES = b"rulesweep.notes"


@dataclass(frozen=True)
class Column:
    """One column of the trial table.

    `kind` says what the column is for: `coordinate` (what the network is: part of the trial's
    identity), `result` (what training it gave: equal however it was trained), `provenance` (how,
    where and when: free to differ), or `plan` (why a study wants it).
    """

    name: str
    dtype: pa.DataType
    kind: str
    meaning: str
    unit: str = ""
    default: Any = None  # in rows that were written before the column was there


_TEXT, _INT, _FLOAT, _FLAG = pa.string(), pa.int64(), pa.float64(), pa.bool_()
_LIST = pa.list_(_FLOAT)

COLUMNS: tuple[Column, ...] = (
    Column("trial", _TEXT, "coordinate", "id: a hash of all that changes the result"),
    Column("study", _TEXT, "plan", "name of the study that wants the trial"),
    Column("study_id", _TEXT, "plan", "hash of the resolved study that wants the trial"),
    Column("campaign", _TEXT, "plan", "hash of the tuning campaign that wants the trial"),
    Column("phase", _TEXT, "plan", "tune or evaluate"),
    Column("round", _INT, "plan", "round of the search, from 0; null when evaluating"),
    Column("point", _INT, "plan", "index of the point in its round, from 0"),
    Column("label", _TEXT, "plan", "the rule's name in tables and figures"),
    Column("parameter_target", _INT, "plan", "parameter count that the width was chosen to match; "
           "null: the width was given"),
    Column("lr_low", _FLOAT, "plan", "low end of the searched range; null: a fixed rate"),
    Column("lr_high", _FLOAT, "plan", "high end of the searched range"),
    Column("choose", _TEXT, "plan", "what chooses: validation_loss or validation_accuracy"),
    Column("rule", _TEXT, "coordinate", "the learning rule"),
    Column("options", _TEXT, "coordinate", "the rule's resolved options, canonical JSON"),
    Column("dataset", _TEXT, "coordinate", "the data set"),
    Column("depth", _INT, "coordinate", "hidden layers"),
    Column("width", _INT, "coordinate", "units of a hidden layer"),
    Column("activation", _TEXT, "coordinate", "tanh, relu or sigmoid"),
    Column("residual", _FLAG, "coordinate", "skip connections from the second hidden layer on"),
    Column("bias", _FLAG, "coordinate", "whether layers have biases"),
    Column("init_seed", _INT, "coordinate", "seed of weights and batch order"),
    Column("feedback_seed", _INT, "coordinate", "seed of feedback and noise; null: none drawn"),
    Column("lr", _FLOAT, "coordinate", "learning rate"),
    Column("hyperparameters", _TEXT, "coordinate", "all searched values, canonical JSON"),
    Column("parameter_count", _INT, "coordinate", "weights and biases; feedback not counted"),
    Column("steps", _INT, "coordinate", "updates"),
    Column("batch_size", _INT, "coordinate", "examples an update", "examples"),
    Column("momentum", _FLOAT, "coordinate", "momentum of the updates"),
    Column("weight_decay", _FLOAT, "coordinate", "decoupled decay a step"),
    Column("optimizer", _TEXT, "coordinate", "sgd or adam", default="sgd"),
    Column("schedule", _TEXT, "coordinate", "of the learning rate: constant, linear or cosine",
           default="constant"),
    Column("warmup", _INT, "coordinate", "updates in which the learning rate rises", default=0),
    Column("compile", _FLAG, "coordinate", "whether the step was compiled", default=False),
    Column("loss", _TEXT, "coordinate", "cross-entropy or squared"),
    Column("dtype", _TEXT, "coordinate", "float32 or float64"),
    Column("status", _TEXT, "result", "ok, diverged, failed or pending"),
    Column("error", _TEXT, "result", "traceback of a failed trial"),
    Column("diverged_step", _INT, "result", "updates before the loss left its bounds"),
    Column("initial_loss", _FLOAT, "result", "loss before the first update, on the data that "
           "chooses (validation if there is any, else training)"),
    Column("train_loss", _FLOAT, "result", "at the end, on the first 1000 training examples"),
    Column("train_accuracy", _FLOAT, "result", "at the end", "fraction"),
    Column("validation_loss", _FLOAT, "result", "at the end; chooses the learning rate"),
    Column("validation_accuracy", _FLOAT, "result", "at the end", "fraction"),
    Column("test_loss", _FLOAT, "result", "at the end"),
    Column("test_accuracy", _FLOAT, "result", "at the end", "fraction"),
    Column("best_test_accuracy", _FLOAT, "result", "best over the recorded steps", "fraction"),
    Column("best_step", _INT, "result", "recorded step of the best test accuracy"),
    Column("chance_accuracy", _FLOAT, "result", "1 / classes; null for regression", "fraction"),
    Column("alignment", _LIST, "result", "cosine of teaching signal and negative gradient at "
           "the end, one value a hidden layer, input side first"),
    Column("alignment_chance", _LIST, "result", "standard deviation of the alignment of freshly "
           "drawn direct feedback on the trained network, one value a hidden layer"),
    Column("update_cosine", _LIST, "result", "cosine of the rule's and backprop's weight "
           "updates, one value a hidden layer"),
    Column("norm_ratio", _LIST, "result", "norm of the rule's signal over backprop's, one value "
           "a hidden layer"),
    Column("probe_accuracy", _LIST, "result", "ridge probe, one value a hidden layer", "fraction"),
    Column("probe_accuracy_untrained", _LIST, "result", "the same before training", "fraction"),
    Column("probe_accuracy_input", _FLOAT, "result", "ridge probe on the input", "fraction"),
    Column("curve_step", pa.list_(_INT), "result", "recorded steps"),
    Column("curve_train_loss", _LIST, "result", "one value a recorded step"),
    Column("curve_validation_loss", _LIST, "result", "one value a recorded step"),
    Column("curve_test_loss", _LIST, "result", "one value a recorded step"),
    Column("curve_test_accuracy", _LIST, "result", "one value a recorded step", "fraction"),
    Column("curve_alignment", pa.list_(_LIST), "result", "a list over recorded steps of lists "
           "over hidden layers"),
    Column("seconds", _FLOAT, "provenance", "the pack's training time over its networks; of the "
           "last worker, where that went on from a checkpoint", "s"),
    Column("continued_step", _INT, "provenance", "the checkpoint's step from which its last worker "
           "went on; null: it began at the beginning"),
    Column("pack", _TEXT, "provenance", "hash of the pack it trained in"),
    Column("pack_size", _INT, "provenance", "networks in it"),
    Column("attempts", _INT, "provenance", "times a worker was given it"),
    Column("device", _TEXT, "provenance", "cpu or the GPU's name"),
    Column("host", _TEXT, "provenance", "machine"),
    Column("bitwise", _FLAG, "provenance", "whether the machine keeps results bit for bit"),
    Column("source", _TEXT, "provenance", "hash of the rule's source file"),
    Column("versions", _TEXT, "provenance", "of python, packages and compiler, JSON"),
    Column("revision", _TEXT, "provenance", "git revision of the user's folder, + where dirty"),
    Column("finished", _FLOAT, "provenance", "when its pack ended, Unix time", "s"),
)  # fmt: skip

SCHEMA = pa.schema(
    [pa.field(column.name, column.dtype) for column in COLUMNS],
    metadata={"rulesweep.table": str(TABLE_VERSION)},
)


def named(*kinds: str) -> list[str]:
    """The names of the columns of these kinds, in order."""
    return [column.name for column in COLUMNS if column.kind in kinds]


def table_of(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Rows as a table with every column; what a row leaves out is null."""
    told = set[str]().union(*rows)

    def column(field: pa.Field) -> pa.Array:
        if field.name not in told:
            return pa.nulls(len(rows), field.type)
        return pa.array([row.get(field.name) for row in rows], field.type)

    return pa.table([column(field) for field in SCHEMA], schema=SCHEMA)


def noted(table: pa.Table, notes: Sequence[str]) -> pa.Table:
    """A worker's table with what the driver's log should say of it."""
    return table.replace_schema_metadata(table.schema.metadata | {NOTES: json.dumps(notes)})


def notes_of(table: pa.Table) -> list[str]:
    """What a worker wants the driver's log to say."""
    return list(json.loads(table.schema.metadata.get(NOTES, b"[]")))


def to_blob(table: pa.Table) -> bytes:
    """A table as bytes (Arrow's stream format), as packs come back from workers."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def from_blob(blob: bytes) -> pa.Table:
    """The table in such bytes."""
    with pa.ipc.open_stream(blob) as reader:
        return reader.read_all()
