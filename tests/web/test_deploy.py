"""The files for operators: they can be read, and name only settings, commands and metrics that there are."""

from __future__ import annotations

import configparser
import json
import re
import shutil
import subprocess
from pathlib import Path

import click
import pytest
import yaml

from kbengine.cli import ENVIRONMENT_PREFIX, cli
from tests.test_cli import kbengine

DEPLOY = Path(__file__).parent.parent.parent / "deploy"
ELSEWHERE = {"up"}
FUNCTIONS = {"sum", "by", "rate", "histogram_quantile", "label_values", "or", "instance", "job", "le", "stage", "route",
             "status", "kind"}  # fmt: skip


def unit():
    """Return the systemd unit; of a name that comes again the values are joined."""
    parser = configparser.RawConfigParser(strict=False, dict_type=Joined)
    parser.optionxform = str
    parser.read_string((DEPLOY / "kbengine.service").read_text())
    return parser


class Joined(dict):
    """Keeps all values of a name."""

    def __setitem__(self, name, value):
        """Add the lines of a name that is there already."""
        if isinstance(value, list) and name in self:
            value = self[name] + value
        super().__setitem__(name, value)


def compose():
    """Return the one service of the compose file."""
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["kbengine"]


def manifests():
    """Return the Kubernetes manifests by kind."""
    found = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))
    assert all({"apiVersion", "kind", "metadata", "spec"} <= set(each) for each in found)
    return {each["kind"]: each for each in found}


def cluster_compose():
    """Return the services of the compose file of a cluster, by name."""
    return yaml.safe_load((DEPLOY / "cluster-compose.yaml").read_text())["services"]


def kuberay():
    """Return the manifests of a cluster on Kubernetes by kind."""
    found = list(yaml.safe_load_all((DEPLOY / "cluster-kuberay.yaml").read_text()))
    assert all({"apiVersion", "kind", "metadata", "spec"} <= set(each) for each in found)
    return {each["kind"]: each for each in found}


def variables():
    """Return the variables that `kbengine serve` reads, with their options."""
    command = cli.get_command(click.Context(cli), "serve")
    options = [each for each in command.params if isinstance(each, click.Option)]
    return {each.envvar or f"{ENVIRONMENT_PREFIX}_SERVE_{each.name.upper()}": each for each in options}


@pytest.fixture(scope="module")
def metrics(shared):
    """The names of all samples, with their labels."""
    assert shared.post("/v1/question", {"text": "Who conducted research?"}).status_code == 200
    text = shared.client.get("/metrics").text
    found: dict[str, set[str]] = {}
    for name, labels in re.findall(r"^(\w+)(?:\{(.*)\})? ", text, re.M):
        found.setdefault(name, set()).update(re.findall(r"(\w+)=", labels or ""))
    return found


def expressions():
    """Yield every expression of the rules and of the dashboard."""
    for group in yaml.safe_load((DEPLOY / "prometheus-rules.yaml").read_text())["groups"]:
        for rule in group["rules"]:
            assert rule["labels"]["severity"] in ("page", "ticket") and rule["annotations"].keys() == {
                "summary",
                "action",
            }
            yield rule["expr"]
    dashboard = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            yield target["expr"]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]["query"]


def test_rules_and_dashboard_name_metrics_and_labels_that_there_are(metrics):
    """As the service gives them."""
    for expression in expressions():
        assert all(expression.count(a) == expression.count(b) for a, b in ("()", "[]", "{}")), expression
        plain = re.sub(r"\[[^\]]*\]|\"[^\"]*\"", "", expression)
        selectors = re.findall(r"([a-z]\w+)\{([^}]*)\}", plain)
        for name, labels in selectors:
            used = set(re.findall(r"(\w+)=", labels)) - {"instance", "job"}
            assert name in ELSEWHERE or used <= metrics[name], (expression, name)
        words = set(re.findall(r"(?<![\w$.])[a-z]\w*", re.sub(r"\{[^}]*\}", "", plain)))
        assert words - FUNCTIONS - ELSEWHERE <= set(metrics), expression


