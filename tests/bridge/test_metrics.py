"""The figures that Prometheus reads."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from dragoman.bridge.telemetry import Metrics


def samples(metrics: Metrics, name: str) -> list[tuple[str, dict[str, str], float]]:
    families = text_string_to_metric_families(metrics.text().decode())
    return [
        (sample.name, sample.labels, sample.value) for family in families for sample in family.samples
        if sample.name.startswith(name)
    ]  # fmt: skip


def test_a_counter_counts_by_its_labels() -> None:
    metrics = Metrics()
    assert samples(metrics, "dragoman_frames") == [("dragoman_frames_total", {}, 0)]
    metrics.runs.labels(status="success").inc()
    metrics.runs.labels(status="success").inc(2)
    metrics.runs.labels(status="error").inc()
    assert samples(metrics, "dragoman_runs") == [
        ("dragoman_runs_total", {"status": "success"}, 3),
        ("dragoman_runs_total", {"status": "error"}, 1),
    ]


def test_a_gauge_is_set_or_read_from_a_function() -> None:
    metrics = Metrics()
    metrics.sockets.inc(2)
    metrics.sockets.dec()
    assert samples(metrics, "dragoman_sockets") == [("dragoman_sockets", {}, 1)]
    metrics.sockets.set_function(lambda: 7)
    assert samples(metrics, "dragoman_sockets") == [("dragoman_sockets", {}, 7)]


def test_a_histogram_sums_up_its_buckets() -> None:
    metrics = Metrics()
    metrics.observe_commits(iter([[0.0004, 0.001, 0.7, 30.0], []]).__next__)
    by_limit = {
        labels["le"]: value for name, labels, value in samples(metrics, "dragoman_commit_seconds_bucket")
    }  # fmt: skip
    assert (by_limit["0.0005"], by_limit["0.001"], by_limit["1.0"], by_limit["+Inf"]) == (1, 2, 3, 4)
    [(_, _, total)] = samples(metrics, "dragoman_commit_seconds_count") or [("", {}, 0.0)]
    assert total == 4


def test_labels_are_escaped_and_every_figure_explained() -> None:
    metrics = Metrics()
    metrics.runs.labels(status='a "b"\\\n').inc()
    text = metrics.text().decode()
    assert 'dragoman_runs_total{status="a \\"b\\"\\\\\\n"} 1.0\n' in text
    names = {line.split("{")[0].split(" ")[0] for line in text.splitlines() if not line.startswith("#")}
    explained = {line.split(" ")[2] for line in text.splitlines() if line.startswith("# TYPE")}
    for name in names:
        assert any(name == known or name.startswith(f"{known}_") for known in explained), name


def test_two_servers_of_one_process_count_apart() -> None:
    one, other = Metrics(), Metrics()
    one.frames.inc(5)
    assert samples(other, "dragoman_frames") == [("dragoman_frames_total", {}, 0)]
    assert samples(one, "dragoman_frames") == [("dragoman_frames_total", {}, 5)]
