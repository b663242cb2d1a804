import contextlib
import datetime
import io
import os
import random
import socket
import ssl
import struct
import tempfile
import types
import unittest
import unittest.mock

import numpy as np
import trainctl
from trainctl import _certificate, _options, _samples, _serve, _server, _shared, _wire, _workers, dataset, torch


class Wire(unittest.TestCase):
    """Bytes of version 1 of the protocol, which Go writes as well (core/sdk/pb)."""

    golden = (
        ("InfoReply", "0a076261636b656e6412037463701a01312a1a0a05636f6e6e731203696e741a013129000000000000f03f40013202010442010148085207626974776973655a0373686d5a06696e6c696e65",
         dict(kind="backend", name="tcp", version="1", dtypes=[1, 4], ops=[1], max_world=8, determinism="bitwise", data_planes=["shm", "inline"],
              options=[dict(name="conns", type="int", default_json=b"1", min=1.0, required=True)])),
        ("PolicyReply", "0a024f3110012804320a0a06636f6e763264100139000000000000f0404001",
         dict(name="O1", params=1, lower=4, casts={"conv2d": 1}, scale=65536.0, dynamic=True)),
        ("Error", "0a01741a14080c100118ffffffffffffffffff012201032805",
         dict(text="t", stall=dict(seq=12, op=1, bucket=-1, missing=[3], waited_ns=5))),
        ("FillRequest", "08011002180322020405", dict(split=1, epoch=2, seed=3, indices=[4, 5])),
    )

    def test_golden_bytes(self):
        for name, text, values in self.golden:
            self.assertEqual(_wire.encode(name, values).hex(), text, name)
            decoded = _wire.decode(name, bytes.fromhex(text))
            for field, value in values.items():
                if not isinstance(value, dict) or name == "PolicyReply":
                    if not (isinstance(value, list) and value and isinstance(value[0], dict)):
                        self.assertEqual(getattr(decoded, field), value, field)
        self.assertEqual(_wire.decode("Error", bytes.fromhex(self.golden[2][1])).stall.bucket, -1)

    def test_damaged_messages_are_refused(self):
        for text in ("0a", "0a05616263", "ff", "0b"):
            with self.assertRaises(ValueError):
                _wire.decode("InfoReply", bytes.fromhex(text))

    def test_unknown_fields_are_skipped(self):
        self.assertEqual(_wire.decode("Peer", bytes.fromhex("f83f0508071a0178")).peer, 7)


class Certificate(unittest.TestCase):
    def test_openssl_accepts_key_and_certificate(self):
        key, certificate, _ = _certificate.create()
        with tempfile.NamedTemporaryFile() as f:
            f.write(key + certificate)
            f.flush()
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(f.name)  # checks that they belong together
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=certificate.decode())
        self.assertEqual(context.get_ca_certs()[0]["subjectAltName"], (("DNS", "localhost"),))

    def test_handshake_verifies_the_signature(self):
        key, certificate, _ = _certificate.create()
        with tempfile.NamedTemporaryFile() as f:
            f.write(key + certificate)
            f.flush()
            server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            server.load_cert_chain(f.name)
        client = ssl.create_default_context(cadata=certificate.decode())
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        a = client.wrap_bio(to_client, to_server, server_hostname="localhost")
        b = server.wrap_bio(to_server, to_client, server_side=True)
        for _ in range(4):
            for side in (a, b):
                try:
                    side.do_handshake()
                except ssl.SSLWantReadError:
                    pass
        self.assertIn("TLS", a.version())


class Options(unittest.TestCase):
    class Example:
        rate = _options.Option(0.5, min=0, max=1, doc="How often.")
        names = _options.Option(type=list[str], doc="Names.")
        wait = _options.Option(datetime.timedelta(seconds=90), min=datetime.timedelta(seconds=1), doc="How long.")

    def test_types_come_from_defaults(self):
        messages = {o.name: o.message() for o in _options.published(self.Example)}
        self.assertEqual([m["type"] for m in messages.values()], ["float", "string list", "duration"])
        self.assertEqual(messages["wait"]["default_json"], b'"90s"')
        self.assertEqual((messages["rate"]["min"], messages["wait"]["min"]), (0.0, 1.0))
        self.assertEqual(messages["names"]["default_json"], b"")
        with self.assertRaises(TypeError):
            _options.Option(doc="no default and no type")

    def test_durations_are_exact(self):
        for default, text in ((datetime.timedelta(days=30), b'"2592000s"'), (datetime.timedelta(microseconds=50), b'"50us"'),
                              (datetime.timedelta(seconds=1234, microseconds=567), b'"1234000567us"'), (datetime.timedelta(seconds=-2), b'"-2s"')):
            self.assertEqual(_options.Option(default, doc="A time.").message()["default_json"], text)

    def test_values_become_attributes(self):
        e = self.Example()
        self.assertEqual(e.rate, 0.5)
        _options.assign(e, '{"rate": 1, "names": ["a"], "wait": "1m30.5s"}'.encode())
        self.assertEqual((e.rate, e.names, e.wait), (1.0, ["a"], datetime.timedelta(seconds=90.5)))
        with self.assertRaises(trainctl.Error):
            _options.assign(e, b'{"rte": 1}')