def test_no_two_panels_of_the_dashboard_overlap():
    """Nor have the same number."""
    panels = json.loads((DEPLOY / "grafana-dashboard.json").read_text())["panels"]

    assert len({(each["gridPos"]["x"], each["gridPos"]["y"]) for each in panels}) == len(panels)
    assert len({each["id"] for each in panels}) == len(panels)


def test_settings_are_variables_that_serve_reads():
    """With values that it takes."""
    container = manifests()["Deployment"]["spec"]["template"]["spec"]["containers"][0]
    given = [
        {
            name: value
            for name, value in (line.split("=", 1) for line in unit()["Service"]["Environment"].split("\n"))
            if name.startswith("KBENGINE_")
        },
        compose()["environment"],
        {each["name"]: each["value"] for each in container["env"]},
    ]
    routing = kuberay()["Deployment"]["spec"]["template"]["spec"]["containers"][0]["env"]
    given += [
        {name: value for name, value in settings.items() if name.startswith("KBENGINE_")}
        for settings in (
            cluster_compose()["kbengine"]["environment"],
            {each["name"]: each["value"] for each in routing if "value" in each},
        )
    ]
    for settings in given:
        for name, value in settings.items():
            option = variables()[name]
            option.type.convert(value, option, None)


def test_machine_code_is_kept_where_it_may_be_written_and_not_in_the_knowledge_base():
    """The image's user has the knowledge base as its home, and the unit's has none."""
    environment = dict(line.split("=", 1) for line in unit()["Service"]["Environment"].split("\n"))
    assert environment["NUMBA_CACHE_DIR"] == f"/var/cache/{unit()['Service']['CacheDirectory']}"
    assert "NUMBA_CACHE_DIR=/tmp/" in (DEPLOY.parent / "Dockerfile").read_text()


def test_what_is_stopped_has_time_to_answer_what_it_accepted():
    """Drain and grace are shorter than what comes after them."""
    container = manifests()["Deployment"]["spec"]["template"]["spec"]
    drain = next(each["value"] for each in container["containers"][0]["env"] if each["name"].endswith("DRAIN_S"))
    grace = variables()["KBENGINE_SERVE_GRACEFUL_S"].default

    assert container["terminationGracePeriodSeconds"] > float(drain) + grace
    assert int(unit()["Service"]["TimeoutStopSec"]) > 2 + grace
    assert (
        int(compose()["stop_grace_period"].removesuffix("s"))
        > float(compose()["environment"]["KBENGINE_SERVE_DRAIN_S"]) + grace
    )


def test_containers_are_run_as_the_image_wants_it(shared):
    """Nobody's capabilities, a root that is read-only, the image's user; probes that there are."""
    spec = manifests()["Deployment"]["spec"]
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    service = manifests()["Service"]["spec"]

    assert container["args"] == compose()["command"] == ["serve"]
    assert container["securityContext"]["readOnlyRootFilesystem"] and compose()["read_only"]
    assert container["securityContext"]["capabilities"]["drop"] == compose()["cap_drop"] == ["ALL"]
    assert pod["securityContext"]["runAsUser"] == 10001
    assert spec["strategy"]["type"] == "Recreate" and spec["replicas"] == 1
    assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"] == service["selector"]
    assert {each["name"] for each in container["volumeMounts"]} == {each["name"] for each in pod["volumes"]}
    claim = pod["volumes"][0]["persistentVolumeClaim"]["claimName"]
    assert claim == manifests()["PersistentVolumeClaim"]["metadata"]["name"]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert shared.client.get(container[probe]["httpGet"]["path"]).status_code == 200


