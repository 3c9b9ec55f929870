"""What must hold in a file for `ray up` besides Ray's own schema: pins, token, dashboard, caps."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from orchestrator.pins import Pins, flag, images, installs
from orchestrator.yaml_file import nearest, shown

START = {"head": "head_start_ray_commands", "worker": "worker_start_ray_commands"}
REQUIRED = {
    "cluster_name": "give it one, as cluster_name: rulesweep",
    "max_workers": "cap the cluster, as max_workers: 8",
    "idle_timeout_minutes": "say when idle workers end, as idle_timeout_minutes: 5",
    "setup_commands": "without it Ray's defaults install a nightly of Ray; list your own commands",
    START["head"]: "without it Ray's default opens the dashboard to the world; list your own",
    START["worker"]: "without it Ray's default starts workers without a token; list your own",
}
KNOWN = (
    *REQUIRED,
    "min_workers",
    "upscaling_speed",
    "provider",
    "auth",
    "docker",
    "available_node_types",
    "head_node_type",
    "file_mounts",
    "cluster_synced_files",
    "file_mounts_sync_continuously",
    "rsync_exclude",
    "rsync_filter",
    "metadata",
    "initialization_commands",
    "head_setup_commands",
    "worker_setup_commands",
    "no_restart",
)
LOOPBACK = ("127.0.0.1", "localhost", "::1")
REMOTE = re.compile(r"[a-z][a-z0-9+]*://")


def problems(tree: Mapping[str, object], pins: Pins) -> Iterator[str]:
    """One line for every fault of a file for `ray up`, with its mend."""
    for key in tree:
        if key not in KNOWN:
            hint = nearest(key, KNOWN) or "; `ray up` would refuse the file"
            yield f"{key}: unknown key{hint}"
    yield from (f"{key}: missing; {mend}" for key, mend in REQUIRED.items() if key not in tree)
    commands = {side: texts(tree.get(key)) for side, key in START.items() if key in tree}
    for side, lines in commands.items():
        yield from _start(side, lines)
    yield from _own_servers(tree, commands.get("head", ()))
    yield from _token(tree)
    yield from _installed(tree, pins)
    yield from images(_image_places(tree), pins)
    yield from _gpus(tree, pins)
    yield from _results(tree)


def texts(value: object) -> list[str]:
    """The texts of a list in the file, whatever else stands in it."""
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def part(tree: Mapping[str, object], key: str) -> Mapping[str, object]:
    """A mapping inside the file; empty where something else stands there."""
    found = tree.get(key)
    return found if isinstance(found, dict) else {}


def _start(side: str, lines: Sequence[str]) -> Iterator[str]:
    """The commands that start Ray on the head or on a worker."""
    key, starts = START[side], [line for line in lines if re.search(r"\bray start\b", line)]
    if not starts:
        yield f"{key}: nothing here starts Ray; say ray start ... as the last command"
        return
    if "ray stop" not in lines[0]:
        yield f"{key}: should begin with ray stop, which ends what an earlier `ray up` left"
    for line in starts:
        if not re.search(r"\bRAY_AUTH_MODE=token\b", line):
            yield f"{key}: Ray starts without a token; say RAY_AUTH_MODE=token ray start ..."
        if side == "head":
            yield from _head(key, line)
        elif "RAY_HEAD_IP" not in line:
            yield f"{key}: should join the head, as --address=$RAY_HEAD_IP:6379"


def _head(key: str, line: str) -> Iterator[str]:
    host = flag(line, "--dashboard-host")
    off = flag(line, "--include-dashboard") in ("false", "False", "0")
    if not off and host not in LOOPBACK:
        what = f"is open on {host}" if host else "is not kept to loopback"
        yield (
            f"{key}: the dashboard, which runs anyone's code, {what}; "
            "say --dashboard-host=127.0.0.1 and reach it by `ray dashboard` or an ssh tunnel"
        )
    if "RAY_HEAD_IP" in line:
        yield f"{key}: RAY_HEAD_IP is empty on the head itself; leave --node-ip-address out"
    if "--autoscaling-config" not in line:
        yield f"{key}: no workers would start; say --autoscaling-config=~/ray_bootstrap_config.yaml"
    if not re.search(r"\bRAY_USAGE_STATS_ENABLED=0\b", line):
        yield f"{key}: Ray would report usage; say RAY_USAGE_STATS_ENABLED=0 ray start ..."


def _own_servers(tree: Mapping[str, object], head: Sequence[str]) -> Iterator[str]:
    """What Ray's autoscalers get wrong with a list of servers."""
    starts = [line for line in head if re.search(r"\bray start\b", line)]
    if part(tree, "provider").get("type") != "local" or not starts:
        return
    if not all(re.search(r"\bRAY_enable_autoscaler_v2=0\b", line) for line in starts):
        yield (
            f"{START['head']}: Ray's new autoscaler takes the head for a worker and leaves one of "
            "worker_ips out; say RAY_enable_autoscaler_v2=0 ray start ..."
        )


