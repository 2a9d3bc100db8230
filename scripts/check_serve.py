"""Start the server as `make run` does, check that it answers, and stop it. For CI."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import urllib.request

LIMIT_S = 60.0  # a busy machine needs a few seconds to start the server


def main() -> int:
    with tempfile.TemporaryDirectory() as home:
        environ = {**os.environ, "DRAGOMAN_HOME": home}
        command = [sys.executable, "-m", "dragoman", "serve", "--port", "0", "--no-open"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ)
        assert server.stdout is not None
        give_up = threading.Timer(LIMIT_S, server.kill)
        give_up.start()
        try:
            found = next(filter(None, (re.search(r"running at (\S+)", line) for line in server.stdout)), None)
            url = found[1] if found else ""
            print("it listens at", url)
            # Straight to it, whatever proxy the environment names.
            straight = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            with straight.open(f"{url}/v1/health", timeout=LIMIT_S) as answer:
                print(json.load(answer))
            with straight.open(f"{url}/", timeout=LIMIT_S) as answer:
                print("the page:", answer.status, answer.headers["content-type"])
            server.send_signal(signal.SIGTERM)
            code = server.wait(LIMIT_S)
        finally:
            give_up.cancel()
            server.kill()
            server.wait()
    print("ended with", code)
    return code


if __name__ == "__main__":
    sys.exit(main())
