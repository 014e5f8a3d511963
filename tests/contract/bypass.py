"""Ways around a paywall: each is bytes on a socket, made for one paid path. None of them pays.

Sources: what routers, servers and proxies were caught reading in two ways, in the advisories on other
paywalls and on the servers and frameworks themselves.
"""

import base64
from collections.abc import Callable

from tests.contract.raw_http import request

Trick = Callable[[str], bytes]
"""From a paid path to what is sent."""

GARBAGE = base64.b64encode(b'{"x402Version":2,"payload":{},"accepted":{}}').decode()
PAID_ALREADY = base64.b64encode(b'{"success":true,"transaction":"0x1","network":"eip155:8453"}').decode()
PROOF = f"PAYMENT-SIGNATURE: {GARBAGE}"


def to(target: Callable[[str], str]) -> Trick:
    """A GET of this target."""
    return lambda path: request(target(path))


def asking(*headers: str, method: str = "GET", body: str = "", version: str = "HTTP/1.1") -> Trick:
    """The path itself, asked in this way."""
    return lambda path: request(
        path, *(header.format(path=path) for header in headers), method=method, body=body, version=version
    )


def elsewhere(*headers: str, method: str = "GET", body: str = "", query: str = "") -> Trick:
    """A free path, with headers, query or body that name the paid one."""
    return lambda path: request(
        f"/open{query.format(path=path)}",
        *(header.format(path=path) for header in headers),
        method=method,
        body=body.format(path=path),
    )


def sent(text: str) -> Trick:
    """These very bytes."""
    return lambda path: text.replace("{path}", path).encode("latin-1")


def hex_of(char: str) -> str:
    return f"%{ord(char):02x}"


TARGETS: dict[str, Trick] = {
    "double slash": to(lambda path: f"/{path}"),
    "triple slash": to(lambda path: f"//{path}"),
    "slashes doubled": to(lambda path: path.replace("/", "//")),
    "dot": to(lambda path: f"/.{path}"),
    "dot inside": to(lambda path: path.replace("/", "/./")),
    "dot-dot": to(lambda path: f"/x/..{path}"),
    "dot-dot above the root": to(lambda path: f"/..{path}"),
    "dot-dot from a free path": to(lambda path: f"/open/..{path}"),
    "dot-dot with a parameter": to(lambda path: f"/open/..;{path}"),
    "dot-dot encoded": to(lambda path: f"/x/%2e%2e{path}"),
    "dot-dot with an encoded slash": to(lambda path: f"/open%2f..{path}"),
    "dot encoded": to(lambda path: f"/%2e{path}"),
    "dot at the end": to(lambda path: f"{path}/."),
    "dot-dot at the end": to(lambda path: f"{path}/x/.."),
    "a letter encoded": to(lambda path: "/" + hex_of(path[1]) + path[2:]),
    "all letters encoded": to(lambda path: "".join(char if char == "/" else hex_of(char) for char in path)),
    "a letter encoded twice": to(lambda path: "/%25" + hex_of(path[1])[1:] + path[2:]),
    "%u encoding": to(lambda path: f"/%u00{ord(path[1]):02x}{path[2:]}"),
    "leading %2F": to(lambda path: f"/%2F{path[1:]}"),
    "slashes as %2f": to(lambda path: "/" + path[1:].replace("/", "%2f")),
    "%2F at the end": to(lambda path: f"{path}%2F"),
    "%252F": to(lambda path: f"/%252F{path[1:]}"),
    "%5C": to(lambda path: path.replace("/", "/%5C", 1)),
    "backslashes": to(lambda path: path.replace("/", "\\")),
    "slash and backslash": to(lambda path: f"/\\{path[1:]}"),
    "overlong UTF-8 slash": to(lambda path: f"/%c0%af{path[1:]}"),
    "a byte that is no text": to(lambda path: f"/%ff{path[1:]}"),
    "a byte that is no text inside": to(lambda path: f"{path[:2]}%80{path[2:]}"),
    "full-width letter": to(lambda path: f"/%ef%bc%{0x8F + 0x20:02x}{path[1:]}"),
    "dotless i": to(lambda path: path.replace("i", "%C4%B1")),
    "zero width space": to(lambda path: f"{path}%E2%80%8B"),
    "trailing slash": to(lambda path: f"{path}/"),
    "trailing slashes": to(lambda path: f"{path}//"),
    "trailing dot": to(lambda path: f"{path}."),
    "trailing %20": to(lambda path: f"{path}%20"),
    "leading %20": to(lambda path: f"/%20{path[1:]}"),
    "trailing %00": to(lambda path: f"{path}%00"),
    "%00 and more": to(lambda path: f"{path}%00.html"),
    "trailing %0a": to(lambda path: f"{path}%0a"),
    "trailing %0d": to(lambda path: f"{path}%0d"),
    "trailing %0d%0a": to(lambda path: f"{path}%0d%0a"),
    "trailing %09": to(lambda path: f"{path}%09"),
    "trailing %ff": to(lambda path: f"{path}%ff"),
    "trailing %": to(lambda path: f"{path}%"),
    "raw 0xff": to(lambda path: f"{path}\xff"),
    "raw 0x00": to(lambda path: f"{path}\x00"),
    "parameter": to(lambda path: f"{path};x=1"),
    "parameter in front": to(lambda path: f"/;x{path}"),
    "upper case": to(lambda path: path.upper()),
    "title case": to(lambda path: path.title()),
    "extension": to(lambda path: f"{path}.json"),
    "fragment": to(lambda path: f"{path}#/open"),
    "fragment in front": to(lambda path: f"/open#{path}"),
    "fragment encoded": to(lambda path: f"{path}%23"),
    "empty query": to(lambda path: f"{path}?"),
    "encoded question mark": to(lambda path: f"{path}%3f"),
    "query that names a free path": to(lambda path: f"{path}?/open"),
    "query that climbs": to(lambda path: f"/open?/..{path}"),
    "absolute form": to(lambda path: f"http://seller.example{path}"),
    "absolute form, another host": to(lambda path: f"http://evil.example{path}"),
    "absolute form, https": to(lambda path: f"https://seller.example{path}"),
    "absolute form, another scheme": to(lambda path: f"ftp://seller.example{path}"),
    "absolute form with a user": to(lambda path: f"http://open@seller.example{path}"),
    "a scheme without a host": to(lambda path: f"x:{path}"),
    "a scheme without a slash": to(lambda path: f"x:{path[1:]}"),
    "a scheme with an empty host": to(lambda path: f"http://{path}"),
    "authority form": to(lambda path: f"//evil.example{path}"),
    "no leading slash": to(lambda path: path[1:]),
    "space in the target": to(lambda path: f"{path} /open"),
    "tab in the target": to(lambda path: f"{path}\t/open"),
}

