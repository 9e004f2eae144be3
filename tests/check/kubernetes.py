#!/usr/bin/python3 -B
"""docker/kubernetes is what Kubernetes takes, and fits what it starts: no network, no cluster.

The schema here has the fields that these files use and no others: one that is misspelt, in the
wrong place or of another type is a problem. Then names, ports, users, keys and options are compared
with each other, with docker/Dockerfile, with docker/kubernetes/keys and with the options of the
programs. What only a cluster can say is not looked at; docs/guide/containers.md says so."""
import base64
import json
import os
import re
import subprocess
import tempfile

import jsonschema
import yaml

import sources

FOLDER = "docker/kubernetes"
TEXT, NUMBER, FLAG = (
    {"type": "string", "minLength": 1},
    {"type": "integer", "minimum": 0},
    {"type": "boolean"},
)
NAME = {"type": "string", "pattern": r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"}
LABELS = {"type": "object", "minProperties": 1, "additionalProperties": NAME}
QUANTITIES = {
    "type": "object",
    "additionalProperties": {"type": "string", "pattern": r"^[0-9]+(m|Mi|Gi)?$"},
}


def one_of(*values):
    return {"enum": list(values)}


def some(of):
    return {"type": "array", "items": of, "minItems": 1}


def table(required, **optional):
    return {
        "type": "object",
        "properties": {**required, **optional},
        "required": list(required),
        "additionalProperties": False,
    }


METADATA = table({"name": NAME}, labels=LABELS)
ENVIRONMENT = some(
    {
        "oneOf": [
            table({"name": {"type": "string", "pattern": "^[A-Z_]+$"}, "value": TEXT}),
            table(
                {
                    "name": {"type": "string", "pattern": "^[A-Z_]+$"},
                    "valueFrom": table({"fieldRef": table({"fieldPath": one_of("metadata.name")})}),
                }
            ),
        ]
    }
)
MOUNTS = some(
    table(
        {"name": NAME, "mountPath": {"type": "string", "pattern": "^/"}, "readOnly": one_of(True)},
        subPathExpr=TEXT,
    )
)
CONTAINER = table(
    {
        "name": NAME,
        "image": TEXT,
        "imagePullPolicy": one_of("IfNotPresent"),
        "env": ENVIRONMENT,
        "volumeMounts": MOUNTS,
        "securityContext": table(
            {
                "allowPrivilegeEscalation": one_of(False),
                "capabilities": table({"drop": one_of(["ALL"])}),
            }
        ),
    },
    command=some(TEXT),
    args=some(TEXT),
    ports=some(table({"name": NAME, "containerPort": NUMBER, "protocol": one_of("TCP")})),
    readinessProbe=table(
        {"exec": table({"command": some(TEXT)}), "periodSeconds": NUMBER, "timeoutSeconds": NUMBER}
    ),
    resources=table({"requests": QUANTITIES}, limits=QUANTITIES),
)
ITEMS = some(
    table(
        {
            "key": {"type": "string", "pattern": r"^[-._a-zA-Z0-9]{1,253}$"},
            "path": {"type": "string", "pattern": r"^(?!\.\.)[^/]"},
        }
    )
)
VOLUME = {
    "oneOf": [
        table({"name": NAME, "configMap": table({"name": NAME, "items": ITEMS})}),
        table(
            {
                "name": NAME,
                "secret": table({"secretName": NAME, "defaultMode": one_of(0o440), "items": ITEMS}),
            }
        ),
    ]
}
POD = table(
    {
        "automountServiceAccountToken": one_of(False),
        "enableServiceLinks": one_of(False),
        "containers": some(CONTAINER),
        "volumes": some(VOLUME),
        "securityContext": table(
            {
                "runAsNonRoot": one_of(True),
                "runAsUser": NUMBER,
                "runAsGroup": NUMBER,
                "fsGroup": NUMBER,
                "seccompProfile": table({"type": one_of("RuntimeDefault")}),
            }
        ),
    },
    initContainers=some(CONTAINER),
    restartPolicy=one_of("Never"),
    terminationGracePeriodSeconds=NUMBER,
    topologySpreadConstraints=some(
        table(
            {
                "maxSkew": NUMBER,
                "topologyKey": TEXT,
                "whenUnsatisfiable": one_of("ScheduleAnyway", "DoNotSchedule"),
                "labelSelector": table({"matchLabels": LABELS}),
            }
        )
    ),
)
TEMPLATE = table({"metadata": table({"labels": LABELS}), "spec": POD})
KINDS = {
    "Service": (
        "v1",
        table(
            {
                "clusterIP": one_of("None"),
                "publishNotReadyAddresses": FLAG,
                "selector": LABELS,
                "ports": some(table({"name": NAME, "port": NUMBER, "protocol": one_of("TCP")})),
            }
        ),
    ),
    "StatefulSet": (
        "apps/v1",
        table(
            {
                "serviceName": NAME,
                "replicas": NUMBER,
                "podManagementPolicy": one_of("Parallel", "OrderedReady"),
                "selector": table({"matchLabels": LABELS}),
                "template": TEMPLATE,
            }
        ),
    ),
    "Job": ("batch/v1", table({"backoffLimit": NUMBER, "template": TEMPLATE})),
}


class Loader(yaml.SafeLoader):
    """Refuses a key that is there twice."""

    def construct_mapping(self, node, deep=False):
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        if len(keys) != len(set(keys)):
            raise yaml.constructor.ConstructorError(
                None, None, f"a key is there twice: {keys}", node.start_mark
            )
        return super().construct_mapping(node, deep)


def documents(problems):
    found = {}
    for path in sorted(
        path for path in sources.files() if path.startswith(FOLDER + "/") and path.endswith(".yaml")
    ):
        for document in yaml.load_all(sources.text(path), Loader):
            kind = document.get("kind")
            if kind not in KINDS or kind in found:
                problems.append(
                    f"{path}: one document of each kind is expected, of {', '.join(KINDS)}; not "
                    f"{kind}"
                )
                continue
            version, spec = KINDS[kind]
            schema = table(
                {
                    "apiVersion": one_of(version),
                    "kind": one_of(kind),
                    "metadata": METADATA,
                    "spec": spec,
                }
            )
            for error in jsonschema.Draft7Validator(schema).iter_errors(document):
                problems.append(
                    f"{path}: {kind}.{'.'.join(map(str, error.absolute_path))}: {error.message}"
                )
            found[kind] = document
    return found


def printed_keys(problems):
    """The names in what docker/kubernetes/keys prints: {kind: (name, names of entries)}. Stands in
    for meshbus: makes the files that keygen makes."""
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "meshbus")
        with open(program, "w", encoding="utf-8") as file:
            file.write(
                '#!/bin/bash\nset -eu\n'
                '[[ "$1 $2 $3" == "keygen --if-missing --dir" ]]\nmkdir -p "$4/authorised/$5"\n'
                'for name in "${@:6}"; do echo a secret >"$4/$name.key"; '
                'echo public >"$4/authorised/$5/$name.pub"; done\n'
            )
        os.chmod(program, 0o755)
        done = subprocess.run(
            [os.path.join(sources.ROOT, FOLDER, "keys"), os.path.join(folder, "site")],
            capture_output=True,
            text=True,
            env={**os.environ, "MESHBUS": program},
        )
    if done.returncode != 0:
        problems.append(f"{FOLDER}/keys: exit {done.returncode}: {done.stderr}")
        return {}
    printed = {}
    for one in json.loads(done.stdout)["items"]:
        # In base64; what a ConfigMap has in `data` would be taken as it stands.
        entries = one.get({"ConfigMap": "binaryData", "Secret": "data"}[one["kind"]], {})
        wanted = {"ConfigMap": b"public\n", "Secret": b"a secret\n"}[one["kind"]]
        if not entries or any(
            base64.b64decode(value, validate=True) != wanted for value in entries.values()
        ):
            problems.append(
                f"{FOLDER}/keys: the {one['kind']} is not what the files have: {entries}"
            )
        printed[one["kind"]] = (one["metadata"]["name"], set(entries))
    return printed


