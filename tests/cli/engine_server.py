"""A server on a Unix socket with the API of a Docker Engine."""

import http.server
import json
import re
import socketserver


class EngineServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


class EngineHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def resource(self):
        """The path without API version and query."""
        return re.sub(r"^/v[\d.]+/", "/", self.path.split("?")[0])

    def send_json(self, value, status=200):
        body = json.dumps(value).encode()
        self.send_response(status)
        for name, text in [("Api-Version", "1.41"), ("Content-Type", "application/json"), ("Content-Length", str(len(body)))]:
            self.send_header(name, text)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_):
        pass

    def address_string(self):
        return "unix"