class Errors(unittest.TestCase):
    def test_exceptions_name_their_place(self):
        from trainctl import _errors
        try:
            raise ValueError("seven")
        except ValueError as e:
            self.assertRegex(_errors.detail(e)["text"], r"^ValueError: seven at test_units.py:\d+ in test_exceptions")
        self.assertEqual(_errors.detail(trainctl.CorruptData("a.png is empty"))["code"], "dataset.corrupt")
        self.assertEqual(_errors.detail(OSError("no file \udce9"))["text"], "OSError: no file \\udce9")

    def test_names_that_are_not_utf8(self):
        self.assertEqual(_wire.decode("Error", _wire.encode("Error", {"text": "no file \udce9.png"})).text, "no file \\udce9.png")


class Exits(unittest.TestCase):
    """sys.exit in the plugin's code is an error like any other: the host would wait for an answer."""

    class Exiting(trainctl.Precision):
        def update(self, found_inf):
            raise SystemExit(3)

    def test_in_an_operation_of_the_ring(self):
        class Ring:
            submissions = [struct.pack("<QQQIiiBBBx72s", 0, 0, 0, 0, 0, -1, 65, 0, 0, b"")]
            ticket, seq = 1, 0
            failed = []

            def next(self):
                return self.submissions.pop()  # IndexError ends the thread

            def post(self, failed, result=b""):
                self.failed.append(failed)

        server = _server.Server(self.Exiting(), None)
        server._ring, server._opened = Ring(), True
        with contextlib.redirect_stderr(io.StringIO()):
            server._work()
        self.assertEqual(Ring.failed, [True])
        self.assertRegex(server.Failure(types.SimpleNamespace(ticket=1), 1)["text"], "^SystemExit: 3 at test_units.py")

    def test_in_a_call(self):
        class Aborted(Exception):
            pass

        class Context:
            def time_remaining(self):
                return 1.0

            def set_trailing_metadata(self, metadata):
                pass

            def abort(self, code, text):
                raise Aborted(text)

        def leave(request, timeout):
            raise SystemExit(3)

        with contextlib.redirect_stderr(io.StringIO()), self.assertRaisesRegex(Aborted, "SystemExit: 3"):
            _serve._call(leave)(None, Context())


class Samples(unittest.TestCase):
    def test_a_batch_with_too_few_samples_is_refused(self):
        class Short:
            def __getitems__(self, indices):
                return [(0.0, 0)] * (len(indices) - 1)

        with self.assertRaisesRegex(trainctl.Error, "returned 1 samples for 2 indices"):
            self.reader(Short()).read("train", np.arange(2), 0, 0, np.zeros(2, np.float32), np.zeros(2, np.int32))

    @staticmethod
    def reader(data):
        reader = object.__new__(_samples.Reader)
        reader.sets, reader._draws, reader._after, reader._tables = {"train": data}, set(), None, {"train": _samples._table(data)}
        return reader

    def test_random_numbers_depend_on_the_sample_alone(self):
        class Alone:
            def __getitem__(self, i):
                return (i if i < 2 else i + np.random.random()), random.randrange(10)

        class Together(Alone):
            def __getitems__(self, indices):
                return [self[i] for i in indices]

        def read(data, *batches):
            reader, out = self.reader(data), {}
            for indices in batches:
                input, target = np.zeros(len(indices), np.float32), np.zeros(len(indices), np.int32)
                reader.read("train", np.array(indices), 7, 1, input, target)
                out.update({i: (x, y) for i, x, y in zip(indices, input.tolist(), target.tolist())})
            return out

        want = read(Alone(), [0, 1, 2, 3])
        for data in (Alone(), Together()):
            self.assertEqual(read(data, [3], [2, 1], [0]), want)
            self.assertEqual(read(data, [0, 1], [3, 2]), want)

    def test_tensors_and_integers_are_written_together(self):
        try:
            import torch as pytorch
        except ImportError:
            self.skipTest("there is no PyTorch")
        data = {0: (pytorch.tensor([1.0, 2.0], requires_grad=True), 3), 1: (pytorch.tensor([4.0, 5.0]), 6)}
        others = {1: (pytorch.tensor([4, 5]), 6), 2: (np.array([4.0, 5.0]), np.int64(6)), 3: (pytorch.tensor([4.0, 5.0], dtype=pytorch.float64), pytorch.tensor(6))}
        for other in (data[1], *others.values()):
            input, target = np.zeros((2, 2), np.float32), np.zeros(2, np.int32)
            self.reader({0: data[0], 1: other}).read("train", np.arange(2), 0, 0, input, target)
            self.assertEqual((input.tolist(), target.tolist()), ([[1.0, 2.0], [4.0, 5.0]], [3, 6]))
        with self.assertRaisesRegex(trainctl.CorruptData, "sample 1 has an input of shape"):
            self.reader({0: data[0], 1: (pytorch.zeros(3), 6)}).read("train", np.arange(2), 0, 0, np.zeros((2, 2), np.float32), np.zeros(2, np.int32))

    def test_two_tensors_are_copied(self):
        try:
            import torch as pytorch
        except ImportError:
            self.skipTest("there is no PyTorch")
        data = pytorch.utils.data.TensorDataset(pytorch.arange(6.0, dtype=pytorch.float64, requires_grad=True).reshape(3, 2), pytorch.tensor([7, 8, 9]))
        input, target = np.zeros((3, 2), np.float32), np.zeros(3, np.int32)
        self.reader(data).read("train", np.array([2, 0, 2]), 0, 0, input, target)
        self.assertEqual((input.tolist(), target.tolist()), ([[4.0, 5.0], [0.0, 1.0], [4.0, 5.0]], [9, 7, 9]))

    def test_a_data_set_that_draws_nothing_is_not_seeded(self):
        class Plain:
            def __getitem__(self, i):
                return float(i), i

        random.seed(3)
        want = random.Random(3).random()
        input = np.zeros(2, np.float32)
        self.reader(Plain()).read("train", np.array([4, 5]), 0, 0, input, np.zeros(2, np.int32))
        self.assertEqual((input.tolist(), random.random()), ([4.0, 5.0], want))

    def test_classes(self):
        for classes, want in (([3, "b"], (2, ("3", "b"))), (10, (10, ())), ([("tench", "fish")], (1, ("tench, fish",))), (len, (0, ()))):
            self.assertEqual(torch._classes(types.SimpleNamespace(classes=classes)), want)
        self.assertEqual(torch._classes(object()), (0, ()))