def test_a_cluster_is_searched_with_authentication_and_few_rights():
    """Ray has its token everywhere, from a secret; no password is in a file; pods are nobody's."""
    ray = kuberay()["RayCluster"]["spec"]
    groups = [ray["headGroupSpec"], *ray["workerGroupSpecs"]]
    pods = [group["template"]["spec"] for group in groups] + [kuberay()["Deployment"]["spec"]["template"]["spec"]]
    for pod in pods:
        (container,) = pod["containers"]
        env = {each["name"]: each for each in container["env"]}
        assert env["RAY_AUTH_MODE"]["value"] == "token"
        assert "secretKeyRef" in env["RAY_AUTH_TOKEN"]["valueFrom"]
        assert pod["securityContext"]["runAsUser"] == 10001 and not pod["automountServiceAccountToken"]
        assert container["securityContext"]["capabilities"]["drop"] == ["ALL"]
        assert container["image"] == cluster_compose()["kbengine"]["image"] == "kbengine-cluster"
    assert ray["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0", "the head only keeps the runtime together"
    service = kuberay()["Service"]["spec"]
    assert kuberay()["Deployment"]["spec"]["selector"]["matchLabels"] == service["selector"]
    head = next(each["value"] for each in pods[-1]["containers"][0]["env"] if each["name"] == "KBENGINE_SERVE_RAY")
    assert head.startswith(f"{kuberay()['RayCluster']['metadata']['name']}-head-svc:")
    secrets = [
        value
        for each in cluster_compose().values()
        for name, value in each.get("environment", {}).items()
        if any(word in name for word in ("PASSWORD", "SECRET", "CATALOG"))
    ]
    assert secrets and all("${" in value for value in secrets)
    assert cluster_compose()["kbengine"]["read_only"] and cluster_compose()["kbengine"]["cap_drop"] == ["ALL"]


def test_commands_that_the_files_name_exist():
    """In what they say to run: with options that they take, and all arguments."""
    seen = 0
    for path in DEPLOY.iterdir():
        # Lines that end in a backslash go on; commands end where prose or the shell goes on.
        text = re.sub(r"\\\\\n#? *", " ", path.read_text())
        for line in re.findall(r"kbengine ((?:cluster|key|serve|add|backup)\b[^\n`';&|>]*)", text):
            words, command, found = line.split(), cli, []
            while isinstance(command, click.Group) and words:
                found.append(words.pop(0))
                command = command.get_command(click.Context(cli), found[-1])
                assert command is not None, (path.name, line)
            if not any(each.startswith("-") for each in words):
                continue  # prose that names a command
            options = {name for each in command.params for name in each.opts}
            named = {each for each in words if each.startswith("--")}
            assert named <= options, (path.name, line)
            needed = {each.opts[-1] for each in command.params if each.required and isinstance(each, click.Option)}
            given_by_image = set() if path.suffix == ".service" else {"--kb"}
            assert needed - given_by_image <= named, (path.name, line)
            seen += 1
    assert seen >= 4


def test_the_unit_is_one_that_systemd_reads():
    """Where there is a systemd to ask."""
    assert unit()["Service"]["ExecStart"].endswith("kbengine serve")
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("needs systemd-analyze")
    done = subprocess.run(
        [analyze, "verify", str(DEPLOY / "kbengine.service")], capture_output=True, text=True, check=False
    )
    assert "Unknown" not in done.stderr


def test_every_option_can_be_given_by_the_environment(tmp_path, monkeypatch):
    """Of every command, under its name; what is typed counts more."""
    monkeypatch.setenv("KBENGINE_KEY_CREATE_SCOPE", "write")
    monkeypatch.setenv("KBENGINE_SERVE_PORT", "70000")
    made = kbengine("key", "create", "a", "--kb", tmp_path)
    typed = kbengine("key", "create", "b", "--scope", "read", "--kb", tmp_path)
    refused = kbengine("serve", "--kb", tmp_path)

    assert re.search(r"scope +write", made.stdout) and re.search(r"scope +read", typed.stdout)
    assert refused.returncode == 2 and "port is 70000" in refused.stderr
