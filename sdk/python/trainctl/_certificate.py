"""A certificate for one process: a self-signed X.509 certificate for "localhost" with a key on
P-256, which neither Python nor grpcio can create.

The key lives as long as the process. Formats: RFC 5280 (certificates), RFC 5480 and RFC 5915
(keys), FIPS 186-5 (ECDSA), SEC 2 (the curve).
"""

import base64
import datetime
import hashlib
import secrets

_P = 0xFFFFFFFF00000001000000000000000000000000FFFFFFFFFFFFFFFFFFFFFFFF
_N = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_G = (0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
      0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5)


def create() -> tuple[bytes, bytes, bytes]:
    """The private key and the certificate as PEM, and the certificate as DER."""
    key = secrets.randbelow(_N - 1) + 1
    x, y = _times(key, _G)
    public = b"\x04" + x.to_bytes(32, "big") + y.to_bytes(32, "big")
    body = _body(public)
    der = _sequence(body, _ALGORITHM, _bits(_sign(key, body)))
    private = _sequence(_integer(1), _tlv(0x04, key.to_bytes(32, "big")), _tlv(0xA0, _CURVE), _tlv(0xA1, _bits(public)))
    return _pem("EC PRIVATE KEY", private), _pem("CERTIFICATE", der), der


def _body(public: bytes) -> bytes:
    now = datetime.datetime.now(datetime.timezone.utc)
    begin = _tlv(0x17, (now - datetime.timedelta(hours=1)).strftime("%y%m%d%H%M%SZ").encode())
    end = _tlv(0x18, now.replace(year=now.year + 30, day=1).strftime("%Y%m%d%H%M%SZ").encode())
    name = _sequence(_tlv(0x31, _sequence(_oid("550403"), _tlv(0x0C, b"localhost"))))
    names = _sequence(_oid("551d11"), _tlv(0x04, _sequence(_tlv(0x82, b"localhost"))))
    root = _sequence(_oid("551d13"), _tlv(0x01, b"\xff"), _tlv(0x04, _sequence(_tlv(0x01, b"\xff"))))
    return _sequence(
        _tlv(0xA0, _integer(2)), _integer(secrets.randbits(120) | 1), _ALGORITHM, name, _sequence(begin, end), name,
        _sequence(_sequence(_oid("2a8648ce3d0201"), _CURVE), _bits(public)), _tlv(0xA3, _sequence(names, root)),
    )


def _sign(key: int, message: bytes) -> bytes:
    digest = int.from_bytes(hashlib.sha256(message).digest(), "big")
    while True:
        k = secrets.randbelow(_N - 1) + 1
        r = _times(k, _G)[0] % _N
        s = pow(k, -1, _N) * (digest + r * key) % _N
        if r and s:
            return _sequence(_integer(r), _integer(s))


def _times(k: int, point):
    """k times a point, by double and add."""
    result = None
    while k:
        if k & 1:
            result = _add(result, point)
        point = _add(point, point)
        k >>= 1
    return result


def _add(a, b):
    if a is None or b is None:
        return a or b
    if a[0] == b[0] and (a[1] + b[1]) % _P == 0:
        return None
    if a == b:
        slope = 3 * (a[0] * a[0] - 1) * pow(2 * a[1], -1, _P) % _P
    else:
        slope = (b[1] - a[1]) * pow(b[0] - a[0], -1, _P) % _P
    x = (slope * slope - a[0] - b[0]) % _P
    return x, (slope * (a[0] - x) - a[1]) % _P


def _tlv(tag: int, content: bytes) -> bytes:
    n = len(content)
    if n < 0x80:
        return bytes((tag, n)) + content
    size = n.to_bytes((n.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(size))) + size + content


def _sequence(*parts: bytes) -> bytes:
    return _tlv(0x30, b"".join(parts))


def _integer(v: int) -> bytes:
    return _tlv(0x02, v.to_bytes(v.bit_length() // 8 + 1, "big"))


def _bits(content: bytes) -> bytes:
    return _tlv(0x03, b"\x00" + content)


def _oid(hexadecimal: str) -> bytes:
    return _tlv(0x06, bytes.fromhex(hexadecimal))


def _pem(name: str, der: bytes) -> bytes:
    text = base64.encodebytes(der).decode()
    return f"-----BEGIN {name}-----\n{text}-----END {name}-----\n".encode()


_CURVE = _oid("2a8648ce3d030107")
_ALGORITHM = _sequence(_oid("2a8648ce3d040302"))  # ecdsa-with-SHA256
