"""A proxy between combu and the engine that stalls some requests."""

import contextlib
import select
import socket
import socketserver
import threading


class Stalling(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """While the context is open, `combu` uses this proxy. Until `free` is set, it does not forward requests that have the text, and sets `asked`."""

    daemon_threads = True

    def __init__(self, combu, engine, path, text):
        self.engine = engine.host.removeprefix("unix://")
        self.text = text
        self.asked = threading.Event()
        self.free = threading.Event()
        super().__init__(str(path), self.Connection)
        combu.env["DOCKER_HOST"] = f"unix://{path}"

    def __enter__(self):
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return super().__enter__()

    def __exit__(self, *error):
        self.shutdown()
        super().__exit__(*error)

    class Connection(socketserver.BaseRequestHandler):
        def handle(self):
            with socket.socket(socket.AF_UNIX) as engine, contextlib.suppress(OSError):
                engine.connect(self.server.engine)
                while True:
                    for one in select.select([self.request, engine], [], [])[0]:
                        if not (data := one.recv(65536)):
                            return
                        if self.server.text in data and not self.server.free.is_set():
                            self.server.asked.set()
                        else:
                            (engine if one is self.request else self.request).sendall(data)
