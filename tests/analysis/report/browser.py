"""A report opened in headless Chromium: what it asked for, what it said, what it drew, how long that took."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from selenium.webdriver.chrome.webdriver import WebDriver

__all__ = ["CHROMEDRIVER", "CHROMIUM", "ReportPage", "chromium_missing", "open_report"]

CHROMIUM = "/usr/bin/chromium"
CHROMEDRIVER = "/usr/bin/chromedriver"

_SWITCHES = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)


def chromium_missing() -> str:
    """Return why no report can be opened here; empty when one can."""
    missing = [program for program in (CHROMIUM, CHROMEDRIVER) if shutil.which(program) is None]
    return f"{' and '.join(missing)} not installed" if missing else ""


@dataclass(frozen=True)
class ReportPage:
    """An open report."""

    driver: WebDriver

    def open(self, path: Path) -> None:
        """Open another report in the same window; what the console and the network said before is forgotten."""
        self.driver.get("data:,")
        self.console()
        self.requests()
        self.driver.get(path.resolve().as_uri())

    def js(self, script: str, *arguments: Any) -> Any:
        """Run a script in the page and return its value."""
        return self.driver.execute_script(script, *arguments)

    def wait(self, script: str, seconds: float = 60) -> None:
        """Wait until a script returns something true."""
        from selenium.webdriver.support.ui import WebDriverWait

        WebDriverWait(self.driver, seconds, poll_frequency=0.05).until(lambda driver: driver.execute_script(script))

    def wait_drawn(self, seconds: float = 60) -> None:
        """Wait until the last figure stands."""
        self.wait("return document.documentElement.dataset.state === 'drawn'", seconds)

    def unfold(self) -> None:
        """Open all folded parts and wait until their figures stand."""
        self.js("for (const folded of document.querySelectorAll('details')) folded.open = true")
        self.wait("return [...document.querySelectorAll('figure .chart')].every((chart) => chart.querySelector('svg'))")
        self.wait_drawn()

    def console(self) -> list[str]:
        """Return all that the console has shown since the last call: errors, warnings and the rest."""
        return [f"{entry['level']}: {entry['message']}" for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """Return the addresses that the page has asked for since the last call; data and blob addresses live in the
        page."""
        messages = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        asked = [
            message["params"]["request"]["url"]
            for message in messages
            if message["method"] in {"Network.requestWillBeSent", "Network.webSocketCreated"}
            and "request" in message["params"]
        ]
        return [url for url in asked if not url.startswith(("data:", "blob:"))]

    def drawn(self) -> dict[str, int]:
        """Return each figure's id and how many marks (lines, points, bars) it really has in the document."""
        return dict(
            self.js(
                "return Object.fromEntries([...document.querySelectorAll('figure .chart')].map((chart) => [chart.id, "
                "chart.querySelectorAll('.scatterlayer .trace path, .barlayer .point path').length]))"
            )
        )

    def timings(self) -> dict[str, float]:
        """Return ms since navigation began: first paint, plotly ready, all figures drawn."""
        return dict(
            self.js(
                "return Object.fromEntries([...performance.getEntriesByType('paint'), "
                "...performance.getEntriesByType('mark')]"
                ".map((entry) => [entry.name, Math.round(entry.startTime)]))"
            )
        )

    def busy_seconds(self) -> float:
        """Return the CPU time that the page's thread has spent since it was opened: on a busy host too."""
        found = self.driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
        return float(next(metric["value"] for metric in found if metric["name"] == "TaskDuration"))

    def text(self, selector: str) -> str:
        """Return the text that a reader sees in the first element that fits."""
        return str(self.js("return document.querySelector(arguments[0]).innerText", selector))

    def emulate(self, *, dark: bool = False, media: str = "") -> None:
        """Show the page as on a dark desktop, or on `print`."""
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        """Write what the window shows, or the whole page, as PNG."""
        import base64

        if whole:
            shot = self.driver.execute_cdp_cmd(
                "Page.captureScreenshot", {"captureBeyondViewport": True, "format": "png"}
            )
            path.write_bytes(base64.b64decode(shot["data"]))
        else:
            path.write_bytes(self.driver.get_screenshot_as_png())


class _Browsers:
    """Browsers of this process that stand ready: each report has one to itself, and a fresh tab of it.

    To start a browser takes longer than to draw a report, so one is handed on to the next report.
    """

    def __init__(self) -> None:
        self._ready: list[WebDriver] = []
        self._open = ExitStack()
        atexit.register(self._open.close)

    @contextmanager
    def lent(self) -> Iterator[WebDriver]:
        """Lend a browser whose only tab is new; one in whose report an error was raised is not lent again."""
        driver = self._ready.pop() if self._ready else self._start()
        yield driver
        self._forget(driver)
        self._ready.append(driver)

    def _start(self) -> WebDriver:
        from selenium import webdriver

        profile = self._open.enter_context(tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True))
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for switch in (*_SWITCHES, f"--user-data-dir={profile}"):
            options.add_argument(switch)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(executable_path=CHROMEDRIVER))
        self._open.callback(driver.quit)
        return driver

    def _forget(self, driver: WebDriver) -> None:
        """Close all tabs for a new one, and clear what outlives a tab: settings, stored data, and logs."""
        driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "default"})
        driver.execute_cdp_cmd("Storage.clearDataForOrigin", {"origin": "*", "storageTypes": "all"})
        driver.execute_cdp_cmd("Network.clearBrowserCache", {})
        before = driver.window_handles
        driver.switch_to.new_window("tab")
        fresh = driver.current_window_handle
        for tab in before:
            driver.switch_to.window(tab)
            driver.close()
        driver.switch_to.window(fresh)
        for log in ("browser", "performance"):
            driver.get_log(log)


_BROWSERS = _Browsers()


@contextmanager
def open_report(path: Path, *, width: int = 1280, height: int = 900, dark: bool = False) -> Iterator[ReportPage]:
    """Open a report file in a fresh tab of this window size, in a networkless Chromium that shows nothing else."""
    with _BROWSERS.lent() as driver:
        page = ReportPage(driver)
        driver.set_window_size(width, height)
        driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
        )
        driver.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
        page.emulate(dark=dark)
        page.open(path)
        yield page