METHODS: dict[str, Trick] = {
    "get": asking(method="get"),
    "Get": asking(method="Get"),
    "HEAD": asking(method="HEAD"),
    "head": asking(method="head"),
    "OPTIONS": asking(method="OPTIONS"),
    "options": asking(method="options"),
    "TRACE": asking(method="TRACE"),
    "PROPFIND": asking(method="PROPFIND"),
    "QUERY": asking(method="QUERY"),
    "PUT": asking(method="PUT"),
    "DELETE": asking(method="DELETE"),
    "POST": asking("Content-Length: 0", method="POST"),
    "CONNECT": asking(method="CONNECT"),
    "invented": asking(method="GETX"),
    "PRI": asking(method="PRI"),
    "tab after the method": sent("GET\t{path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"),
    "override to GET": asking("X-HTTP-Method-Override: GET", "Content-Length: 0", method="POST"),
    "override from OPTIONS": asking("X-HTTP-Method-Override: GET", method="OPTIONS"),
    "override to OPTIONS": asking("X-HTTP-Method-Override: OPTIONS", "X-Method-Override: OPTIONS"),
    "_method in the query": lambda path: request(f"{path}?_method=OPTIONS"),
    "_method in a form": asking(
        "Content-Type: application/x-www-form-urlencoded",
        "Content-Length: 15",
        method="POST",
        body="_method=OPTIONS",
    ),
    "preflight": asking(
        "Origin: https://app.example", "Access-Control-Request-Method: GET", method="OPTIONS"
    ),
    "preflight that is a GET": asking("Origin: https://app.example", "Access-Control-Request-Method: GET"),
    "OPTIONS with a chunked body": asking(
        "Transfer-Encoding: chunked", method="OPTIONS", body="5\r\nhello\r\n0\r\n\r\n"
    ),
    "OPTIONS in absolute form": lambda path: request(f"http://seller.example{path}", method="OPTIONS"),
}