class Shared(unittest.TestCase):
    def test_a_name_is_the_same_memory(self):
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.dict(os.environ, {"TRAINCTL_PLUGIN_SHARED_DIR": os.path.join(folder, "run")}):
            first, second, other = _shared.memory("a", 100), _shared.memory("a", 100), _shared.memory("b", 100)
            first[7] = 9
            self.assertEqual((second[7], other[7]), (9, 0))
            with socket.socket(socket.AF_UNIX) as gone:  # its process has been killed
                gone.bind(os.path.join(folder, "run", "c"))
            self.assertEqual(_shared.memory("c", 100)[7], 0)
            os.environ["TRAINCTL_PLUGIN_SHARED_DIR"] = os.path.join(folder, "x" * 100)  # too long for a socket
            self.assertEqual(_shared.memory("a", 100)[7], 0)
        self.assertEqual(_shared.memory("a", 100)[7], 0)


class Fingerprint(unittest.TestCase):
    def test_parts_are_apart(self):
        one = np.arange(2, dtype=np.uint8)
        lists = [("ab", "c"), ("a", "bc"), ("abc",), (one, one), (np.concatenate([one, one]),), (1, 23), (12, 3), (np.float32(1),), (np.array(1, np.float32),)]
        self.assertEqual(len({trainctl.fingerprint(*parts) for parts in lists}), len(lists))


class Fills(unittest.TestCase):
    def submission(self, **fields):
        f = {"count": 2, "size": 16, "offset": 0, "input": 64, "input_size": 8, "target": 128, "target_size": 8, "split": 0, **fields}
        data = struct.pack("<QQQIiiBBBx", f["offset"], f["count"], f["size"], 1, 0, -1, 64, 0, 0)
        data += struct.pack("<IB3xqQQQQQ", f["split"], 0, 5, 7, f["input"], f["input_size"], f["target"], f["target_size"])
        return data.ljust(112, b"\0")

    def test_fills_are_checked(self):
        memory = bytearray(192)
        memory[8:16] = (3).to_bytes(8, "little")

        def part(offset, size):
            if offset + size > len(memory):
                raise trainctl.Error("outside")
            return memoryview(memory)[offset:offset + size]

        filler = dataset.Filler(trainctl.Spec(trainctl.f32(), trainctl.i32(), 4, 2, "x"))
        arena = lambda number: types.SimpleNamespace(part=part)  # noqa: E731
        for _ in range(2):  # the second time from what is kept
            batch = filler.from_ring(self.submission(), arena)
            self.assertEqual((batch.split, batch.epoch, batch.seed, batch.augment, batch.indices.tolist()), ("train", 5, 7, True, [0, 3]))
        for wrong in ({"size": 8}, {"size": 0}, {"offset": 4}, {"input_size": 4}, {"target_size": 16}, {"split": 2}, {"split": 1}, {"count": 1 << 40}, {"target": 190}):
            with self.assertRaises(trainctl.Error, msg=str(wrong)):
                filler.from_ring(self.submission(**wrong), arena)
        memory[8:16] = (-1).to_bytes(8, "little", signed=True)
        with self.assertRaisesRegex(trainctl.Error, "a sample outside 0..3"):
            filler.from_ring(self.submission(), arena)


class Workers(unittest.TestCase):
    def test_an_answer_that_breaks_off(self):
        for sent in (b"", b"\5\0", b"\5\0\0\0ab"):
            ours, theirs = socket.socketpair()
            with ours:
                with theirs:
                    theirs.sendall(sent)
                with self.assertRaises(EOFError):
                    _workers.Channel(ours).receive()


if __name__ == "__main__":
    unittest.main()