def flags_of(verb):
    """The options of a verb of `meshbus`, as its program declares them; all sources of cli/ count,
    for some are shared."""
    text = "".join(sources.text(path) for path in sources.cpp_files() if path.startswith("cli/"))
    known = set(re.findall(r'"(?:-\w,)?(--[a-z-]+)[",]', text))
    return known if verb in ("host", "run", "ping") else set()


def main():
    problems = []

    def expect(holds, what):
        if not holds:
            problems.append(f"{FOLDER}: {what}")

    found = documents(problems)
    if problems or set(found) != set(KINDS):
        sources.finish(problems or [f"{FOLDER}: not all of {', '.join(KINDS)} are there"], "")
    service, hosts, job = (found[kind] for kind in ("Service", "StatefulSet", "Job"))
    pods = {"StatefulSet": hosts["spec"]["template"], "Job": job["spec"]["template"]}
    name, port, replicas = (
        service["metadata"]["name"],
        service["spec"]["ports"][0]["port"],
        hosts["spec"]["replicas"],
    )
    names = [f"{hosts['metadata']['name']}-{i}.{name}" for i in range(replicas)]

    labels = pods["StatefulSet"]["metadata"]["labels"]
    expect(hosts["spec"]["serviceName"] == name, "serviceName is not the name of the Service")
    for what, selector in (
        ("the Service", service["spec"]["selector"]),
        ("the StatefulSet", hosts["spec"]["selector"]["matchLabels"]),
    ):
        expect(
            selector.items() <= labels.items(),
            f"{what} does not select the pods of the StatefulSet",
        )
        expect(
            not selector.items() <= pods["Job"]["metadata"]["labels"].items(),
            f"{what} selects the pods of the Job, too",
        )

    dockerfile = sources.text("docker/Dockerfile")
    expect(
        str(port) in re.findall(r"^EXPOSE (\d+)$", dockerfile, re.M),
        f"port {port} is not the one of docker/Dockerfile",
    )
    user = int(re.search(r"useradd --uid (\d+)", dockerfile).group(1))
    printed = printed_keys(problems)
    mounted = {"configMap": set(), "secret": set()}
    for kind, pod in pods.items():
        spec = pod["spec"]
        context = spec["securityContext"]
        expect(
            {context["runAsUser"], context["runAsGroup"], context["fsGroup"]} == {user},
            f"{kind}: not the user of docker/Dockerfile",
        )
        volumes = {volume["name"]: volume for volume in spec["volumes"]}
        for volume in spec["volumes"]:
            source = "configMap" if "configMap" in volume else "secret"
            named = volume[source].get("name", volume[source].get("secretName"))
            there = printed.get({"configMap": "ConfigMap", "secret": "Secret"}[source], ("", set()))
            expect(named == there[0], f"{kind}: {named} is not what {FOLDER}/keys makes")
            for item in volume[source]["items"]:
                mounted[source].add(item["key"])
                expect(
                    item["key"] in there[1],
                    f"{kind}: {item['key']} is not in what {FOLDER}/keys makes",
                )
                if source == "configMap":
                    role, holder = item["key"][: -len(".pub")].split(".", 1)
                    expect(
                        item["path"] == f"authorised/{role}/{holder}.pub",
                        f"{kind}: {item['key']} is mounted as {item['path']}",
                    )
        for container in spec["containers"] + spec.get("initContainers", []):
            where = f"{kind}, container {container['name']}"
            variables = {one["name"]: one.get("value") for one in container["env"]}
            mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
            expect(
                all(mount["name"] in volumes for mount in mounts.values()),
                f"{where} mounts a volume that is not there",
            )
            # The root of such a volume is open to all (1777); what is below ..data is not.
            expect(
                variables.get("MESHBUS_KEYS_DIRECTORY") == "/keys/..data"
                and "configMap" in volumes[mounts["/keys"]["name"]],
                f"{where} does not look for keys where they are",
            )
            own = variables.get("MESHBUS_KEYS_OWN", "")
            mount = mounts.get(own) or mounts.get(os.path.dirname(own)) or {}
            paths = {
                item["path"]
                for item in volumes.get(mount.get("name"), {}).get("secret", {}).get("items", [])
            }
            wanted = (
                [mount["subPathExpr"].replace("$(POD_NAME)", one.split(".")[0]) for one in names]
                if "subPathExpr" in mount
                else [os.path.basename(own)]
            )
            expect(
                set(wanted) == paths,
                f"{where}: its own key is not among those mounted, or others are: {sorted(paths)}",
            )
            settings = {
                "MESHBUS_" + key.replace(".", "_").upper()
                for key in re.findall(
                    r'^ +\{"([a-z_.]+)", ValueKind',
                    sources.text("common/config/config_keys.h"),
                    re.M,
                )
            }
            for variable in variables:
                expect(
                    variable in settings | {"POD_NAME", "MESHBUS_HOSTS"},
                    f"{where}: {variable} is no setting",
                )
            words = container.get("args", [])
            probe = (
                container.get("readinessProbe", {})
                .get("exec", {})
                .get("command", ["meshbus", "ping"])
            )
            for words in (words[: words.index("--")] if "--" in words else words, probe[1:]):
                for word in words[1:]:
                    flag = word.split("=")[0]
                    expect(
                        not flag.startswith("--") or flag in flags_of(words[0]),
                        f"{where}: meshbus {words[0]} has no {flag}",
                    )
    expect(
        mounted == {"configMap": printed["ConfigMap"][1], "secret": printed["Secret"][1]}
        if printed
        else True,
        f"some of what {FOLDER}/keys makes is mounted nowhere",
    )

    host = pods["StatefulSet"]["spec"]["containers"][0]
    arguments = dict(zip(host["args"][1::2], host["args"][2::2]))
    address = f"tcp:$(POD_NAME).{name}:{port}"
    expect(arguments.get("--advertise") == address, f"hosts are not known as {address}")
    expect(arguments.get("--bind") == f"tcp:*:{port}", f"hosts do not listen on port {port}")
    expect(
        {"name": "MESHBUS_HOSTS", "value": address} in host["env"],
        "a host does not ask itself whether it is well",
    )
    expect(host["ports"][0]["containerPort"] == port, "containerPort is another port")
    grace = int(re.fullmatch(r"(\d+)s", arguments.get("--grace", "0s")).group(1))
    expect(
        0 < grace < pods["StatefulSet"]["spec"]["terminationGracePeriodSeconds"],
        "--grace is not shorter than terminationGracePeriodSeconds",
    )
    expect(
        printed.get("ConfigMap", ("", set()))[1]
        == {f"host.{one}.pub" for one in names} | {"operator.launcher.pub"},
        f"{FOLDER}/keys makes keys of other hosts than {', '.join(names)}",
    )
    for container in pods["Job"]["spec"]["containers"] + pods["Job"]["spec"]["initContainers"]:
        expect(
            {
                "name": "MESHBUS_HOSTS",
                "value": f"tcp:{hosts['metadata']['name']}-[0-{replicas - 1}].{name}:{port}",
            }
            in container["env"],
            f"Job, container {container['name']}: MESHBUS_HOSTS are not the hosts of the "
            f"StatefulSet",
        )
    sources.finish(problems, f"{len(found)} documents, {replicas} hosts")


if __name__ == "__main__":
    main()