HEADERS: dict[str, Trick] = {
    "X-Original-URL to it": elsewhere("X-Original-URL: {path}"),
    "X-Original-URL away": asking("X-Original-URL: /open"),
    "X-Rewrite-URL to it": elsewhere("X-Rewrite-URL: {path}"),
    "X-Rewrite-URL away": asking("X-Rewrite-URL: /open"),
    "PATH_INFO to it": elsewhere("PATH_INFO: {path}"),
    "PATH_INFO away": asking("PATH_INFO: /open"),
    "SCRIPT_NAME": asking("SCRIPT_NAME: {path}"),
    "SCRIPT_NAME of the root": asking("SCRIPT_NAME: /"),
    "REQUEST_METHOD": asking("REQUEST_METHOD: OPTIONS", "REQUEST-METHOD: OPTIONS"),
    "X-Script-Name": asking("X-Script-Name: {path}"),
    "X-Forwarded-Prefix": asking("X-Forwarded-Prefix: {path}"),
    "X-Forwarded-Path": elsewhere("X-Forwarded-Path: {path}", "X-Forwarded-Uri: {path}"),
    "X-Forwarded": asking(
        "X-Forwarded-For: 127.0.0.1", "X-Forwarded-Host: localhost", "X-Forwarded-Proto: https"
    ),
    "Forwarded": asking('Forwarded: for=127.0.0.1;host="seller.example/open?";proto=https'),
    "X-Real-IP": asking("X-Real-IP: 127.0.0.1", "True-Client-IP: 127.0.0.1"),
    "x-middleware-subrequest": asking("x-middleware-subrequest: middleware:middleware:middleware"),
    "two Hosts": asking("Host: seller.example", "Host: evil.example"),
    "Host with a path": asking("Host: seller.example/open"),
    "Host with a query": asking("Host: seller.example/open?x="),
    "Host with a fragment": asking("Host: seller.example/open#"),
    "Host with a user": asking("Host: open@seller.example"),
    "Host that is empty": asking("Host:"),
    "no Host": lambda path: f"GET {path} HTTP/1.1\r\nConnection: close\r\n\r\n".encode(),
    "no Host, HTTP/1.0": lambda path: f"GET {path} HTTP/1.0\r\n\r\n".encode(),
    "HTTP/0.9": lambda path: f"GET {path}\r\n\r\n".encode(),
    "HTTP/1.2": asking(version="HTTP/1.2"),
    "HTTP/2.0 in the request line": asking(version="HTTP/2.0"),
    "http/1.1": asking(version="http/1.1"),
    "Range": asking("Range: bytes=0-0"),
    "If-None-Match": asking("If-None-Match: *"),
    "If-Modified-Since": asking("If-Modified-Since: Wed, 21 Oct 2015 07:28:00 GMT"),
    "If-Match": asking('If-Match: "x"'),
    "Cache-Control": asking("Cache-Control: only-if-cached, max-stale", "Pragma: no-cache"),
    "Expect": asking("Expect: 100-continue", "Content-Length: 2", method="POST", body="hi"),
    "prefetch": asking("Purpose: prefetch", "Sec-Purpose: prefetch", "X-Moz: prefetch"),
    "same origin": asking("Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: navigate"),
    "events": asking("Accept: text/event-stream"),
    "crawler": asking("User-Agent: Googlebot/2.1", "From: googlebot(at)googlebot.com"),
    "a key of the service": asking("Authorization: Bearer svc_test_emulator"),
    "cookies": asking("Cookie: paid=1; payment=succeeded; session=admin"),
    "a transaction id": asking("Transaction-Id: txn_0190aaaaaaaa7aaa8aaaaaaaaaaaaaaa"),
    "hop by hop": asking("Connection: close, PAYMENT-SIGNATURE", PROOF),
    "websocket": asking(
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    ),
    "HTTP/2 upgrade": asking(
        "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__"
    ),
    "HTTP/2 preface": lambda path: b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + request(path),
    "many headers": asking(*(f"X-{number}: y" for number in range(90))),
    "a body on a GET": asking("Content-Length: 5", body="hello"),
    "a trailer": asking(
        "Transfer-Encoding: chunked",
        "Trailer: PAYMENT-SIGNATURE",
        method="POST",
        body=f"0\r\n{PROOF}\r\n\r\n",
    ),
}

