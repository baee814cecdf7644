"""A server of objects in this process, over HTTP and in as much of S3's dialect as uploads need, with the faults that
tests ask for and, if they want, the latency of a network.

    with ObjectServer() as server:
        server.objects.put("news.h5", data)
        server.url("news.h5")                       # http://127.0.0.1:PORT/news.h5
        server.faults.append(Fault("503", at=3))    # the third request from now on
"""

import hashlib
import re
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

PIECE = 1 << 16


@dataclass
class Fault:
    """what: 'swap', 'cut', 'stall', 'drop', 'short', 'other' or a status; at: the request, from 1; times: in a row."""

    what: str
    at: int = 1
    times: int = 1

    def hits(self) -> bool:
        self.at -= 1
        return -self.times < self.at <= 0


class Objects:
    """Their bytes, ETags and times of change; used under ``lock``."""

    def __init__(self):
        self.lock = threading.Lock()
        self.data: dict[str, bytes] = {}
        self.versions: dict[str, int] = {}
        self.uploads: dict[str, dict[int, bytes]] = {}

    def put(self, name: str, data: bytes) -> None:
        with self.lock:
            self.data[name] = data
            self.versions[name] = self.versions.get(name, 0) + 1

    def etag(self, name: str) -> str:
        return f'"{hashlib.md5(self.data[name][:PIECE]).hexdigest()}-{self.versions[name]}"'


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = PIECE
    server: "ObjectServer"

    def log_message(self, *_) -> None:
        """Nothing is printed."""

    def begin(self) -> tuple[str, dict[str, list[str]], bytes, str]:
        """The object's name, the query, the body and the fault, '' for none."""
        parts = urlsplit(self.path)
        name = unquote(parts.path).lstrip("/")
        with self.server.objects.lock:
            self.server.seen.append((self.command, self.path, self.headers.get("Range"), self.headers.get("If-Match")))
            what = next((fault.what for fault in self.server.faults if fault.hits()), "")
        time.sleep(self.server.latency)
        if what == "swap":
            self.server.objects.put(name, self.server.objects.data[name])
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return name, parse_qs(parts.query, keep_blank_values=True), body, what

    def begin_answer(self, status: int, length: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for key, value in {"Content-Length": str(length), **headers}.items():
            self.send_header(key, value)
        self.end_headers()

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.begin_answer(status, len(body), headers)
        self.wfile.write(body)
        self.wfile.flush()

    def do_GET(self) -> None:
        with self.server.objects.lock:
            self.server.now += 1
            self.server.most = max(self.server.most, self.server.now)
            self.open = True
        try:
            self.get()
        finally:
            self.ended()

    do_HEAD = do_GET

    def ended(self) -> None:
        """Who has an answer's last bytes may ask again before this thread goes on."""
        with self.server.objects.lock:
            self.server.now -= self.open
            self.open = False

    def get(self) -> None:
        name, _, _, what = self.begin()
        if what.isdigit():
            return self.answer(int(what))
        if what == "drop":
            self.close_connection = True
            return None
        with self.server.objects.lock:
            data = self.server.objects.data.get(name)
            etag = None if data is None else self.server.objects.etag(name)
        if data is None:
            return self.answer(404)
        if self.headers.get("If-Match", etag) != etag:
            return self.answer(412)
        start, stop, status = 0, len(data), 200
        headers = {"Last-Modified": "Thu, 26 Nov 2026 10:00:00 GMT"} | ({"ETag": etag} if self.server.etags else {})
        if (span := self.headers.get("Range")) and self.server.ranges:
            first, last = re.fullmatch(r"bytes=(\d+)-(\d*)", span).groups()
            start, stop, status = int(first), min(len(data), int(last or len(data)) + 1), 206
            if start >= len(data):
                return self.answer(416)
            start, stop = start + (what == "other"), stop + (what == "other") - (what == "short")
            headers["Content-Range"] = f"bytes {start}-{stop - 1}/{len(data)}"
        self.begin_answer(status, stop - start, headers)
        for begin in range(start, stop if self.command == "GET" else start, PIECE):
            piece = data[begin : min(begin + PIECE, stop)]
            if what in ("cut", "stall"):
                self.wfile.write(piece[: len(piece) // 2])
                self.wfile.flush()
                if what == "stall":
                    self.server.closing.wait(60)
                self.close_connection = True
                return None
            if begin + PIECE >= stop:
                self.ended()
            self.wfile.write(piece)
        return self.wfile.flush()

    def do_PUT(self) -> None:
        name, query, body, what = self.begin()
        if what.isdigit():
            return self.answer(int(what))
        if "uploadId" in query:
            with self.server.objects.lock:
                self.server.objects.uploads[query["uploadId"][0]][int(query["partNumber"][0])] = body
            return self.answer(200, ETag=f'"{hashlib.md5(body).hexdigest()}"')
        if self.headers.get("If-None-Match") == "*" and name in self.server.objects.data:
            return self.answer(412)
        self.server.objects.put(name, body)
        return self.answer(200, ETag=self.server.objects.etag(name))

    def do_POST(self) -> None:
        name, query, body, what = self.begin()
        if "delete" in query:
            keys = re.findall(r"<Key>(.*?)</Key>", body.decode())
            for key in keys:
                self.server.objects.data.pop(f"{name}/{key}", None)
            deleted = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
            return self.answer(200, f"<DeleteResult>{deleted}</DeleteResult>".encode())
        if what.isdigit():
            return self.answer(int(what))
        if "uploads" in query:
            upload = f"upload-{len(self.server.objects.uploads)}"
            self.server.objects.uploads[upload] = {}
            text = f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>"
            return self.answer(200, text.encode())
        parts = self.server.objects.uploads.pop(query["uploadId"][0])
        self.server.objects.put(name, b"".join(parts[number] for number in sorted(parts)))
        etag = self.server.objects.etag(name)
        text = f"<CompleteMultipartUploadResult><ETag>{etag}</ETag></CompleteMultipartUploadResult>"
        return self.answer(200, text.encode())

    def do_DELETE(self) -> None:
        name, query, *_ = self.begin()
        with self.server.objects.lock:
            if "uploadId" in query:
                self.server.objects.uploads.pop(query["uploadId"][0], None)
            else:
                self.server.objects.data.pop(name, None)
        self.answer(204)


class ObjectServer(ThreadingHTTPServer):
    """ranges, etags: whether it knows them; latency: seconds until an answer begins."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.objects, self.latency = Objects(), 0.0
        self.ranges = self.etags = True
        self.faults: list[Fault] = []
        self.seen: list[tuple] = []
        self.now = self.most = 0  # requests at once
        self.closing = threading.Event()

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.server_port}/{name}"

    @property
    def s3(self) -> dict[str, str]:
        """The environment in which s3:// means this server; bucket/key is an object's name here."""
        keys = {"AWS_ACCESS_KEY_ID": "tester", "AWS_SECRET_ACCESS_KEY": "kept-secret", "AWS_REGION": "here"}
        return keys | {"AWS_ALLOW_HTTP": "true", "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.server_port}"}

    def __enter__(self) -> "ObjectServer":
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_) -> None:
        self.closing.set()
        self.shutdown()
        self.server_close()
