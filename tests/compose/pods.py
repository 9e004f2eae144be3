"""docker/kubernetes on a plain engine: each container of the manifests is started as a kubelet
would start it, on one node. What it does not have is a cluster: API server, scheduler, services,
restarts."""
import base64
import json
import os
import re
import subprocess

import yaml


class Pods:
    """What is in hosts.yaml and job.yaml, and in the objects that `keys` prints, as containers.
    `docker` runs the command of that name."""

    def __init__(self, docker, folder, image, network, directory):
        self.docker, self.image, self.network, self.directory = docker, image, network, directory
        self.started = []
        objects = list(self.keys(folder)["items"])
        for name in ("hosts.yaml", "job.yaml"):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                objects += [one for one in yaml.safe_load_all(file) if one]
        self.objects = {(one["kind"], one["metadata"]["name"]): one for one in objects}

    def keys(self, folder):
        """With the meshbus of the image in the place of one on this machine."""
        program = os.path.join(self.directory, "meshbus")
        site = os.path.join(self.directory, "site")
        with open(program, "w", encoding="utf-8") as file:
            file.write(
                f'#!/bin/sh\nexec docker run --rm --network none -u "$(id -u)" '
                f'-v "{site}:{site}" {self.image} "$@"\n'
            )
        os.chmod(program, 0o755)
        os.mkdir(site, 0o700)
        done = subprocess.run(
            [os.path.join(folder, "keys"), site],
            env={**os.environ, "MESHBUS": program},
            capture_output=True,
            text=True,
            check=True,
        )
        return json.loads(done.stdout)

    def volume(self, pod, spec, group):
        """A volume of a ConfigMap or Secret, as kubelets lay it out: ..data names a directory that
        is replaced whole."""
        path = os.path.join(self.directory, pod, spec["name"])
        if os.path.isdir(path):
            return path
        source = spec.get("configMap") or spec["secret"]
        kind, name = (
            ("ConfigMap", source["name"])
            if "configMap" in spec
            else ("Secret", source["secretName"])
        )
        data = self.objects[kind, name].get("binaryData") or self.objects[kind, name]["data"]
        os.makedirs(os.path.join(path, "..1"))
        for item in source["items"]:
            file = os.path.join(path, "..1", item["path"])
            os.makedirs(os.path.dirname(file), exist_ok=True)
            with open(file, "wb") as content:
                content.write(base64.b64decode(data[item["key"]]))
            os.chmod(file, source.get("defaultMode", 0o644))
        subprocess.run(["chgrp", "-R", str(group), path], check=True)
        os.symlink("..1", os.path.join(path, "..data"))
        for entry in os.listdir(os.path.join(path, "..1")):
            os.symlink(os.path.join("..data", entry), os.path.join(path, entry))
        os.chmod(path, 0o1777)
        return path

    def words(self, pod, spec, container):
        """The words of `docker run` for that container."""
        safe, inner = spec["securityContext"], container["securityContext"]
        environment = {}
        for one in container.get("env", []):
            value = (
                one["value"]
                if "value" in one
                else {"metadata.name": pod}[one["valueFrom"]["fieldRef"]["fieldPath"]]
            )
            environment[one["name"]] = expand(value, environment)
        words = [
            "--user",
            f"{safe['runAsUser']}:{safe['runAsGroup']}",
            "--group-add",
            str(safe["fsGroup"]),
            "--network",
            self.network,
        ]
        words += [
            word
            for capability in inner["capabilities"]["drop"]
            for word in ("--cap-drop", capability)
        ]
        if not inner["allowPrivilegeEscalation"]:
            words += ["--security-opt", "no-new-privileges"]
        for name, value in environment.items():
            words += ["--env", f"{name}={value}"]
        volumes = {one["name"]: one for one in spec["volumes"]}
        for mount in container["volumeMounts"]:
            path = self.volume(pod, volumes[mount["name"]], safe["fsGroup"])
            if "subPathExpr" in mount:
                path = os.path.realpath(
                    os.path.join(path, expand(mount["subPathExpr"], environment))
                )
            words += [
                "--volume",
                f"{path}:{mount['mountPath']}" + (":ro" if mount.get("readOnly") else ""),
            ]
        command = [expand(word, environment) for word in container.get("command", [])]
        if command:
            words += ["--entrypoint", command[0]]
        return words + [
            self.image,
            *command[1:],
            *[expand(word, environment) for word in container.get("args", [])],
        ]

    def host(self, rank):
        """Starts that pod of the StatefulSet, also once more."""
        owner = self.objects["StatefulSet", "meshbus"]["spec"]
        spec, pod = owner["template"]["spec"], f"meshbus-{rank}"
        (container,) = spec["containers"]
        self.docker(
            "run",
            "-d",
            "--name",
            pod,
            "--hostname",
            pod,
            "--network-alias",
            f"{pod}.{owner['serviceName']}",
            "--stop-timeout",
            str(spec["terminationGracePeriodSeconds"]),
            *self.words(pod, spec, container),
        )
        self.started.append(pod)
        return pod

    def replicas(self):
        return self.objects["StatefulSet", "meshbus"]["spec"]["replicas"]

    def is_ready(self, pod):
        (container,) = self.objects["StatefulSet", "meshbus"]["spec"]["template"]["spec"][
            "containers"
        ]
        return (
            self.docker(
                "exec", pod, *container["readinessProbe"]["exec"]["command"], check=False
            ).returncode
            == 0
        )

    def job(self, timeout):
        """What its launcher said and how it ended, after its init containers."""
        spec = self.objects["Job", "meshbus-run"]["spec"]["template"]["spec"]
        for container in [*spec.get("initContainers", []), *spec["containers"]]:
            done = self.docker(
                "run",
                "--rm",
                *self.words("meshbus-run", spec, container),
                check=False,
                timeout=timeout,
            )
            if done.returncode != 0:
                break
        return done

    def end(self):
        for pod in self.started:
            self.docker("rm", "-f", pod, check=False)


def expand(text, environment):
    """$(NAME) of variables that are there, and $$ for a dollar sign."""
    return re.sub(
        r"\$\$|\$\((\w+)\)",
        lambda found: "$" if found[0] == "$$" else environment.get(found[1], found[0]),
        text,
    )
