"""Tests of `validate` and `plan`: the plan of a file, or its errors."""

import json
import os
import re

import pytest


def test_validate_says_nothing_of_a_good_file(combu, ladder):
    result = combu("-f", ladder, "validate")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_every_error_is_told_on_its_line(combu, write):
    write("""[
      { name: "a", image: "x", ports: [{ host: 0, container: 80 }] },
      { name: "b", imgae: "x" },
      { name: "c", image: "x", depends: ["a", "d"] },
      { name: "c", image: "x" },
    ]""")
    result = combu("-f", "experiment.jsonnet", "validate")
    lines = result.stderr.splitlines()
    assert result.returncode == 2
    assert result.stdout == ""
    assert len(lines) >= 4
    assert all(line.startswith("experiment.jsonnet: [") or line.startswith("experiment.jsonnet: c") for line in lines)
    assert any("[0].ports[0]" in line for line in lines)
    assert any("imgae" in line and "image" in line for line in lines)
    assert any("[2].depends[1]" in line and "d" in line for line in lines)


@pytest.mark.parametrize("command", ["validate", "plan", "run"])
def test_errors_of_the_file_are_the_same_for_all(combu, write, command):
    write('[{ name: "a", image: "x", depends: ["a"] }]')
    result = combu("-f", "experiment.jsonnet", "--engine", "simulated:?speed=0", command)
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.startswith("experiment.jsonnet: ")


def test_errors_come_in_the_files_order(combu, write):
    write("""[
      { name: "a1", image: "x", depends: ["nobody"] },
      { name: "b1", image: "x", docker: { HostConfig: { Memry: 1 } } },
      { name: "c1", img: "x" },
      { name: "d1", image: "x", depends: [{ trial: "e1", condition: "helthy" }] },
      { name: "e1", image: "x", depends: ["d1"] },
    ]""")
    result = combu("-f", "experiment.jsonnet", "validate")
    assert result.returncode == 2
    lines = [line.removeprefix("experiment.jsonnet: ") for line in result.stderr.splitlines()]
    assert [line.split(":")[0] for line in lines] == [
        "[0].depends[0]", "[1].docker.HostConfig.Memry", "[2].img", "[3].depends[0].condition", "[3].depends"], lines
    assert "did you mean Memory?" in lines[1]
    assert "did you mean `image`?" in lines[2]
    assert "d1 → e1 → d1" in lines[4] or "e1 → d1 → e1" in lines[4]


@pytest.mark.parametrize("command", ["validate", "plan", "run"])
def test_what_is_legal_and_rarely_meant_is_a_warning(combu, write, command):
    write("""{
      defaults: { image: "x" },
      trials: [{ name: "solver-%d" % i, cmd: "make && make test" } for i in [1, 2, 3]] +
              [{ name: "named", env: { RUN: "UUID" } }, { name: "kept", cache: true, volumes: ["./data:/data"] }],
    }""")
    result = combu("-f", "experiment.jsonnet", "--engine", "simulated:?speed=0", command)
    assert result.returncode == 0, result.stderr
    warnings = [line for line in result.stderr.splitlines() if ": warning: " in line]
    assert warnings[0] == ('experiment.jsonnet: warning: solver-1 and 2 more: cmd: contains `&&`, but no shell is used; '
                           'write ["sh", "-c", "..."]')
    assert warnings[1].startswith("experiment.jsonnet: warning: named: env.RUN: the text UUID is not replaced")
    assert warnings[2].startswith("experiment.jsonnet: warning: kept: cache: the content of ")
    assert len(warnings) == 3
    quiet = combu("-f", "experiment.jsonnet", "--engine", "simulated:?speed=0", "--progress", "quiet", "validate")
    assert (quiet.returncode, quiet.stderr) == (0, "")


def test_errors_come_without_warnings(combu, write):
    write("[{ name: 'solver', cmd: 'a && b' }]")
    result = combu("-f", "experiment.jsonnet", "validate")
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1 and "warning" not in result.stderr


