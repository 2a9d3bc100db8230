"""`dragoman model-server`: the command; the server itself is tested in tests/testing."""

import json
import signal
import subprocess
import sys
import urllib.request


def test_it_prints_its_url_answers_and_ends_when_interrupted() -> None:
    command = [sys.executable, "-m", "dragoman", "model-server", "--quiet"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "[[say:Hello.]]"}]}
            body["tools"] = [{"name": "t", "input_schema": {"type": "object"}}]
            request = urllib.request.Request(f"{url}/v1/messages", json.dumps(body).encode(), method="POST")
            request.add_header("content-type", "application/json")
            with urllib.request.urlopen(request, timeout=20) as answer:
                assert json.load(answer)["content"][0]["text"] == "Hello."
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 0


def test_it_serves_only_this_machine() -> None:
    command = [sys.executable, "-m", "dragoman", "model-server", "--host", "0.0.0.0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 2
    assert "loopback" in done.stderr
