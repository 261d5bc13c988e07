"""The page of `swoop compile --report`, opened in a real browser: what it shows, sorting, searching, hostile names, 10,000 layers."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import time

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
SWOOP = pathlib.Path(os.environ.get("SWOOP_BUILD", ROOT / "build" / "release")) / "swoop"
MODELS = ROOT / "test" / "models"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
SUMMARY = re.compile(r'(<script type="application/json" id="summary">)(.*?)(</script>)', re.S)
needs_browser = pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed (tools/setup.sh test installs it)")


class Browser:
    """Chromium without a window, asked through the DevTools protocol over two pipes: messages of JSON, each ended by a zero byte."""

    def __init__(self, profile):
        to_browser, self.out = os.pipe()
        self.into, from_browser = os.pipe()
        # The protocol is on descriptors 3 and 4, which Python cannot place: the shell does.
        command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                   "--no-first-run", "--disable-extensions", "--host-resolver-rules=MAP * ~NOTFOUND",
                   f"--user-data-dir={profile}", "--remote-debugging-pipe"]
        script = f'exec 3<&{to_browser} 4>&{from_browser}; exec "$@" 2>/dev/null'
        self.process = subprocess.Popen(["bash", "-c", script, "bash", *command], pass_fds=(to_browser, from_browser), stdout=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.buffer, self.number, self.session, self.events = b"", 0, None, []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ["Page", "Runtime", "Log", "Network"]:
            self.ask(f"{domain}.enable")

    def ask(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.read()
            if answer.get("id") == self.number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
            self.events.append(answer)

    def read(self):
        while b"\0" not in self.buffer:
            piece = os.read(self.into, 1 << 20)
            assert piece, "the browser has gone"
            self.buffer += piece
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def evaluate(self, expression):
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def open(self, path, width=1280, height=900, dark=False):
        """Opens a page and returns the seconds until it is drawn."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.events.clear()
        began = time.monotonic()
        self.ask("Page.navigate", url=path.as_uri())
        while not self.evaluate("document.documentElement?.dataset.ready === 'true'"):
            assert time.monotonic() - began < 30, self.complaints()
            time.sleep(0.02)
        self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        return time.monotonic() - began

    def complaints(self):
        """Whatever went to the console, was thrown, or asked for the network."""
        found = []
        for event in self.events:
            method, details = event.get("method"), event.get("params", {})
            if method in {"Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded", "Page.javascriptDialogOpening"}:
                found.append(details)
            if method == "Network.requestWillBeSent" and not details["request"]["url"].startswith("file:"):
                found.append(details["request"]["url"])
        return found

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.out)
        os.close(self.into)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """The report of a float model, and the JSON that the same compile printed."""
    folder = tmp_path_factory.mktemp("report")
    np.savez(folder / "samples.npz", x=np.load(MODELS / "resnet8.npz")["calibrate"].astype(np.float32))
    done = subprocess.run([SWOOP, "compile", MODELS / "resnet8.pt2", "--calibrate", folder / "samples.npz", "--max-sram", "64KiB",
                           "-o", folder / "resnet8.pte", "--report", folder / "report.html", "--json"],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return folder / "report.html", json.loads(done.stdout)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


def with_summary(report, path, change):
    """A page with another summary inside."""
    page, summary = report
    summary = json.loads(json.dumps(summary))
    change(summary)
    inside = json.dumps(summary).replace("<", "\\u003c")
    path.write_text(SUMMARY.sub(lambda match: match[1] + inside + match[3], page.read_text()))
    return path


def rows(browser, section="layers"):
    """The cells of the table's rows that are in the document."""
    return browser.evaluate(
        f"[...document.querySelectorAll('#{section} .scroll tbody tr:not(.space)')].map(row => [...row.cells].map(cell => cell.textContent))")


def test_the_page_holds_what_json_prints(report):
    page, summary = report
    text = page.read_text()
    assert json.loads(SUMMARY.search(text)[2]) == summary
    assert summary["accuracy"]["layers"], "layers are compared with float when there is a report"
    assert not re.search(r"""(src|href)\s*=\s*["'](?!#)|@import|url\(""", text), "it loads nothing"


def test_a_report_that_cannot_be_written_is_an_error(tmp_path):
    done = subprocess.run([SWOOP, "compile", MODELS / "resnet8_int8.pt2", "-o", tmp_path / "x.pte", "--report", tmp_path / "no" / "x.html"],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 1 and "x.html" in done.stderr
    assert not (tmp_path / "x.pte").exists(), "said before the work"


@needs_browser
def test_it_opens_and_says_what_the_summary_says(report, browser):
    page, summary = report
    browser.open(page)
    verdict = browser.evaluate("document.getElementById('verdict').textContent")
    assert verdict.startswith("Fits in 64.0 KiB of SRAM; ") and "one NPU region, nothing on the host; bit for bit exact" in verdict
    assert f"{summary['accuracy']['sqnr_db'][0]:.1f} dB against float" in verdict
    assert browser.evaluate("[...document.querySelectorAll('main h2')].map(h => h.textContent)") == [
        "Layers", "Schedule", "Graph", "Accuracy", "Memory", "Inputs and outputs", "Compile time"]
    assert browser.complaints() == []


@needs_browser
def test_the_table_sorts_and_searches(report, browser):
    page, summary = report
    layers = summary["regions"][0]["layers"]
    browser.open(page)
    cycles = [int(row[3].replace(",", "")) for row in rows(browser)]
    assert cycles == sorted((layer["cycles"] for layer in layers), reverse=True)[: len(cycles)]
    browser.evaluate("document.querySelector('#layers thead th:nth-child(2) button').click()")
    names = sorted({layer["name"] for layer in layers})
    assert rows(browser)[0][1] == names[0]
    assert browser.evaluate("document.querySelector('#layers thead th:nth-child(2)').ariaSort") == "ascending"
    browser.evaluate("{ const box = document.querySelector('#layers input'); box.value = 'CONV2D_5'; box.dispatchEvent(new Event('input')); }")
    assert {row[1] for row in rows(browser)} == {"conv2d_5"}
    worst = rows(browser, "accuracy")[0]
    assert worst[0] == summary["accuracy"]["layers"][0]["name"] and worst[2] == f"{summary['accuracy']['layers'][0]['own_db']:.1f}"
    assert browser.complaints() == []


@needs_browser
def test_it_is_used_from_the_keyboard_and_zooms(report, browser):
    browser.open(report[0])
    height = "document.querySelector('#graph .graph').getBoundingClientRect().height"
    before = browser.evaluate(height)
    browser.evaluate("document.querySelector('#graph .graph-box').focus()")
    for key in ["+", "+"]:
        browser.ask("Input.dispatchKeyEvent", type="keyDown", key=key, text=key)
    assert browser.evaluate(height) > 1.3 * before
    browser.evaluate("document.querySelector('#schedule [tabindex]').focus()")
    browser.ask("Input.dispatchKeyEvent", type="keyDown", key="ArrowRight")
    first = report[1]["regions"][0]["layers"][0]
    assert browser.evaluate("document.querySelector('#schedule output').textContent").startswith(f"{first['name']}, {first['op']}: ")


@needs_browser
@pytest.mark.parametrize("width", [375, 1280])
def test_nothing_sticks_out(report, browser, width):
    browser.open(report[0], width=width, dark=width == 375)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.complaints() == []


@needs_browser
def test_a_board_is_answered_per_memory(report, browser, tmp_path):
    def change(summary):
        summary["board"] = {"name": "b1", "text": "a board", "memories": [
            {"name": "SRAM", "needed_bytes": 2048, "bytes": 1024, "fits": False, "sources": ["SRAM0: a manual"]},
            {"name": "flash", "needed_bytes": 2048, "bytes": None, "fits": None, "sources": []}]}

    browser.open(with_summary(report, tmp_path / "board.html", change))
    assert browser.evaluate("document.getElementById('verdict').textContent").startswith("b1: SRAM does not fit, flash not known; ")
    table = browser.evaluate("[...document.querySelectorAll('#memory table')].map(table => table.textContent).join()")
    assert "SRAM2,048 B1,024 BnoSRAM0: a manual" in table, table
    assert browser.complaints() == []


@needs_browser
def test_another_build_is_shown_beside_this_one(report, browser, tmp_path):
    other, page = tmp_path / "other.pte", tmp_path / "page.html"
    build = [SWOOP, "compile", MODELS / "resnet8_int8.pt2", "--no-verify", "-q"]
    subprocess.run([*build, "-t", "ethos-u55-64", "-o", other], check=True, timeout=120)
    subprocess.run([*build, "-o", tmp_path / "this.pte", "--compare", other, "--report", page], check=True, timeout=120)
    browser.open(page)
    cells = browser.evaluate("[...document.querySelectorAll('#comparison tbody tr')].map(row => [...row.cells].map(cell => cell.textContent))")
    figures = {row[0]: row[1:] for row in cells}
    before, now, change = figures["total cycles"]
    assert int(before.replace(",", "")) > int(now.replace(",", "")) and change.startswith("\u2212") and figures["planned bytes"][2] == "\u2013"
    assert browser.complaints() == []


@needs_browser
@pytest.mark.parametrize("width", [375, 1280])
def test_a_sweep_is_a_plot_and_a_table(browser, tmp_path, width):
    page = tmp_path / "sweep.html"
    done = subprocess.run([SWOOP, "sweep", MODELS / "resnet8_int8.pt2", "--target", "ethos-u55-*", "--target", "ethos-u65-*", "--max-sram", "50KiB",
                           "--no-verify", "--report", page, "--json"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    points = json.loads(done.stdout)["rows"]
    assert json.loads(SUMMARY.search(page.read_text())[2])["sweep"] == points
    browser.open(page, width=width, dark=width == 375)
    drawn = browser.evaluate("[...document.querySelectorAll('#sweep circle')].map(dot => [dot.getAttribute('class'), dot.textContent])")
    assert len(drawn) == len(points)
    for point, (kind, hint) in zip(points, drawn, strict=True):
        assert hint.startswith(f"{point['target']}, {point['memory_mode']}: ")
        assert ("on-front" in kind, "too-much" in kind) == (point["front"], not point["fits"])
    fastest = min((point for point in points if point["fits"]), key=lambda point: point["inference_ms"])
    assert f"about {fastest['target']} in {fastest['memory_mode']}, the fastest that fits" in browser.evaluate("document.getElementById('sweep').textContent")
    assert rows(browser, "sweep")[0][0] == min(points, key=lambda point: point["inference_ms"])["target"].removeprefix("ethos-")
    shown = browser.evaluate("[...document.querySelectorAll('#sweep thead th')].filter(th => th.offsetWidth).map(th => th.offsetWidth)")
    assert min(shown) > 45 and sum(shown) > 0.85 * (width - 250 if width > 600 else width), shown
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.complaints() == []


@needs_browser
def test_names_from_files_stay_text(report, browser, tmp_path):
    bad = "</script><script>alert(1)</script><img src=http://a.invalid/x onerror=alert(2)>"

    def change(summary):
        summary.update(model=bad, warnings=[bad])
        summary["host_reasons"] = [dict.fromkeys(["node", "op", "rule", "reason", "source", "code", "advice"], bad)]
        for layer in summary["regions"][0]["layers"] + summary["regions"][0]["nodes"] + summary["nodes"]:
            layer.update(name=bad, op=bad)
            if "source" in layer:
                layer.update(source=bad, code=bad, module=bad)
        for port in summary["inputs"] + summary["outputs"] + summary["accuracy"]["layers"]:
            port["name"] = bad

    browser.open(with_summary(report, tmp_path / "bad.html", change))
    assert browser.evaluate("document.querySelectorAll('img').length") == 0
    assert browser.evaluate("document.querySelectorAll('script').length") == 2
    assert rows(browser)[0][1] == bad
    assert browser.complaints() == []


@needs_browser
def test_ten_thousand_layers_open_fast(report, browser, tmp_path):
    def change(summary):
        region = summary["regions"][0]
        some = [layer for layer in region["layers"] if layer["cycles"]]
        region["layers"] = [dict(some[i % len(some)], name=f"layer_{i}", cycles=some[i % len(some)]["cycles"] + i) for i in range(10000)]
        region["nodes"] = [{"name": f"layer_{i}", "op": "conv", "inputs": [j for j in (i - 1, i - 1 - i % 7) if j >= 0]} for i in range(10000)]
        summary["accuracy"]["layers"] = [dict(summary["accuracy"]["layers"][0], name=f"layer_{i}", own_db=30 + i / 100) for i in range(10000)]

    page = with_summary(report, tmp_path / "large.html", change)
    seconds = browser.open(page)
    inside = browser.evaluate("performance.getEntriesByType('navigation')[0].domComplete / 1000")
    print(f"10,000 layers: drawn after {seconds:.2f} s, {inside:.2f} s of it in the page, {page.stat().st_size / 1e6:.1f} MB")
    assert seconds < 10
    assert browser.evaluate("document.getElementsByTagName('*').length") < 6000, "only what is in view is in the document"
    before = browser.evaluate("document.documentElement.scrollHeight")
    browser.evaluate("""new Promise(done => {
      for (const box of document.querySelectorAll('.scroll')) box.scrollTop = box.scrollHeight;
      requestAnimationFrame(() => requestAnimationFrame(done)) })""")
    least = min(layer["cycles"] for layer in json.loads(SUMMARY.search(page.read_text())[2])["regions"][0]["layers"])
    assert rows(browser)[-1][3] == f"{least:,}"
    assert rows(browser, "accuracy")[-1][0] == "layer_9999"
    assert browser.evaluate("document.documentElement.scrollHeight") == before, "nothing moves"
    assert browser.complaints() == []
