"""What must hold in a KubeRay manifest that runs rulesweep: a RayJob or a RayCluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from orchestrator.launch_file import part
from orchestrator.pins import Pins, images, installs

Group = tuple[str, Mapping[str, object]]


def problems(tree: Mapping[str, object], pins: Pins) -> Iterator[str]:
    """One line for every fault of a manifest, with its mend."""
    kind, spec = tree.get("kind"), part(tree, "spec")
    if not str(tree.get("apiVersion")).startswith("ray.io/"):
        yield "apiVersion: should be ray.io/v1"
    if kind not in ("RayJob", "RayCluster"):
        yield f"kind: should be RayJob or RayCluster; got {kind}"
        return
    cluster = part(spec, "rayClusterSpec") if kind == "RayJob" else spec
    place = "spec.rayClusterSpec" if kind == "RayJob" else "spec"
    if kind == "RayJob":
        yield from _job(spec, pins)
        yield from _awaited(spec, cluster)
    if str(cluster.get("rayVersion")) != pins.ray:
        yield f"{place}.rayVersion: {cluster.get('rayVersion')}; this rulesweep has {pins.ray}"
    groups = list(_groups(cluster, place))
    yield from _groups_present(cluster, place)
    yield from _token(cluster, place, groups)
    yield from _usage(groups)
    yield from _open(groups)
    yield from images(_image_places(groups), pins)
    yield from _gpus(groups, pins)


def _job(spec: Mapping[str, object], pins: Pins) -> Iterator[str]:
    entrypoint = spec.get("entrypoint")
    if not isinstance(entrypoint, str) or "rulesweep run" not in entrypoint:
        yield "spec.entrypoint: should run a study, as rulesweep run /study/study.yaml"
    elif "--address" not in entrypoint:
        yield "spec.entrypoint: should join the cluster; say --address auto"
    if spec.get("shutdownAfterJobFinishes") is not True:
        yield "spec.shutdownAfterJobFinishes: should be true, or the pods go on costing"
    environment = spec.get("runtimeEnvYAML")
    if isinstance(environment, str):
        yield from installs("spec.runtimeEnvYAML", environment, pins)


def _awaited(spec: Mapping[str, object], cluster: Mapping[str, object]) -> Iterator[str]:
    """Where all workers are yet to come, the study must say for how many it waits."""
    groups = [group for name, group in _groups(cluster, "") if "workerGroupSpecs" in name]
    none = all(not group.get("minReplicas") and not group.get("replicas") for group in groups)
    if none and "--workers" not in str(spec.get("entrypoint")):
        yield "spec.entrypoint: no worker is there at the start; say to how many: --workers 8"


def _groups(cluster: Mapping[str, object], place: str) -> Iterator[Group]:
    if isinstance(cluster.get("headGroupSpec"), dict):
        yield f"{place}.headGroupSpec", part(cluster, "headGroupSpec")
    workers = cluster.get("workerGroupSpecs")
    for i, group in enumerate(workers if isinstance(workers, list) else []):
        if isinstance(group, dict):
            yield f"{place}.workerGroupSpecs.{i}", group


def _groups_present(cluster: Mapping[str, object], place: str) -> Iterator[str]:
    if not isinstance(cluster.get("headGroupSpec"), dict):
        yield f"{place}.headGroupSpec: missing; a cluster has a head"
    if not cluster.get("workerGroupSpecs"):
        yield f"{place}.workerGroupSpecs: missing; nothing would train"
    for name, group in _groups(cluster, place):
        if "workerGroupSpecs" in name and "maxReplicas" not in group:
            yield f"{name}.maxReplicas: missing; cap the group, as maxReplicas: 8"


def _containers(group: Mapping[str, object]) -> list[Mapping[str, object]]:
    found = part(part(group, "template"), "spec").get("containers")
    return [c for c in found if isinstance(c, dict)] if isinstance(found, list) else []


def _environment(group: Mapping[str, object]) -> dict[str, object]:
    """The environment of a group's Ray container, which is the first."""
    for container in _containers(group)[:1]:
        entries = container.get("env")
        found = [e for e in entries if isinstance(e, dict)] if isinstance(entries, list) else []
        return {str(e.get("name")): e.get("value", e.get("valueFrom")) for e in found}
    return {}


def _token(cluster: Mapping[str, object], place: str, groups: list[Group]) -> Iterator[str]:
    if part(cluster, "authOptions").get("mode") == "token":
        return
    for name, group in groups:
        given = _environment(group)
        if given.get("RAY_AUTH_MODE") != "token" or "RAY_AUTH_TOKEN" not in given:
            yield f"{name}: Ray starts without a token; say {place}.authOptions: {{mode: token}}"


def _usage(groups: list[Group]) -> Iterator[str]:
    for name, group in groups:
        if str(_environment(group).get("RAY_USAGE_STATS_ENABLED")) != "0":
            yield f'{name}: Ray would report usage; set RAY_USAGE_STATS_ENABLED: "0" in its env'


def _open(groups: list[Group]) -> Iterator[str]:
    for name, group in groups:
        if group.get("serviceType") not in (None, "ClusterIP"):
            yield (
                f"{name}.serviceType: {group['serviceType']} opens the dashboard, which runs "
                "anyone's code; say ClusterIP and reach it by kubectl port-forward"
            )


def _image_places(groups: list[Group]) -> Iterator[tuple[str, str]]:
    for name, group in groups:
        for container in _containers(group):
            if isinstance(container.get("image"), str):
                yield f"{name}.image", str(container["image"])


def _gpus(groups: list[Group], pins: Pins) -> Iterator[str]:
    resources = [part(c, "resources") for _, group in groups for c in _containers(group)]
    limits = [part(found, "limits") for found in resources]
    if pins.gpus and not any("gpu" in key for found in limits for key in found):
        yield (
            f"workerGroupSpecs: the study wants {pins.gpus:g} GPU a worker and no pod has one; "
            'give one limits: {nvidia.com/gpu: "1"}'
        )
