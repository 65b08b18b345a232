"""Tables, plots and exports of metrics, for runs with and without an owner."""

import csv
import io
import json

from engines import wait_until


def grid(lrs, more=""):
    """Returns one trial for each learning rate and seed. Its last loss is ten times the rate plus a tenth of the seed."""
    points = [{"lr": lr, "seed": seed} for lr in lrs for seed in (1, 2)]
    trials = [
        {
            "name": f"t-{point['lr']}-{point['seed']}",
            "params": point,
            "cmd": ["sh", "-c", f"echo '{{\"step\": 1, \"loss\": 9}}'; echo '{{\"step\": 2, \"loss\": {point['lr'] * 10 + point['seed'] / 10}}}'{more}"],
        }
        for point in points
    ]
    return {"experiment": "fit", "defaults": {"image": "combu-test", "metrics": "json"}, "trials": trials}


def objects(combu, *arguments):
    return {row["trial"]: row for row in map(json.loads, combu("results", "--json", *arguments).stdout.splitlines())}


def test_results_of_a_run_without_an_owner_include_running_trials(combu, engine):
    combu.write(grid([1, 2], more="; [ $COMBU_PARAM_SEED = 1 ] || sleep 600"))
    combu("run")
    wait_until(lambda: engine.running() == {"t-1-2", "t-2-2"}, "two have ended")
    rows = wait_until(lambda: (rows := objects(combu)) and all(row["metrics"] for row in rows.values()) and rows, "those that run have told, too")
    assert {name: (row["state"], row["metrics"]["loss"]["last"], row["metrics"]["loss"]["greatest"]) for name, row in rows.items()} == {
        "t-1-1": ("succeeded", 10.1, 10.1),
        "t-1-2": ("running", 10.2, 10.2),
        "t-2-1": ("succeeded", 20.1, 20.1),
        "t-2-2": ("running", 20.2, 20.2),
    }
    combu("kill")
    assert {name: row["metrics"]["loss"]["points"] for name, row in objects(combu).items()} == dict.fromkeys(rows, 2)


def test_results_of_an_active_run_are_current(combu, tmp_path):
    """The run's owner ingests logs less often the longer a trial runs, so `results` has to ingest them."""
    script = "for i in 1 2 3 4; do until [ -e /hold/$i ]; do sleep 0.05; done; echo \"{\\\"x\\\": $i}\"; done; sleep 600"
    combu.write([{"name": "one", "image": "combu-test", "cmd": ["sh", "-c", script], "metrics": "json", "volumes": [f"{tmp_path}/hold:/hold"]}])
    (tmp_path / "hold").mkdir()
    run = combu.start("run", "--wait")
    wait_until(lambda: '"running"' in combu("results", "--json", code=None).stdout, "it runs, on record")
    for i in (1, 2, 3, 4):
        (tmp_path / f"hold/{i}").touch()
        wait_until(lambda: len(combu("logs", "one", code=None).stdout.splitlines()) == i, "the engine has it")
        if i % 2:
            assert objects(combu)["one"]["metrics"]["x"]["last"] == i
        else:
            assert json.loads(combu("show", "one", "--json").stdout)["metrics"]["x"]["last"] == i
    combu("kill")
    run.communicate(timeout=60)


def test_results_without_the_engine_show_the_ingested_metrics(combu, engine):
    combu.write(grid([1]))
    combu("run")
    wait_until(lambda: engine.running() == set(), "the ends")
    engine.stop()
    told = combu("results")
    assert "the newest logs and metrics of run " in told.stderr
    assert "t-1-1" in told.stdout
    engine.start()
    assert objects(combu)["t-1-1"]["metrics"]["loss"]["last"] == 10.1


def test_results_compare_plot_export_and_show_agree(combu):
    combu.write(grid([1, 2, 3]))
    combu("run", "--wait", "--run-id", "first")
    combu.write(grid([1, 2]))
    combu("run", "--wait", "--run-id", "second")
    assert list(objects(combu, "first", "--sort", "loss", "--where", "lr>1")) == ["t-2-1", "t-2-2", "t-3-1", "t-3-2"]
    table = combu("results", "first", "--sort", "loss").stdout.splitlines()
    assert [line.split()[0] for line in table if line.startswith("t-")] == ["t-1-1", "t-1-2", "t-2-1", "t-2-2", "t-3-1", "t-3-2"]
    compared = [json.loads(line) for line in combu("compare", "first", "second", "--json").stdout.splitlines()]
    assert {row["params"]["lr"] for row in compared} == {1, 2}, "what both have"
    assert "10.15" in combu("compare", "first", "second").stdout, "the mean of two seeds"
    assert "lr" in combu("plot", "loss", "--by", "lr").stdout
    combu("plot", "loss", "--by", "lr", "-o", "loss.svg")
    assert (combu.home / "loss.svg").read_text().startswith("<svg")
    rows = list(csv.DictReader(io.StringIO(combu("export", "csv", "first").stdout)))
    assert {row["trial"]: float(row["loss"]) for row in rows} == {f"t-{lr}-{seed}": lr * 10 + seed / 10 for lr in (1, 2, 3) for seed in (1, 2)}
    shown = json.loads(combu("show", "--run", "first", "t-3-2", "--json").stdout)
    assert shown["metrics"]["loss"] == {"last": 30.2, "least": 9, "greatest": 30.2, "points": 2}
    assert "loss 30.2 (least 9, greatest 30.2, 2 points)" in combu("show", "--run", "first", "t-3-2").stdout