FOREIGN = """add_host annotations blkio_config blkio_weight cap_add cap_drop cgroup cgroup_parent cgroupns cpu_rt_period
    cpu_rt_runtime cpu_shares cpuset cpuset_cpus cpuset_mems device device_cgroup_rules devices dns dns_opt dns_option dns_search
    extra_hosts group_add ipc log_driver logging mem_reservation mem_swappiness memory_reservation memory_swap memory_swappiness
    memswap_limit oom_kill_disable oom_score_adj pid pids_limit privileged read_only runtime security_opt storage_opt sysctl sysctls
    tmpfs ulimit ulimits userns userns_mode uts volumes_from domainname hostname mac_address stdin_open tty
    CapAdd Ulimits Privileged Hostname""".split()


def test_a_field_of_compose_that_the_engine_has_is_refused_with_the_line_to_write(combu, write):
    write("[%s]" % ", ".join(f'{{ name: "t-{i}", image: "x", {field}: 1 }}' for i, field in enumerate(FOREIGN)))
    refused = combu("-f", "experiment.jsonnet", "validate")
    assert refused.returncode == 2
    lines = re.findall(r"^experiment\.jsonnet: \[\d+\]\.(\w+): unknown field `\1`; write (docker: .*) \(trial `t-\d+`\)$", refused.stderr, re.M)
    assert [field for field, _ in lines] == FOREIGN
    assert dict(lines)["ulimits"] == 'docker: { HostConfig: { Ulimits: [{ Name: "nofile", Soft: 1024, Hard: 2048 }] } }'
    assert dict(lines)["Hostname"] == dict(lines)["hostname"] == 'docker: { Hostname: "solver" }'
    write("[%s]" % ", ".join(f'{{ name: "t-{i}", image: "x", {line} }}' for i, (_, line) in enumerate(lines)))
    written = combu("-f", "experiment.jsonnet", "validate")
    assert (written.returncode, written.stderr) == (0, "")


OF_PODS = """affinity dnsConfig hostAliases imagePullSecrets initContainers nodeSelector priorityClassName runtimeClassName
    schedulerName securityContext serviceAccountName tolerations topologySpreadConstraints envFrom metadata""".split()


def test_a_field_of_a_pod_is_refused_with_the_line_to_write(combu, write):
    write("[%s]" % ", ".join(f'{{ name: "t-{i}", image: "x", {field}: 1 }}' for i, field in enumerate(OF_PODS)))
    refused = combu("-f", "experiment.jsonnet", "validate")
    assert refused.returncode == 2
    lines = re.findall(r"^experiment\.jsonnet: \[\d+\]\.(\w+): unknown field `\1`; write (kubernetes: .*) \(trial `t-\d+`\)$", refused.stderr, re.M)
    assert [field for field, _ in lines] == OF_PODS
    assert dict(lines)["nodeSelector"] == 'kubernetes: { pod: { nodeSelector: { "kubernetes.io/arch": "amd64" } } }'
    write("[%s]" % ", ".join(f'{{ name: "t-{i}", image: "x", {line} }}' for i, (_, line) in enumerate(lines)))
    written = combu("-f", "experiment.jsonnet", "validate")
    assert (written.returncode, written.stderr) == (0, "")


def test_other_engines_ignore_the_fields_of_kubernetes(combu, write):
    write("""{
      keep: "ended", ttl: "1h", isolate: true,
      defaults: { image: "x", kubernetes: { pod: { nodeSelector: { disk: "ssd" } } }, docker: { HostConfig: { CpuShares: 512 } } },
      trials: [{ name: "solver", volumes: [{ host: "/proc/not-on-this-machine", container: "/data", mode: "ro", remote: true }] }],
    }""")
    result = combu("-f", "experiment.jsonnet", "--engine", "simulated:?speed=0", "run", "--wait")
    assert result.returncode == 0, result.stderr
    assert "/proc/not-on-this-machine:/data:ro (remote)" in combu("show", "solver").stdout


@pytest.mark.parametrize("field, instead", [
    ("restart", "use `retries`"), ("restartPolicy", "use `retries`"), ("readinessProbe", "use `healthcheck`"), ("args", "use `cmd`"), ("links", "use `networks`"), ("expose", "leave the field out: "),
    ("configs", "use `inputs`"), ("extends", "use `base + "), ("cpu_quota", "use `cpus`")])
