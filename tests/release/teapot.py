"""An HTTPS server that answers 418 to everything: teapot.py CERTIFICATE KEY PORT_FILE"""

import ssl
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Teapot(BaseHTTPRequestHandler):
    def refuse(self):
        self.send_response(418)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_POST = refuse  # noqa: N815, names of the library

    def log_message(self, *_):
        pass


class Quiet(ThreadingHTTPServer):
    def handle_error(self, *_):  # a client that trusts no certificate closes the connection
        pass


certificate, key, port_file = sys.argv[1:]
server = Quiet(("127.0.0.1", 0), Teapot)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)
server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
Path(port_file).write_text(f"{server.server_port}\n", encoding="utf-8")
server.serve_forever()