PROOFS: dict[str, Trick] = {
    "garbage": asking(PROOF),
    "empty": asking("PAYMENT-SIGNATURE:"),
    "white space": asking("PAYMENT-SIGNATURE:  \t "),
    "null": asking("PAYMENT-SIGNATURE: null"),
    "0": asking("PAYMENT-SIGNATURE: 0"),
    "twice": asking(PROOF, PROOF),
    "joined by a comma": asking(f"{PROOF},{GARBAGE}"),
    "joined by a comma and a space": asking(f"{PROOF}, {GARBAGE}"),
    "both versions": asking(PROOF, f"X-PAYMENT: {GARBAGE}"),
    "version 1": asking(f"X-PAYMENT: {GARBAGE}"),
    "underscore twin": asking(f"PAYMENT_SIGNATURE: {GARBAGE}"),
    "with its underscore twin": asking(PROOF, f"PAYMENT_SIGNATURE: {GARBAGE}"),
    "17 KiB": asking("PAYMENT-SIGNATURE: " + "A" * 17 * 1024),
    "70 KiB": asking("PAYMENT-SIGNATURE: " + "A" * 70 * 1024),
    "folded": asking(f"PAYMENT-SIGNATURE:\r\n {GARBAGE}"),
    "space before the colon": asking(f"PAYMENT-SIGNATURE : {GARBAGE}"),
    "space before the name": asking(f" PAYMENT-SIGNATURE: {GARBAGE}"),
    "NUL inside": asking("PAYMENT-SIGNATURE: AAAA\x00BBBB"),
    "latin-1 inside": asking("PAYMENT-SIGNATURE: \xe9\xe9\xe9\xe9"),
    "CR inside": asking("PAYMENT-SIGNATURE: AAAA\rX: y"),
    "PAYMENT-RESPONSE of the payer": asking(f"PAYMENT-RESPONSE: {PAID_ALREADY}"),
    "PAYMENT-RESPONSE beside a proof": asking(PROOF, f"PAYMENT-RESPONSE: {PAID_ALREADY}"),
    "X-PAYMENT-RESPONSE": asking(f"X-PAYMENT-RESPONSE: {PAID_ALREADY}"),
    "PAYMENT-REQUIRED of the payer": asking(f"PAYMENT-REQUIRED: {GARBAGE}"),
    "in the query": lambda path: request(f"{path}?PAYMENT-SIGNATURE={GARBAGE}"),
    "in a cookie": asking(f"Cookie: PAYMENT-SIGNATURE={GARBAGE}"),
}

_HIDDEN = "GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"
_FRAMED = "HTTP/1.1\r\nHost: a\r\n"

FRAMING: dict[str, Trick] = {
    "pipelined": sent(f"GET /open {_FRAMED}\r\n{_HIDDEN}"),
    "pipelined after an unpaid one": sent(f"GET {{path}} {_FRAMED}{PROOF}\r\n\r\n{_HIDDEN}"),
    "pipelined after a HEAD": sent(f"HEAD {{path}} {_FRAMED}\r\n{_HIDDEN}"),
    "in the body of a GET": sent(f"GET /open {_FRAMED}Content-Length: 200\r\n\r\n{_HIDDEN}"),
    "length and chunks": sent(
        f"POST /open {_FRAMED}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{_HIDDEN}"
    ),
    "chunks and length": sent(
        f"POST /open {_FRAMED}Transfer-Encoding: chunked\r\nContent-Length: 400\r\n\r\n0\r\n\r\n{_HIDDEN}"
    ),
    "two lengths": sent(f"POST /open {_FRAMED}Content-Length: 0\r\nContent-Length: 400\r\n\r\n{_HIDDEN}"),
    "a signed length": sent(f"POST /open {_FRAMED}Content-Length: +0\r\n\r\n{_HIDDEN}"),
    "a list of lengths": sent(f"POST /open {_FRAMED}Content-Length: 0, 0\r\n\r\n{_HIDDEN}"),
    "an unknown coding": sent(f"POST /open {_FRAMED}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n{_HIDDEN}"),
    "two codings": sent(
        f"POST /open {_FRAMED}Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n{_HIDDEN}"
    ),
    "a tab before the coding": sent(
        f"POST /open {_FRAMED}Transfer-Encoding:\tchunked\r\n\r\n0\r\n\r\n{_HIDDEN}"
    ),
    "a coding with a space in its name": sent(
        f"POST /open {_FRAMED}Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n{_HIDDEN}"
    ),
    "a chunk with an extension": sent(
        f"POST /open {_FRAMED}Transfer-Encoding: chunked\r\n\r\n0;a=b\r\n\r\n{_HIDDEN}"
    ),
    "a chunk of odd size": sent(
        f"POST /open {_FRAMED}Transfer-Encoding: chunked\r\n\r\n0x0\r\n\r\n{_HIDDEN}"
    ),
    "line feeds alone": sent("GET {path} HTTP/1.1\nHost: a\nConnection: close\n\n"),
    "carriage returns alone": sent("GET {path} HTTP/1.1\rHost: a\rConnection: close\r\r"),
    "empty lines in front": sent(f"\r\n\r\n{_HIDDEN}"),
    "no end": sent("GET {path} HTTP/1.1\r\nHost: a\r\n"),
    "a header without a colon": sent("GET {path} HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n"),
    "half a body": sent(f"POST {{path}} {_FRAMED}Content-Length: 100\r\n\r\nhalf"),
}

TABLE: dict[str, dict[str, Trick]] = {
    "targets": TARGETS,
    "methods": METHODS,
    "headers": HEADERS,
    "proofs": PROOFS,
    "framing": FRAMING,
}