def test_a_field_of_compose_that_is_called_otherwise_is_refused_with_its_name(combu, write, field, instead):
    write('{ defaults: { image: "x", %s: "y" }, trials: [{ name: "solver" }] }' % field)
    result = combu("-f", "experiment.jsonnet", "validate")
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)
    assert result.stderr.startswith(f"experiment.jsonnet: defaults.{field}: unknown field `{field}`; {instead}")


COMPOSE = """# the lab
services:
  web:
    image: nginx
    command: ["serve", "--all"]
"""
WRITE = '{ trials: [{ name: "NAME", image: "IMAGE", cmd: "COMMAND" }] }, see `man combu-experiment`'


@pytest.mark.parametrize("name, text, kind, what", [
    ("docker-compose.yml", COMPOSE, "Compose file (YAML)", "its services"),
    ("compose.yaml", "name: lab\n" + COMPOSE, "Compose file (YAML)", "its services"),
    ("compose", COMPOSE, "Compose file (YAML)", "its services"),
    ("quoted", '---\n"services":\n  web: {image: nginx}\n', "Compose file (YAML)", "its services"),
    ("trials.yml", "{trials: [{name: solver}]}", "YAML file", "the experiment"),
    ("trials", "trials:\r\n- name: solver\r\n  image: x\r\n", "YAML file", "the experiment"),
    ("list", "- name: solver\n  image: x\n", "YAML file", "the experiment"),
])
@pytest.mark.parametrize("command", ["validate", "run"])
def test_a_file_of_yaml_is_refused_as_such(combu, write, name, text, kind, what, command):
    write(text, name)
    error = f"{name}: this is a {kind}, and combu reads Jsonnet; write {what} as {WRITE}\n"
    for result in (combu(command, name), combu("-f", name, command)):
        assert (result.returncode, result.stdout, result.stderr) == (2, "", error)


def test_yaml_on_standard_input_is_refused_as_such(combu):
    result = combu("-f", "-", "validate", input=COMPOSE)
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)
    assert result.stderr.startswith("<stdin>: this is a Compose file (YAML), and combu reads Jsonnet; ")


@pytest.mark.parametrize("text, error", [
    ("# services:\n[\n  { name: }\n]", "experiment.jsonnet:3:"),
    ("local services = { web: 1 ;\nservices:\n", "experiment.jsonnet:1:"),
    ("services: error 'no'", "experiment.jsonnet: this is a Compose file (YAML)"),
    ("{ trials: error 'no' }", "experiment.jsonnet:1:11: no"),
])
def test_wrong_jsonnet_is_not_taken_for_yaml(combu, write, text, error):
    write(text)
    result = combu("-f", "experiment.jsonnet", "validate")
    assert result.returncode == 2
    assert result.stderr.startswith(error)


def test_a_file_of_yaml_that_is_jsonnet_too_is_read(combu, write):
    write('[{ "name": "solver", "image": "x" }]', "experiment.yaml")
    assert combu("validate", "experiment.yaml").returncode == 0
    write("[{ name: 'solver', image: error 'no' }]", "experiment.yaml")
    assert combu("validate", "experiment.yaml").stderr.startswith("experiment.yaml:1:27: no\n")


def test_a_compose_file_as_json_is_refused_as_such(combu, write):
    write(json.dumps({"name": "lab", "services": {"web": {"image": "nginx", "command": None, "networks": {"default": None}}},
                      "networks": {"default": {"name": "lab_default"}}}), "compose.json")
    result = combu("validate", "compose.json")
    assert (result.returncode, result.stderr) == (
        2, f"compose.json: this is a Compose file, and combu reads trials; write its services as {WRITE}\n")


def test_a_byte_order_mark_is_passed_over(combu, write):
    write("\ufeff[{ name: 'solver', image: 'x' }]")
    result = combu("-f", "experiment.jsonnet", "validate")
    assert (result.returncode, result.stderr) == (0, "")


def test_a_path_that_no_label_can_hold_is_refused(combu, write, tmp_path):
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9")
    os.mkdir(folder)
    write("[{ name: 'solver', image: 'x' }]", f"{folder}/experiment.jsonnet")
    for command in ("validate", "run", "kill", "ps"):
        result = combu("--engine", "simulated:", "-f", f"{folder}/experiment.jsonnet", command)
        assert result.returncode == 2
        assert "the path must be UTF-8" in result.stderr and result.stderr.count("\n") == 1


