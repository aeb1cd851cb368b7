"""A client of `lockstep lsp` for tests, on the standard library alone: documents with a mark where the cursor stands, requests that
are answered, and the diagnostics that came in between."""
import json
import os
import select
import subprocess
import tempfile
import time
import unittest

COMMAND = os.environ.get("LOCKSTEP_COMMAND", "lockstep")


class Failed(Exception):
    """An error response."""

    def __init__(self, error):
        super().__init__(error["message"])
        self.code = error["code"]


class Client:
    def __init__(self, *options, initialize=True, environment=None, **parameters):
        self.process = subprocess.Popen([COMMAND, "lsp", *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        env={**os.environ, **(environment or {})})
        self.buffer = b""
        self.number = 0
        self.diagnostics = {}
        self.versions = {}
        self.texts = {}
        if initialize:
            self.server = self.request("initialize", {"processId": None, "rootUri": None, "capabilities": {}, **parameters})
            self.notify("initialized", {})

    # ---- messages ----

    def send_bytes(self, data):
        """Takes what comes while it writes: a server whose answers nobody reads waits, and reads no more."""
        to, back = self.process.stdin.fileno(), self.process.stdout.fileno()
        os.set_blocking(to, False)
        reads = [back]
        while data:
            readable, writable, _ = select.select(reads, [to], [], 60)
            if not readable and not writable:
                raise AssertionError("the server does not read")
            if readable:
                come = os.read(back, 1 << 16)
                self.buffer += come
                reads = [back] if come else []
            if writable:
                data = data[os.write(to, data):]

    def send(self, message):
        body = json.dumps(message, ensure_ascii=False).encode()
        self.send_bytes(b"Content-Length: %d\r\n\r\n" % len(body) + body)

    def receive(self, timeout=60):
        """The next message; None after the timeout, or where the server has ended."""
        end = time.monotonic() + timeout
        while True:
            header, found, rest = self.buffer.partition(b"\r\n\r\n")
            if found:
                length = int(dict(line.split(": ") for line in header.decode().split("\r\n"))["Content-Length"])
                if len(rest) >= length:
                    self.buffer = rest[length:]
                    message = json.loads(rest[:length])
                    if message.get("method") == "textDocument/publishDiagnostics":
                        self.diagnostics[message["params"]["uri"]] = message["params"]["diagnostics"]
                        self.versions[message["params"]["uri"]] = message["params"].get("version")
                    return message
            if not select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))[0]:
                return None
            data = os.read(self.process.stdout.fileno(), 1 << 16)
            if not data:
                return None
            self.buffer += data

    def notify(self, method, parameters):
        self.send({"jsonrpc": "2.0", "method": method, "params": parameters})

    def answer(self, number):
        while True:
            message = self.receive()
            if message is None:
                raise AssertionError("the server gave no answer")
            if message.get("id") == number and "method" not in message:
                if "error" in message:
                    raise Failed(message["error"])
                return message["result"]

    def request(self, method, parameters):
        self.number += 1
        self.send({"jsonrpc": "2.0", "id": self.number, "method": method, "params": parameters})
        return self.answer(self.number)

    def close(self):
        """The exit status."""
        self.request("shutdown", None)
        self.notify("exit", None)
        status = self.process.wait(60)
        self.process.stdin.close()
        self.process.stdout.close()
        return status

    # ---- documents ----

    def open(self, uri, text):
        self.texts[uri] = text
        self.notify("textDocument/didOpen",
                    {"textDocument": {"uri": uri, "languageId": "step", "version": 1, "text": text}})

    def change(self, uri, text, version=2):
        self.texts[uri] = text
        self.notify("textDocument/didChange",
                    {"textDocument": {"uri": uri, "version": version}, "contentChanges": [{"text": text}]})

    def edit(self, uri, start, end, text, version=2):
        self.notify("textDocument/didChange",
                    {"textDocument": {"uri": uri, "version": version},
                     "contentChanges": [{"range": {"start": start, "end": end}, "text": text}]})

    def published(self, uri, timeout=60):
        """The diagnostics of a document that are sent next."""
        self.diagnostics.pop(uri, None)
        end = time.monotonic() + timeout
        while uri not in self.diagnostics:
            if time.monotonic() > end or self.receive(end - time.monotonic()) is None:
                raise AssertionError(f"no diagnostics of {uri}")
        return self.diagnostics[uri]

    def at(self, uri, position, **more):
        return {"textDocument": {"uri": uri}, "position": position, **more}


def position(text, offset):
    """A place as the protocol counts, in units of UTF-16."""
    before = text[:offset]
    line = before.count("\n")
    return {"line": line, "character": len(before[before.rfind("\n") + 1:].encode("utf-16-le")) // 2}


def marked(text, sign="|"):
    """The text without its mark, and the mark's place."""
    offset = text.index(sign)
    text = text[:offset] + text[offset + len(sign):]
    return text, position(text, offset)


def cut(text, where):
    """What a range of the protocol covers."""
    lines = text.split("\n")

    def offset(place):
        units = lines[place["line"]].encode("utf-16-le")[:2 * place["character"]]
        return sum(len(line) + 1 for line in lines[:place["line"]]) + len(units.decode("utf-16-le"))

    return text[offset(where["start"]):offset(where["end"])]


def apply(text, edits):
    """The text with edits of a response made."""
    lines = text.split("\n")

    def offset(place):
        units = lines[place["line"]].encode("utf-16-le")[:2 * place["character"]]
        return sum(len(line) + 1 for line in lines[:place["line"]]) + len(units.decode("utf-16-le"))

    for edit in sorted(edits, key=lambda e: offset(e["range"]["start"]), reverse=True):
        text = text[:offset(edit["range"]["start"])] + edit["newText"] + text[offset(edit["range"]["end"]):]
    return text


class Test(unittest.TestCase):
    """A server for each test, which has to end well."""
    options = ()
    parameters = {}

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.client = Client(*self.options, **self.parameters)

    def tearDown(self):
        self.assertEqual(self.client.close(), 0)
        self.folder.cleanup()

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def uri(self, name="a.step"):
        return "file://" + self.path(name)

    def write(self, name, text):
        with open(self.path(name), "w") as file:
            file.write(text)

    def open(self, text, name="a.step"):
        """Opens a text with a mark; gives what a request at the mark takes."""
        text, place = marked(text) if "|" in text else (text, {"line": 0, "character": 0})
        self.client.open(self.uri(name), text)
        return self.client.at(self.uri(name), place)
