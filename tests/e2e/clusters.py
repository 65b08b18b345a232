"""Kubernetes clusters for tests: a thin layer over tests/engines/cluster and kubectl."""

import ctypes
import json
import os
import socket
import subprocess
import tempfile
import threading
from pathlib import Path

from engines import SCRIPTS, image_options, script


class Cluster:
    """A cluster with `nodes` nodes that run real Pods (node-1, node-2, …), and `kwok` nodes that simulate Pods."""

    def __init__(self, nodes=0, kwok=0, silent_after=None, log_size=None):
        self.options = [
            *(["--nodes", nodes] if nodes else []),
            *(["--kwok", kwok] if kwok else []),
            *(["--silent-after", silent_after] if silent_after else []),
            *(["--log-size", log_size] if log_size else []),
        ]
        self.dir = Path(tempfile.mkdtemp(prefix="cluster-", dir=os.environ.get("COMBU_TEST_DIR")))
        self.kubeconfig = self.dir / "kubeconfig"  # the administrator's
        self.forwards = {}  # by port

    def start(self):
        """Starts the parts that do not run."""
        script("cluster", "start", self.dir, *self.options)

    def kill9(self, part):
        """Sends SIGKILL to one part, or cuts the power of a node with real Pods: all processes of the node end."""
        script("cluster", "kill9", self.dir, part)

    def cut(self, node):
        """Cuts a node with real Pods off the network until start(). Its Pods go on."""
        script("cluster", "cut", self.dir, node)

    def address(self):
        """Returns the address of this machine in the network of the nodes with real Pods."""
        values = dict(line.split("=") for line in (self.dir / "addresses").read_text(encoding="utf-8").split())
        return f"{values['net']}.1"

    def terminate(self, part):
        """Ends one part by SIGTERM. The API server first ends all watches regularly."""
        script("cluster", "term", self.dir, part)

    def compact(self):
        """Makes etcd forget all versions of objects except the newest ones."""
        script("cluster", "compact", self.dir)

    def silence_node(self, name):
        """Makes a simulated node as silent as a machine without network. Its pods go on."""
        self.kubectl("label", "node", name, "type-")

    def end_silence(self, name):
        self.kubectl("label", "node", name, "type=kwok")

    def kill_container(self, pod):
        """Kills the first process of a Pod on the real node, as the kernel does if memory runs out."""
        container = pod["status"]["containerStatuses"][0]["containerID"].removeprefix("containerd://")
        self._ctr("tasks", "kill", "--signal", "SIGKILL", container)

    def wipe(self):
        script("cluster", "wipe", self.dir)

    def load_image(self, name, **options):
        """Builds the test image on all nodes with real Pods; image_options() describes the options."""
        script("image", self.dir, *image_options(**options), name)

    # ---- Registries on this machine, which the real node reaches

    def start_registry(self, account=None):
        """Starts a registry, which requires a login if `account` is USER:PASSWORD. Returns its address."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        script("registry", "start", self.dir, port, *([account] if account else []))
        self.forwards[port] = Forward((self.dir / "node-1.pid").read_text(encoding="utf-8").strip(), port)
        return f"127.0.0.1:{port}"

    def stop_registry(self, address):
        port = int(address.split(":")[1])
        self.forwards.pop(port).close()
        script("registry", "stop", self.dir, port)

    def push(self, image, name, account=None):
        """Pushes an image of the real node to a registry as `name`, and removes this name from the node."""
        self._ctr("images", "tag", "--force", f"docker.io/library/{image}", name)
        self._ctr("images", "push", "--plain-http", *(["--user", account] if account else []), name)
        self._ctr("images", "rm", name)

    def _ctr(self, *arguments):
        command = ["ctr", "--address", self.dir / "containerd-1.sock", "--namespace", "k8s.io", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, f"{arguments}: {done.stderr}"

    def new_namespace(self, name):
        """Creates a namespace, and returns its user."""
        kubeconfig = self.dir / f"{name}.kubeconfig"
        script("cluster", "user", self.dir, name, kubeconfig)
        return User(self, name, kubeconfig)

    def kubectl(self, *arguments, kubeconfig=None, stdin=None, code=0):
        """Runs kubectl, by default as administrator, and returns its standard output. Fails unless the exit code is `code` (None: any).

        If `code` is not 0, returns the standard error.
        """
        done = subprocess.run(
            [SCRIPTS / "cluster", "kubectl", self.dir, *(["--kubeconfig", kubeconfig] if kubeconfig else []), *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert code in (None, done.returncode), f"kubectl {arguments}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout if code == 0 else done.stderr

    def account(self):
        """Returns a text for the report of a failed test: all pods, and the end of each log."""
        lines = [self.kubectl("get", "pods", "--all-namespaces", "--output", "wide")]
        for log in sorted(self.dir.glob("*.log")):
            lines += [f"== {log.name}", *log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:]]
        return "\n".join(lines)


class Forward:
    """Makes a port of this machine's 127.0.0.1 the same port of 127.0.0.1 in the network namespace of a process."""

    def __init__(self, pid, port):
        self.port = port
        self.listener = None
        opened = threading.Event()
        threading.Thread(target=self._serve, args=(pid, opened), daemon=True).start()
        assert opened.wait(10) and self.listener, "the port cannot be opened in the node"

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)

    def _serve(self, pid, opened):
        libc = ctypes.CDLL(None, use_errno=True)
        with open("/proc/thread-self/ns/net", "rb") as own, open(f"/proc/{pid}/ns/net", "rb") as other:
            # A socket stays in the namespace in which it was made, and each thread has its own namespace.
            if libc.setns(other.fileno(), 0) == 0:
                self.listener = socket.create_server(("127.0.0.1", self.port))
                assert libc.setns(own.fileno(), 0) == 0
        opened.set()
        with self.listener:
            while True:
                try:
                    client, _ = self.listener.accept()
                except OSError:
                    return
                server = socket.create_connection(("127.0.0.1", self.port))
                for ends in ((client, server), (server, client)):
                    threading.Thread(target=self._copy, args=ends, daemon=True).start()

    @staticmethod
    def _copy(source, target):
        try:
            while block := source.recv(65536):
                target.sendall(block)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            return