def test_a_missing_argument_is_named_with_its_option(combu, write):
    write('function(lab) [{ name: "a", image: "x" }]')
    result = combu("-f", "experiment.jsonnet", "validate")
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)
    assert "-A lab=VALUE" in result.stderr
    write('[{ name: std.extVar("lab"), image: "x" }]')
    result = combu("-f", "experiment.jsonnet", "validate")
    assert result.returncode == 2
    assert "-V lab=VALUE" in result.stderr.splitlines()[0]


def test_a_syntax_error_keeps_its_place(combu, write):
    write("[\n  { name: }\n]")
    result = combu("-f", "experiment.jsonnet", "validate")
    assert result.returncode == 2
    assert "experiment.jsonnet:2:" in result.stderr
    assert result.stderr.count("experiment.jsonnet") == 1


def test_an_error_of_the_evaluation_has_its_line_its_callers_and_its_field(combu, write):
    write("local lr(i) = if i > 1 then error 'no more' else 0.1 / i;\n"
          "local trial(i) = { name: 'a-' + i, image: 'x', cmd: ['train', '--lr=' + lr(i)] };\n"
          "{ trials: [trial(i) for i in [1, 2]] }\n")
    result = combu("-f", "experiment.jsonnet", "plan")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == (
        "experiment.jsonnet:1:29: no more\n"
        "    local lr(i) = if i > 1 then error 'no more' else 0.1 / i;\n"
        "                                ^\n"
        "  from experiment.jsonnet:2:73: local trial(i) = { name: 'a-' + i, image: 'x', cmd: ['train', '--lr=' + lr(i)] };\n"
        "  in trials[1].cmd[1]\n")


def test_a_file_that_is_not_there(combu):
    result = combu("-f", "nowhere.jsonnet", "plan")
    assert result.returncode == 2
    assert "nowhere.jsonnet" in result.stderr


def test_standard_input(combu):
    result = combu("-f", "-", "plan", "--json", input='[{ name: "alone", image: "x" }]')
    assert result.returncode == 0
    assert json.loads(result.stdout)["file"].endswith("/-")
    result = combu("-f", "-", "validate", input='[{ name: "a", image: 3 }]')
    assert result.returncode == 2
    assert result.stderr.startswith("<stdin>: [0].image")


def test_variables_and_arguments(combu, write):
    write("""function(count, mode="x") [
      { name: "%s-%d" % [mode + std.extVar("who") + std.toString(std.extVar("n") + 1), id], image: "x" }
      for id in std.range(1, count)]""")
    result = combu("plan", "--json", "-f", "experiment.jsonnet", "-V", "who", "--ext-code", "n=[1,2][0]",
                   "--tla-code", "count=2", "-A", "mode=m", env={"who": "me"})
    assert (result.returncode, result.stderr) == (0, "")
    assert json.loads(result.stdout)["waves"] == [["mme2-1", "mme2-2"]]


def test_folders_for_imports(combu, write):
    write('import "trials.libsonnet"')
    write('[{ name: "alone", image: "x" }]', "library/trials.libsonnet")
    assert combu("-f", "experiment.jsonnet", "plan").returncode == 2
    assert combu("-f", "experiment.jsonnet", "plan", "-J", "library").returncode == 0


def test_plan_for_people(combu, ladder):
    result = combu("-f", ladder, "plan")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == (
        "4 trials in 2 waves, 3 dependencies, 2 images, 0 networks\n"
        "wave 1: 1 trial   loader\n"
        "wave 2: 3 trials  solver-[1-3]\n")


def test_plan_as_json(combu, ladder):
    plan = json.loads(combu("-f", ladder, "plan", "--json").stdout)
    assert plan["experiment"] == plan["file"] == str(ladder)
    assert (plan["trials"], plan["edges"]) == (4, 3)
    assert plan["waves"] == [["loader"], ["solver-1", "solver-2", "solver-3"]]
    assert plan["needs"]["solver-2"] == [{"trial": "loader", "condition": "started"}]


def test_limits_of_the_evaluation(combu, write):
    write("local f(n) = f(n + 1) tailstrict; f(0)")
    result = combu("-f", "experiment.jsonnet", "validate", "--evaluate-time", "1s")
    assert result.returncode == 2
    assert result.stderr.splitlines()[-1].startswith("experiment.jsonnet")
