"""What must hold in a SLURM batch script that runs rulesweep, with Ray or as an array."""

from __future__ import annotations

import re
from collections.abc import Iterator

from orchestrator.pins import Pins, flag, installs

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def problems(text: str, pins: Pins) -> Iterator[str]:
    """One line for every fault of a batch script, with its mend."""
    options = _options(text)
    body = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    joined = re.sub(r"\\\n\s*", " ", body)
    yield from _header(options)
    yield from _gpus(options, pins)
    for number, line in enumerate(text.splitlines(), start=1):
        yield from installs(f"line {number}", line, pins)
    if not re.search(r"\brulesweep run\b", joined):
        yield "nothing here runs a study; say rulesweep run STUDY.yaml ..."
    elif re.search(r"\bray (symmetric-run|start)\b", joined):
        yield from _ray(joined)
        yield from _everywhere(options, joined)
    elif "--shard" in joined:
        yield from _array(options, joined)
    elif "--inline" not in joined:
        yield "rulesweep run: trains on one node; say srun ray symmetric-run, or --shard --inline"


def _header(options: dict[str, str]) -> Iterator[str]:
    if not options:
        yield "no #SBATCH line: is it a SLURM batch script?"
    elif "time" not in options and "t" not in options:
        yield "#SBATCH --time: missing; without it the machine's default may end the study early"


def _options(text: str) -> dict[str, str]:
    """The #SBATCH options by name; a flag has an empty value."""
    lines = re.findall(r"^#SBATCH\s+(--?[\w-]+)(?:[= ]+([^\s#]+))?", text, re.MULTILINE)
    return {name.lstrip("-"): value for name, value in lines}


def _gpus(options: dict[str, str], pins: Pins) -> Iterator[str]:
    asked = any(name.startswith("gpus") or name in ("gres", "G") for name in options)
    if pins.gpus and not asked:
        yield (
            f"#SBATCH: the study wants {pins.gpus:g} GPU a worker and the job asks for none; "
            "add #SBATCH --gpus-per-node=1"
        )
    cores = options.get("cpus-per-task", options.get("c", "1"))
    if cores.isdecimal() and len(cores) < 9 and int(cores) < pins.cpus:
        yield (
            f"#SBATCH --cpus-per-task: {cores}, but the study wants {pins.cpus} a worker; "
            "raise it, or lower resources.cpus"
        )


def _ray(body: str) -> Iterator[str]:
    if not re.search(r"\bRAY_AUTH_MODE=token\b", body):
        yield "Ray starts without a token; add export RAY_AUTH_MODE=token"
    elif not re.search(r"\bRAY_AUTH_TOKEN(_PATH)?=", body):
        yield "the token does not reach the nodes; export RAY_AUTH_TOKEN_PATH=FILE on a shared disk"
    if not re.search(r"\bRAY_USAGE_STATS_ENABLED=0\b", body):
        yield "Ray would report usage; add export RAY_USAGE_STATS_ENABLED=0"
    host = flag(body, "--dashboard-host")
    if host is not None and host not in LOOPBACK:
        yield (
            f"ray start: the dashboard, which runs anyone's code, is open on {host}; "
            "leave that out: it is on loopback by itself"
        )


def _everywhere(options: dict[str, str], body: str) -> Iterator[str]:
    """`ray symmetric-run` runs once on every node, and the study joins what it starts."""
    if "symmetric-run" not in body:
        return
    if re.search(r"symmetric-run\b.*--(include-)?dashboard", body):
        yield "ray symmetric-run: workers refuse options of the dashboard; leave them out"
    if "srun" not in body:
        yield "ray symmetric-run: should run on every node; say srun ray symmetric-run ..."
    if options.get("ntasks-per-node") != "1":
        yield "#SBATCH --ntasks-per-node: should be 1, as one Ray on a node serves all its cores"
    if not re.search(r"rulesweep run\b.*--address\b", body):
        yield "rulesweep run: should join the Ray of the job; say --address HOST:PORT"


def _array(options: dict[str, str], body: str) -> Iterator[str]:
    """Every shard must have its task: `--array=1-32` and `--shard $SLURM_ARRAY_TASK_ID/32`."""
    shard, array = flag(body, "--shard") or "", options.get("array", options.get("a", ""))
    if "--inline" not in body:
        yield "rulesweep run --shard: trains without Ray; say --inline"
    if not array:
        yield "#SBATCH --array: missing; say as many tasks as shards, as --array=1-32"
        return
    count = shard.rpartition("/")[2]
    variable = re.fullmatch(r"\$\{?(\w+)\}?", count)
    if variable:
        given = re.search(rf"^\s*(?:export )?{variable[1]}=(\d{{1,6}})\s*(?:#.*)?$", body, re.M)
        count = given[1] if given else ""
    tasks = re.fullmatch(r"1-(\d{1,6})(?:%\d+)?", array)
    if count.isdecimal() and (tasks is None or tasks[1] != count):
        yield f"#SBATCH --array={array}: should be 1-{count}, one task for each of {count} shards"
