"""What a node says of itself, as JSON; run as text by a node's Python, so it imports nothing else.

Arguments: the names of image data sets, and a URI or a path, both may be empty.
"""

import json
import os
import platform
import socket
import sys
from typing import Any


def version(name: str) -> str | None:
    """The installed version of a distribution."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as found

    try:
        return found(name)
    except PackageNotFoundError:
        return None


def tensors() -> dict[str, Any]:
    """What torch sees, or why there is no torch."""
    try:
        import torch
    except Exception as error:
        return {"torch_error": f"{type(error).__name__}: {error}"}
    return {
        "gpus": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
        "threads": torch.get_num_threads(),
        "cpu": torch.backends.cpu.get_cpu_capability(),
    }


def datasets(names: list[str]) -> dict[str, bool]:
    """Which of these data sets can be loaded without a download."""
    try:
        from rules.data import present
    except Exception:
        return {}
    return {name: present(name) for name in names}


def storage(place: str) -> str | None:
    """Why a URI or a path cannot be looked at; empty where it can."""
    if not place:
        return None
    try:
        from pyarrow.fs import FileSystem, LocalFileSystem

        if "://" in place:
            files, path = FileSystem.from_uri(place)
        else:
            files, path = LocalFileSystem(), os.path.abspath(os.path.expanduser(place))
        files.get_file_info(path)
    except Exception as error:
        return " ".join(str(error).split())[:120] or type(error).__name__
    return ""


def main(names: str, place: str) -> None:
    """Print all of it."""
    found = {
        "host": socket.gethostname(),
        "python": platform.python_version(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "versions": {name: version(name) for name in ("ray", "torch", "numpy", "rulesweep")},
        "data": datasets([name for name in names.split(",") if name]),
        "storage": storage(place),
    }
    print(json.dumps(found | tensors()))


if __name__ == "__main__":
    main(*sys.argv[1:])
