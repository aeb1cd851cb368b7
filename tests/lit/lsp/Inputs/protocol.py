"""The life cycle and what is answered to messages that are none."""
import json
import random
import unittest

from client import Client, Failed, Test, position

PROGRAM = "step s[n](x: f32[n], out y: f32[n]) {\n    y = x\n}\n"


class Lifecycle(unittest.TestCase):
    def test_before_initialize(self):
        client = Client(initialize=False)
        with self.assertRaises(Failed) as raised:
            client.request("textDocument/hover", {})
        self.assertEqual(raised.exception.code, -32002)
        client.notify("textDocument/didOpen", {"textDocument": {"uri": "file:///a.step", "text": "step"}})
        answer = client.request("initialize", {"capabilities": {}})
        self.assertEqual(answer["serverInfo"]["name"], "lockstep")
        self.assertEqual(answer["capabilities"]["positionEncoding"], "utf-16")
        with self.assertRaises(Failed) as raised:
            client.request("initialize", {"capabilities": {}})
        self.assertEqual(raised.exception.code, -32600)
        self.assertIsNone(client.receive(0.2), "what was opened too early is not known")
        self.assertEqual(client.close(), 0)

    def test_shutdown(self):
        client = Client()
        self.assertIsNone(client.request("shutdown", None))
        with self.assertRaises(Failed) as raised:
            client.request("textDocument/hover", {})
        self.assertEqual(raised.exception.code, -32600)
        client.notify("exit", None)
        self.assertEqual(client.process.wait(60), 0)

    def test_exit_without_shutdown(self):
        client = Client()
        client.notify("exit", None)
        self.assertEqual(client.process.wait(60), 1)

    def test_end_of_input(self):
        client = Client()
        client.process.stdin.close()
        self.assertEqual(client.process.wait(60), 1)


class Broken(Test):
    def error(self, data):
        self.client.send_bytes(data)
        return self.client.receive()

    def body(self, text):
        data = text.encode() if isinstance(text, str) else text
        return b"Content-Length: %d\r\n\r\n" % len(data) + data

    def alive(self):
        self.client.open("file:///alive.step", PROGRAM)
        place = position(PROGRAM, PROGRAM.index("x:"))
        self.assertIn("x: f32[n]", self.client.request("textDocument/hover", self.client.at("file:///alive.step", place))
                      ["contents"]["value"])

    def test_no_json(self):
        for text in ("{", "", "nonsense", '{"jsonrpc": "2.0", }', b"\xff\xfe", "[" * 200 + "]" * 200):
            answer = self.error(self.body(text))
            self.assertEqual(answer["error"]["code"], -32700, text)
            self.assertIsNone(answer["id"])
        self.alive()

    def test_no_request(self):
        for text in ("1", "[]", "{}", '{"jsonrpc": "1.0", "id": 1, "method": "shutdown"}', '{"jsonrpc": "2.0", "id": 1}',
                     '{"jsonrpc": "2.0", "id": {}, "method": "shutdown"}', '{"jsonrpc": "2.0", "id": 3, "method": 4}'):
            self.assertEqual(self.error(self.body(text))["error"]["code"], -32600, text)
        self.alive()

    def test_headers(self):
        for data in (b"Content-Length: x\r\n\r\n", b"nonsense\r\n\r\n", b"Content-Length: -1\r\n\r\n",
                     b"Content-Length: 99999999999999999999\r\n\r\n", b"Content-Type: a\r\n\r\n", b"x" * 9000):
            self.assertEqual(self.error(data)["error"]["code"], -32700, data[:40])
            while self.client.receive(0.2):  # what is left of a long one
                pass
        self.alive()

    def test_header_fields(self):
        body = json.dumps({"jsonrpc": "2.0", "id": "text", "method": "no/such"}).encode()
        header = b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\ncontent-length:  %d \r\n\r\n" % len(body)
        answer = self.error(header + body)
        self.assertEqual((answer["id"], answer["error"]["code"]), ("text", -32601))

    def test_wrong_parameters(self):
        """Every request with parameters of the wrong kinds is answered, and unknown notifications are not."""
        methods = ["textDocument/" + name for name in (
            "hover completion signatureHelp definition references documentHighlight documentSymbol prepareRename rename formatting "
            "inlayHint codeLens").split()] + ["codeLens/resolve"]
        self.client.open(self.uri(), PROGRAM)
        document = {"uri": self.uri()}
        for method in methods:
            for parameters in (None, [], 1, "x", {}, {"textDocument": None}, {"textDocument": {"uri": 5}},
                               {"textDocument": {"uri": "file:///not/open"}}, {"textDocument": document, "position": "x"},
                               {"textDocument": document, "position": {"line": -1, "character": 1e300}},
                               {"textDocument": document, "position": {"line": 4000000000, "character": 7}},
                               {"textDocument": document, "position": {"line": 0, "character": 4000000000}},
                               {"data": {"uri": self.uri(), "step": "none"}, "range": {}}):
                try:
                    self.client.request(method, parameters)
                except Failed as failed:
                    self.assertIn(failed.code, (-32602, -32803))
        for parameters in (None, [], {"textDocument": {}}, {"textDocument": document, "contentChanges": [1, {}, {"range": 1}]},
                           {"textDocument": document, "contentChanges": [{"range": {"start": {"line": 2, "character": 0}, "end": {
                               "line": 0, "character": 0}}, "text": "x"}]}):
            for method in ("didOpen", "didChange", "didClose", "didNothing"):
                if method != "didClose" or parameters != {"textDocument": document}:
                    self.client.notify("textDocument/" + method, parameters)
        self.alive()

    def test_random_messages(self):
        """Broken copies of a real session: whatever comes, the server answers what follows."""
        random.seed(7)
        session = [json.dumps(message).encode() for message in (
            {"jsonrpc": "2.0", "method": "textDocument/didOpen", "params": {"textDocument": {
                "uri": self.uri(), "languageId": "step", "version": 1, "text": PROGRAM}}},
            {"jsonrpc": "2.0", "method": "textDocument/didChange", "params": {
                "textDocument": {"uri": self.uri(), "version": 2}, "contentChanges": [
                    {"range": {"start": {"line": 1, "character": 8}, "end": {"line": 1, "character": 9}}, "text": "x * 2.0"}]}},
            {"jsonrpc": "2.0", "id": 1, "method": "textDocument/completion", "params": {
                "textDocument": {"uri": self.uri()}, "position": {"line": 1, "character": 9}}},
            {"jsonrpc": "2.0", "id": 2, "method": "textDocument/rename", "params": {
                "textDocument": {"uri": self.uri()}, "position": {"line": 0, "character": 10}, "newName": "other"}})]
        for _ in range(400):
            body = bytearray(random.choice(session))
            for _ in range(random.randrange(6)):
                kind, at = random.randrange(3), random.randrange(len(body))
                if kind == 0:
                    body[at] = random.randrange(256)
                elif kind == 1:
                    del body[at:at + random.randrange(20)]
                else:
                    body[at:at] = bytes(random.choice(b'{}[]",:\\0123456789tfn \n') for _ in range(random.randrange(5)))
                if not body:
                    break
            length = len(body) if random.random() < 0.97 else random.randrange(2 * len(body) + 1)
            self.client.send_bytes(b"Content-Length: %d\r\n\r\n" % length + bytes(body))
        # a length that is too long takes the next messages with it
        self.client.send_bytes(b" " * 4000 + b"\r\n\r\n")
        while self.client.receive(0.5):
            pass
        self.assertIsNone(self.client.process.poll())
        self.client.number = 1000
        self.alive()


if __name__ == "__main__":
    unittest.main()
