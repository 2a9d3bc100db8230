"""Figures, in the form that Prometheus reads."""

from __future__ import annotations

from dragoman.bridge.metrics import Counter, Gauge, Histogram, Metrics


def test_a_counter_counts_by_its_labels() -> None:
    counter = Counter("runs_total", "Runs.")
    assert list(counter.samples()) == [("runs_total", (), 0)]
    counter.add(status="success")
    counter.add(2, status="success")
    counter.add(status="error")
    assert list(counter.samples()) == [
        ("runs_total", (("status", "success"),), 3),
        ("runs_total", (("status", "error"),), 1),
    ]


def test_a_gauge_is_set_or_asked() -> None:
    gauge = Gauge("sockets", "Sockets.")
    gauge.add(2)
    gauge.add(-1)
    assert list(gauge.samples()) == [("sockets", (), 1)]
    gauge.ask(lambda: 7)
    assert list(gauge.samples()) == [("sockets", (), 7)]


def test_a_histogram_sums_up_its_steps() -> None:
    histogram = Histogram("seconds", "Seconds.", (0.1, 1.0))
    for value in (0.05, 0.1, 0.5, 3):
        histogram.observe(value)
    assert [(name, labels, round(value, 2)) for name, labels, value in histogram.samples()] == [
        ("seconds_bucket", (("le", "0.1"),), 2),
        ("seconds_bucket", (("le", "1"),), 3),
        ("seconds_bucket", (("le", "+Inf"),), 4),
        ("seconds_sum", (), 3.65),
        ("seconds_count", (), 4),
    ]


def test_labels_are_escaped_and_every_figure_explained() -> None:
    metrics = Metrics()
    metrics.runs.add(status='a "b"\\\n')
    text = metrics.text()
    assert 'dragoman_runs_total{status="a \\"b\\"\\\\\\n"} 1\n' in text
    names = {line.split("{")[0].split(" ")[0] for line in text.splitlines() if not line.startswith("#")}
    explained = {line.split(" ")[2] for line in text.splitlines() if line.startswith("# TYPE")}
    for name in names:
        assert any(name == one or name.startswith(f"{one}_") for one in explained), name
