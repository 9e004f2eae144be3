"""Chromium without a window, steered by WebDriver: what a test needs of it."""
import base64
import contextlib
import json
import os
import pathlib
import re
import select
import shutil
import subprocess
import time
import urllib.error
import urllib.request

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
IN_TIME = 60
"""Seconds for anything that the browser shows. The machine may be busy."""


class NotShown(AssertionError):
    """The page does not become what the test waits for."""


def read_until(stream, pattern, seconds=IN_TIME):
    """Reads the output of a program until a pattern comes, and returns its match."""
    text, end = "", time.monotonic() + seconds
    while not (match := re.search(pattern, text)):
        left = end - time.monotonic()
        ready = left > 0 and select.select([stream], [], [], left)[0]
        chunk = os.read(stream.fileno(), 65536) if ready else b""
        assert chunk, f"no {pattern!r} in what it wrote: {text}"
        text += chunk.decode(errors="replace")
    return match


class Browser:
    """One window."""

    def __init__(self, folder: pathlib.Path, width: int = 1100, height: int = 1000) -> None:
        folder.mkdir(mode=0o700)
        places = {f"XDG_{name}": str(folder)
                  for name in ("CONFIG_HOME", "CACHE_HOME", "RUNTIME_DIR")}
        self._driver = subprocess.Popen([shutil.which("chromedriver"), "--port=0"],
                                        env={**os.environ, **places}, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT)
        try:
            port = read_until(self._driver.stdout, r"started successfully on port (\d+)")[1]
            self._url = f"http://127.0.0.1:{port}/session"
            options = {"args": ["--headless=new", "--no-sandbox", "--disable-gpu",
                                "--disable-dev-shm-usage", f"--window-size={width},{height}",
                                f"--user-data-dir={folder}"]}
            # A notebook that is not saved asks whether it may be left: it may.
            made = self._ask("POST", "", {"capabilities": {"alwaysMatch": {
                "browserName": "chrome", "goog:chromeOptions": options,
                "unhandledPromptBehavior": "accept"}}})
            self._url += f"/{made['sessionId']}"
        except BaseException:
            self._end_driver()
            raise

    def _ask(self, method: str, path: str, body: dict | None = None):
        data = json.dumps(body or {}).encode() if method == "POST" else None
        request = urllib.request.Request(self._url + path, data, method=method,
                                         headers={"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            with error:
                said = json.load(error)["value"]
            raise NotShown(f"{method} {path}: {said['error']}: {said['message']}") from None

    def open(self, url: str) -> None:
        """Goes to a page."""
        self._ask("POST", "/url", {"url": url})

    def run(self, script: str, *args):
        """What the body of a function of JavaScript returns."""
        return self._ask("POST", "/execute/sync", {"script": script, "args": list(args)})

    def wait(self, script: str, *args, what: str = "", seconds: float = IN_TIME):
        """The first value of that which is true, asked for again and again."""
        end = time.monotonic() + seconds
        while not (value := self.run(script, *args)):
            if time.monotonic() > end:
                shown = self.run("return document.body.innerText")
                raise NotShown(f"not so after {seconds} s: {what or script}\n{shown}")
            time.sleep(0.05)  # sleep-ok: it is the wait
        return value

    def click(self, css: str) -> None:
        """Clicks on the first element of that kind which can be seen."""
        script = ("return [...document.querySelectorAll(arguments[0])]"
                  ".find((one) => one.offsetParent !== null) ?? null")
        element = self.wait(script, css, what=css)
        self._ask("POST", f"/element/{element[ELEMENT]}/click")

    def screenshot(self, path: pathlib.Path) -> None:
        """Keeps what is shown, as PNG."""
        path.write_bytes(base64.b64decode(self._ask("GET", "/screenshot")))

    def close(self) -> None:
        """Ends it, and waits."""
        with contextlib.suppress(NotShown, OSError):
            self._ask("DELETE", "")
        self._end_driver()

    def _end_driver(self) -> None:
        with self._driver:
            self._driver.terminate()
            try:
                self._driver.wait(20)
            except subprocess.TimeoutExpired:
                self._driver.kill()
