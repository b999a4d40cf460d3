#!/usr/bin/env python3
"""Checks that an edge ends connections that break its limits.

    edge_check.py PORT MOST     at most MOST connections of an address
    edge_check.py PORT idle     connections that send nothing, or half a header
    edge_check.py PORT calls    connections with calls that never send a message
"""

import socket
import ssl
import sys
import time

HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"


def connect(port):
    plain = socket.create_connection(("127.0.0.1", port), 5)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    return context.wrap_socket(plain)


def ended(connection, seconds):
    """Returns whether the peer closes the connection within `seconds`."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        connection.settimeout(max(0.01, until - time.monotonic()))
        try:
            if not connection.recv(4096):
                return True
        except TimeoutError:
            return False
        except OSError:
            return True
    return False


def most(port, limit):
    held, refused = [], 0
    for _ in range(limit + 8):
        try:
            connection = connect(port)
            connection.sendall(HTTP2)
            held.append(connection)
        except OSError:
            refused += 1
    for connection in held:
        connection.close()
    # Connections that were closed just now may still count.
    if not 8 <= refused <= 12:
        sys.exit(f"{refused} of {limit + 8} connections were refused, not 8 to 12")
    print(f"   connections beyond {limit} are refused")


def idle(port):
    for what, said in (("nothing", b""), ("a preface", HTTP2),
                       ("half a header", HTTP2 + b"\0\0\x40\1\0\0\0\0\1")):
        connection = connect(port)
        connection.sendall(said)
        if not ended(connection, 8):
            sys.exit(f"a connection that sends {what} stays open for 8 s")
    print("   connections that send nothing or half a header are ended")


def header(stream):
    """Returns the header frame of a Quantize call."""
    block = b""
    for name, value in (
        (b":method", b"POST"), (b":scheme", b"https"),
        (b":path", b"/quantd.v1.Quantd/Quantize"), (b":authority", b"localhost"),
        (b"te", b"trailers"), (b"content-type", b"application/grpc"),
    ):
        block += b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value
    head = len(block).to_bytes(3, "big") + b"\1\4" + stream.to_bytes(4, "big")
    return head + block


def calls(port):
    """Opens calls without messages until the edge ends the connection.

    HAProxy refuses calls beyond a connection's limit without counting them. It
    counts the calls that send no message.
    """
    connection = connect(port)
    connection.sendall(HTTP2)
    until = time.monotonic() + 8
    stream = 1
    try:
        while time.monotonic() < until:
            connection.sendall(b"".join(header(stream + 2 * i) for i in range(50)))
            stream += 100
            if ended(connection, 0.05):
                break
    except OSError:
        pass
    if time.monotonic() >= until:
        sys.exit(f"the connection is still open after {stream // 2} calls without messages")
    print("   a connection with calls without messages is ended")


if __name__ == "__main__":
    if sys.argv[2] == "idle":
        idle(int(sys.argv[1]))
    elif sys.argv[2] == "calls":
        calls(int(sys.argv[1]))
    else:
        most(int(sys.argv[1]), int(sys.argv[2]))