class User:
    """A user who has rights in one namespace only."""

    def __init__(self, cluster, name, kubeconfig):
        self.cluster = cluster
        self.name = name
        self.kubeconfig = kubeconfig

    def kubectl(self, *arguments, **options):
        return self.cluster.kubectl(*arguments, kubeconfig=self.kubeconfig, **options)

    def create(self, *objects):
        self.kubectl("create", "--filename", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))

    def get(self, kind, name):
        return json.loads(self.kubectl("get", kind, name, "--output", "json"))

    def combu_environment(self):
        return {"KUBECONFIG": str(self.kubeconfig)}

    def combu_options(self):
        return ["--engine", "kubernetes"]

    def pods(self):
        """Returns {name of the trial: Pod} of all Pods in the namespace."""
        pods = json.loads(self.kubectl("get", "pods", "--output", "json"))["items"]
        return {pod["metadata"].get("annotations", {}).get("combu.trial", pod["metadata"].get("labels", {}).get("combu.trial")): pod for pod in pods}

    def account(self):
        return self.cluster.account()


def pod(name, script, annotations=None, **spec):
    """Returns a pod that runs a shell script once in the test image on a real node."""
    container = {"name": "main", "image": "combu-test", "imagePullPolicy": "Never", "command": ["sh", "-c", script]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations or {}},
        "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container], **spec},
    }


def simulated_pod(name, annotations=None):
    """Returns a pod that a simulated node runs. tests/engines/kubernetes/kwok.yaml describes the annotations."""
    tolerations = [{"key": "kwok.x-k8s.io/node", "operator": "Exists"}]
    return pod(name, "", annotations, nodeSelector={"type": "kwok"}, tolerations=tolerations)


def simulated_trial(name, annotations=None, **fields):
    """Returns a trial whose Pods a simulated node runs."""
    tolerations = [{"key": "kwok.x-k8s.io/node", "operator": "Exists"}]
    section = {"pod": {"nodeSelector": {"type": "kwok"}, "tolerations": tolerations}, "metadata": {"annotations": annotations or {}}}
    return {"name": name, "image": "combu-test", "kubernetes": section, **fields}