def _token(tree: Mapping[str, object]) -> Iterator[str]:
    """The token must get to the nodes, from a file that is there."""
    mounts = part(tree, "file_mounts")
    starts = " ".join(line for key in START.values() for line in texts(tree.get(key)))
    if not any(Path(remote).name == "auth_token" for remote in mounts) and (
        not re.search(r"\bRAY_AUTH_TOKEN(_PATH)?=", starts)
    ):
        yield (
            "file_mounts: the token does not reach the nodes; "
            'add "~/.ray/auth_token": ~/.ray/auth_token'
        )
    for remote, local in mounts.items():
        if isinstance(local, str) and not _exists(local):
            yield f"file_mounts.{remote}: no such file or folder {shown(local)}; {_mend(local)}"


def _exists(local: str) -> bool:
    try:
        return Path(local).expanduser().exists()
    except (OSError, RuntimeError, ValueError):  # no such user, a name that no disk takes
        return False


def _mend(local: str) -> str:
    if Path(local).name == "auth_token":
        return "make it with: ray get-auth-token --generate"
    return "make it with: make wheel" if Path(local).name == "dist" else "give one that is there"


def _installed(tree: Mapping[str, object], pins: Pins) -> Iterator[str]:
    """The project and its pinned dependencies must be put on every node."""
    both = texts(tree.get("setup_commands"))
    for place, line in enumerate(both):
        yield from installs(f"setup_commands.{place}", line, pins)
    for side in ("head", "worker"):
        key = f"{side}_setup_commands"
        lines = texts(tree.get(key))
        for place, line in enumerate(lines):
            yield from installs(f"{key}.{place}", line, pins)
        if not any(re.search(r"\bpip3? install\b.*rulesweep", line) for line in [*both, *lines]):
            yield (
                f"setup_commands: nothing installs rulesweep on the {side}; add "
                'pip install -c ~/rulesweep/constraints.txt "$(echo ~/rulesweep/rulesweep-*.whl)"'
            )


def _image_places(tree: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    docker = part(tree, "docker")
    for key in ("image", "head_image", "worker_image"):
        if isinstance(docker.get(key), str):
            yield f"docker.{key}", str(docker[key])
    for name, node in part(tree, "available_node_types").items():
        inner = part(node, "docker") if isinstance(node, dict) else {}
        if isinstance(inner.get("worker_image"), str):
            yield f"available_node_types.{name}.docker.worker_image", str(inner["worker_image"])


def _gpus(tree: Mapping[str, object], pins: Pins) -> Iterator[str]:
    """A study that wants GPUs or many cores needs a node type that has them."""
    nodes = {k: v for k, v in part(tree, "available_node_types").items() if isinstance(v, dict)}
    able = {name: part(node, "resources") for name, node in nodes.items()}
    if not nodes:
        return  # servers of one's own: Ray sees what they have when it starts
    if pins.gpus and not any(_has(r.get("GPU"), pins.gpus) for r in able.values()):
        yield (
            f"available_node_types: the study wants {pins.gpus:g} GPU a worker and no node type "
            "has one; give one resources: {CPU: 4, GPU: 1}"
        )
    most = max((n for n in map(_number, (r.get("CPU") for r in able.values()))), default=0)
    if pins.cpus > most and all("CPU" in r for r in able.values()):
        yield (
            f"available_node_types: the study wants {pins.cpus} CPUs a worker and the largest "
            f"node type has {most:g}; give one resources: {{CPU: {pins.cpus}}}"
        )


def _has(value: object, wanted: float) -> bool:
    return _number(value) >= min(1.0, wanted)


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) and abs(value) < 1e300 else 0.0


def _results(tree: Mapping[str, object]) -> Iterator[str]:
    """Results on the head's own disk end with a head that a cloud takes back."""
    if part(tree, "provider").get("type") in (None, "local"):
        return
    keys = ("setup_commands", "head_setup_commands", START["head"])
    text = "\n".join(line for key in keys for line in texts(tree.get(key)))
    found = re.search(r"\bRULESWEEP_RUNS=['\"]?([^\s'\"]*)", text)
    if found is None:
        yield (
            "setup_commands: results would stay on the head's disk and end with it; add "
            "echo 'export RULESWEEP_RUNS=s3://BUCKET/rulesweep' >> ~/.bashrc"
        )
    elif not REMOTE.match(found[1]):
        yield (
            f"setup_commands: RULESWEEP_RUNS={found[1]} is on the head's disk, which ends with it; "
            "name a bucket, as s3://BUCKET/rulesweep"
        )
