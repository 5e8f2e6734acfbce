# SPDX-License-Identifier: Apache-2.0
"""Transport, messages and limits: what a frame may look like, whatever it says."""

import zmq
from msgpack import ExtType, packb
from zmq.utils.monitor import recv_monitor_message

from kit import NO_JOB, brief, expect, expect_error, expect_that, rule, skip
from page import HEADER_BYTES_MAX, INT_MAX, ODD_VALUES, Raw, pack_header

# ---- Transport ----------------------------------------------------------------------------------------------


@rule("Transport")
def clients_are_dealers_or_reqs(room):
    """Clients connect with DEALER or REQ."""
    for kind in (zmq.DEALER, zmq.REQ):
        expect(room.client(kind).ask("ping").op, "pong", "the answer to ping")


@rule("Transport")
def connections_are_told_apart(room):
    """The broker tells connections apart by itself; a routing id never appears in a message."""
    clients = [room.client() for _ in range(5)]
    for number, client in enumerate(clients):
        client.send("ping", {"ref": number})
    for number, client in enumerate(clients):
        pong = client.get("pong")
        expect(pong.fields.get("ref"), number, "the ref of each connection's own pong")
        expect(pong.envelope, [], "the frames before the header")


@rule("Transport")
def jobs_survive_their_connection(room):
    """Connections may come and go; what must survive a connection is named by a job's id."""
    first, worker = room.client(), room.worker()
    job_id = first.accepted(b"question", id=room.id("a"))["id"]
    first.close()
    worker.hand_in(worker.get("job"), body=b"answer")
    expect(room.client().fetch(job_id).body, b"answer", "what another connection fetches")


@rule("Transport")
def what_is_not_heard_is_asked_again(room):
    """A client that hears nothing submits again with the same id, and is answered."""
    client, worker = room.client(), room.worker()
    client.accepted(b"q", id=room.id("a"))
    worker.hand_in(worker.get("job"), body=b"answer")
    client.submit(b"q", id=room.id("a"))
    expect(client.get("result").body, b"answer", "the answer to the second submit")


# ---- Header -------------------------------------------------------------------------------------------------


@rule("Messages")
def header_has_three_or_four_elements(room):
    """A header is a msgpack array [ "LMQ1", op, fields ] or [ "LMQ1", op, fields, body ]."""
    client = room.client()
    for header in (["LMQ1", "ping", {}], ["LMQ1", "ping", {}, b""]):
        client.send_raw(packb(header))
        expect(client.get().op, "pong", f"the answer to {header}")
    for header in (
        ["LMQ1"],
        ["LMQ1", "ping"],
        ["LMQ1", "ping", {}, b"", b""],
        ["LMQ1", 7, {}],
        ["LMQ1", "ping", "fields"],
        ["LMQ1", "ping", None],
        ["LMQ1", "ping", {}, "a text"],
        ["LMQ1", "ping", {}, None],
        ["LMQ2", "ping", {}],
        {"LMQ1": "ping"},
        "LMQ1",
    ):
        with room.case(f"{header}"):
            client.send_raw(packb(header))
            expect_error(client.get(), "bad_request")


@rule("Messages")
def header_begins_with_the_six_bytes(room):
    """The header is the first frame that begins with 93 or 94 and A4 4C 4D 51 31: both in msgpack's shortest
    form."""
    client = room.client()
    for what, head in {
        "an array of 16 bits": b"\xdc\x00\x03\xa4LMQ1",
        "an array of 32 bits": b"\xdd\x00\x00\x00\x03\xa4LMQ1",
        "a str of 8 bits": b"\x93\xd9\x04LMQ1",
        "a bin": b"\x93\xc4\x04LMQ1",
    }.items():
        with room.case(what):
            client.send_raw(head + packb("ping") + b"\x80")
            expect_error(client.get(), "bad_request")
    client.send_raw(packb(["LMQ1", "ping", {}]), envelope=[b"\x93\xa4LMQ2", b"\x92\xa4LMQ1"])
    expect(client.get("pong").envelope, [b"\x93\xa4LMQ2", b"\x92\xa4LMQ1"], "frames that only look like a header")


@rule("Messages")
def nothing_but_a_body_follows_the_header(room):
    """Nothing but its body frame may follow the header."""
    client = room.client()
    client.send_raw(packb(["LMQ1", "ping", {"ref": 1}]), b"body", b"more")
    expect_error(client.get(), "bad_request")
    client.send_raw(packb(["LMQ1", "ping", {"ref": 1}]), b"", b"")
    expect_error(client.get(), "bad_request")


# ---- Envelope -----------------------------------------------------------------------------------------------


@rule("Messages")
def envelope_comes_back(room):
    """The broker puts the envelope, unchanged and in its order, in front of everything it sends about that
    request."""
    client, worker = room.client(), room.worker()
    hops = [b"hop-1", b"\x00" * 300, b"", b"\xff\xfe", b"hop-5"]

    def comes_back(op):
        message = client.get(op)
        expect(message.envelope, hops, f"the envelope of {brief(message)}")

    client.send("submit", {"service": room.service, "id": room.id("a"), "reply": "both"}, b"x", envelope=hops)
    comes_back("accepted")
    worker.echo(worker.get("job"))
    comes_back("result")
    for op, fields, answer in (
        ("ping", {}, "pong"),
        ("stats", {}, "stats"),
        ("status", {"id": room.id("a")}, "status"),
        ("cancel", {"id": room.id("a")}, "status"),
        ("fetch", {"id": room.id("a")}, "result"),
        ("submit", {}, "error"),
        ("no-such-op", {}, "error"),
    ):
        with room.case(op):
            client.send(op, fields, envelope=hops)
            comes_back(answer)


@rule("Messages")
def envelope_is_that_of_each_request(room):
    """The envelope is the request's, also where several requests wait for one job."""
    client, worker = room.client(), room.worker()
    for hop in (b"first", b"second"):
        client.send("submit", {"service": room.service, "id": room.id("a")}, b"x", envelope=[hop])
    client.send("fetch", {"id": room.id("a"), "wait_ms": 60000}, envelope=[b"third"])
    client.fence()
    worker.echo(worker.get("job"))
    answers = sorted(client.get("result").envelope for _ in range(3))
    expect(answers, [[b"first"], [b"second"], [b"third"]], "the envelopes of the three answers")


@rule("Limits")
def envelope_has_five_frames(room):
    """Up to 5 envelope frames."""
    client = room.client()
    client.send("ping", envelope=[b"hop"] * 5)
    expect(len(client.get("pong").envelope), 5, "the envelope's frames")
    client.send("ping", envelope=[b"hop"] * 6)
    expect_error(client.get(), "bad_request", 5)


@rule("Limits")
def envelope_has_1024_bytes(room):
    """Envelope frames have together at most 1024 bytes, each counting 2 bytes more than it holds."""
    client = room.client()
    for envelope in ([b"x" * 1022], [b"x" * 510, b"y" * 510], [b"", b"x" * 1014, b"", b"", b""]):
        client.send("ping", envelope=envelope)
        expect(client.get("pong").envelope, envelope, "an envelope of 1024 bytes")
    for envelope in ([b"x" * 1023], [b"x" * 510, b"y" * 511], [b"", b"x" * 1015, b"", b"", b""]):
        client.send("ping", envelope=envelope)
        expect_error(client.get(), "bad_request", 1024)


@rule("Messages")
def req_sockets_and_req_correlate(room):
    """An envelope may be the empty delimiter of a REQ socket and the number of REQ_CORRELATE."""
    worker = room.worker()
    for options in ((), ((zmq.REQ_CORRELATE, 1),)):
        client = room.client(zmq.REQ, options)
        for _ in range(2):  # REQ drops what does not match: a wrong envelope would be silence
            client.submit(b"question")
            worker.hand_in(worker.get("job"), body=b"answer")
            expect(client.get("result").body, b"answer", "what the REQ socket gets")


@rule("Messages")
def req_requests_get_one_answer(room):
    """A request whose last envelope frame is empty came from a REQ socket: it gets exactly one answer."""
    client = room.client()
    client.send("submit", {"service": room.service, "reply": "both", "ref": 1}, envelope=[b"number", b""])
    expect_error(client.get(), "bad_request", "reply")
    expect(client.fence(), [], "what came behind the refusal")
    client.send("submit", {"service": room.service, "reply": "both"}, envelope=[b"", b"hop"])
    expect(client.get().op, "accepted", "the answer where only an earlier frame is empty")


@rule("Messages")
def workers_are_told_without_an_envelope(room):
    """Workers send no envelope: of what they are told, only the answer to a broken message carries one back."""
    client, stranger = room.client(), room.stranger()
    stranger.send("ready", {"services": [room.service], "capacity": 1}, envelope=[b"hop"])
    expect(stranger.get("welcome").envelope, [], "the envelope of welcome")
    client.accepted()
    expect(stranger.get("job").envelope, [], "the envelope of a job")
    stranger.send("result", {"job": NO_JOB}, envelope=[b"hop"])
    expect(expect_error(stranger.get(), "stale").envelope, [], "the envelope of stale")


# ---- Body ---------------------------------------------------------------------------------------------------


@rule("Messages")
def body_stands_in_either_place(room):
    """A body is a fourth element of the header or a frame of its own behind it; the receiver takes either."""
    client, worker = room.client(), room.worker()
    for size in (1, 4096, 4097, 100_000, 1_000_000):
        body = bytes(i % 251 for i in range(size))
        for inside in (True, False):
            with room.case(f"{size} bytes {'inside' if inside else 'behind'}"):
                client.send("submit", {"service": room.service}, body, inside=inside)
                job = worker.get("job")
                expect_that(job.body == body, "the job's body is not that of the submit")
                lease = (job.fields["job"], job.fields["attempt"])
                worker.held.pop(lease)
                worker.send("result", {"job": lease[0], "attempt": lease[1]}, body, inside=inside)
                expect_that(client.get("result").body == body, "the result's body is not that of the outcome")


@rule("Messages")
def never_two_bodies(room):
    """A body stands in the header or behind it, never both."""
    client, stranger = room.client(), room.stranger()
    client.send_raw(packb(["LMQ1", "submit", {"service": room.service}, b"a"]), b"b")
    expect_error(client.get(), "bad_request", "body")
    stranger.send_raw(packb(["LMQ1", "result", {"job": 1}, b"a"]), b"b")
    expect_error(stranger.get(), "bad_request", "body")


@rule("Messages")
def broker_chooses_the_place_by_size(room):
    """The broker puts bodies of up to 4096 bytes inside the header."""
    client, worker = room.client(), room.worker()
    for size in (1, 4096, 4097):
        client.submit(bytes(size))
        job = worker.get("job")
        worker.echo(job)
        for message in (job, client.get("result")):
            expect(message.inside, size <= 4096, f"inside the header, of a {message.op} with {size} bytes")


@rule("Messages")
def an_absent_body_is_empty(room):
    """No fourth element and no body frame is the same as an empty fourth element or an empty body frame."""
    client = room.client()
    fields = {"service": room.service, "id": room.id("a"), "reply": "accepted"}
    for frames in ([packb(["LMQ1", "submit", fields])], [packb(["LMQ1", "submit", fields, b""])],
                   [packb(["LMQ1", "submit", fields]), b""]):  # fmt: skip
        client.send_frames(*frames)
        expect(client.get().op, "accepted", "the answer to the same job, said in another way")
    expect(room.worker().get("job").body, b"", "the job's body")


# ---- Fields -------------------------------------------------------------------------------------------------


@rule("Messages")
def nil_is_absent(room):
    """A field that is nil is absent, also where it is required."""
    client, worker = room.client(), room.worker()
    optional = [field for field in room.page.fields("Client to broker", "submit").values() if not field.required]
    client.submit(**{field.name: None for field in optional if not field.name.startswith("x-")})
    worker.echo(worker.get("job"))
    result = client.get("result")
    expect_that("ref" not in result.fields and "id" in result.fields, f"nil was taken for a value: {brief(result)}")
    expect_error(client.ask("submit", {"service": None}), "bad_request", "service")


@rule("Messages")
def unknown_fields_are_ignored(room):
    """Unknown fields are ignored, whatever they hold."""
    client, worker = room.client(), room.worker()
    anything = [1, -1, 1.5, None, True, "é", b"\xff", [[], {}], {"a": {"b": [0]}}, ExtType(7, b"x"), 2**64 - 1]
    for number, value in enumerate(anything):
        client.submit(b"x", **{"unknown": value, "y-x": value})
        job = worker.get("job")
        expect_that({"unknown", "y-x"}.isdisjoint(job.fields), f"unknown field {value!r} went to the worker")
        worker.hand_in(job, body=b"%d" % number, unknown=value)
        expect(client.get("result").body, b"%d" % number, f"the answer beside an unknown field {value!r}")


@rule("Messages")
def what_is_passed_on_holds_no_ext(room):
    """What the broker passes on (meta, trace, fields with x-) holds no ext, at any depth."""
    client = room.client()
    odd = [value for what, value in ODD_VALUES.items() if "ext" in what.split() or "timestamp" in what]
    for number, (field, value) in enumerate((field, value) for field in ("meta", "trace", "x-odd") for value in odd):
        client.send_raw(pack_header("submit", {"service": room.service, "ref": number, field: value}))
        expect(expect_error(client.get(), "bad_request", field, "ext").fields.get("ref"), number, "the ref of the answer")


@rule("Messages")
def extra_fields_meta_and_trace_pass_untouched(room):
    """Fields whose names begin with x- go from submit to job untouched, byte for byte, in their order; so do
    meta and trace. (One that is nil is absent.)"""
    client, worker = room.client(), room.worker()
    odd = Raw(b"\xd3\x00\x00\x00\x00\x00\x00\x00\x01")  # 1 in nine bytes
    values = [odd, 1.0, Raw(b"\xca\x3f\x80\x00\x00"), False, [None], b"\xff", [1, {"k": None}], -(2**63), "é"]
    extras = [(f"x-{'zyxwvutsrq'[i]}", value) for i, value in enumerate(values)] + [("x-", 0)]
    passed = [("meta", Raw(b"\xdb\x00\x00\x00\x02hi")), ("trace", {"n": 2**64 - 1})]
    client.send_raw(pack_header("submit", [("service", room.service), *extras, *passed], b"x"))
    worker.get("job")
    header = worker.frames[-1]
    pack = lambda pairs: pack_header("", pairs)[8:] if len(pairs) < 16 else b""
    expect_that(pack(extras) in header, f"{pack(extras).hex(' ')} is not in the job {header.hex(' ')}")
    for pair in passed:
        expect_that(pack([pair]) in header, f"{pack([pair]).hex(' ')} is not in the job {header.hex(' ')}")


@rule("Messages")
def ints_come_in_any_format(room):
    """int is any msgpack integer format."""
    client = room.client()
    for form in (b"\xcc\x05", b"\xcd\x00\x05", b"\xce\0\0\0\x05", b"\xcf" + bytes(7) + b"\x05", b"\xd0\x05",
                 b"\xd1\x00\x05", b"\xd2\0\0\0\x05", b"\xd3" + bytes(7) + b"\x05"):  # fmt: skip
        with room.case(form.hex(" ")):
            client.send_raw(pack_header("submit", {"service": room.service, "attempts_max": Raw(form),
                                                   "ref": Raw(form), "reply": "accepted"}))  # fmt: skip
            expect(client.get("accepted").fields["ref"], 5, "the ref")


@rule("Messages")
def floats_are_never_ints(room):
    """A float is never taken for an int."""
    client, stranger = room.client(), room.stranger()
    for value in (5.0, Raw(b"\xca\x40\xa0\x00\x00")):
        client.send_raw(pack_header("submit", {"service": room.service, "timeout_ms": value}))
        expect_error(client.get(), "bad_request", "timeout_ms")
        stranger.send_raw(pack_header("ready", {"services": [room.service], "capacity": value}))
        expect_error(stranger.get(), "bad_request", "capacity")


@rule("Messages")
def flags_are_never_numbers(room):
    """flag is true or false, never 0 or 1."""
    for value in (0, 1):
        expect_error(room.client().ask("submit", {"service": room.service, "durable": value}), "bad_request", "durable")


# ---- Strictness ---------------------------------------------------------------------------------------------

PING = packb(["LMQ1", "ping", {"ref": 1}])


@rule("Messages")
def header_is_one_value(room):
    """A header is one well-formed msgpack value, with nothing behind it in its frame, and no list or map claims
    more entries than there are bytes."""
    client, stranger = room.client(), room.stranger()
    start = b"\x93\xa4LMQ1\xa4ping"
    broken = {f"cut after {size} bytes": PING[:size] for size in range(6, len(PING))}
    broken["a byte behind"] = PING + b"\x00"
    broken["another header behind"] = PING + PING
    broken["the byte that msgpack never uses"] = start + b"\x81\xa1a\xc1"
    broken["a list of 4 billion"] = start + b"\x81\xa1a\xdd\xff\xff\xff\xff"
    broken["a map of 4 billion"] = start + b"\x81\xa1a\xdf\xff\xff\xff\xff"
    broken["fields of 4 billion"] = start + b"\xdf\xff\xff\xff\xff"
    broken["a text of 4 billion bytes"] = start + b"\x81\xa1a\xdb\xff\xff\xff\xff"
    for what, header in broken.items():
        for peer in (client, stranger):
            with room.case(what):
                peer.send_raw(header)
                expect((message := peer.get()).op, "error", "the answer")
                expect_that(message.fields["code"] in ("bad_request", "too_large"), f"it says {brief(message)}")


@rule("Messages")
def keys_are_strings(room):
    """Every key of a map is a string, at any depth and in unknown fields too."""
    client, stranger = room.client(), room.stranger()
    for key in (1, None, True, b"k"):
        for fields in ([(key, 1)], {"unknown": {key: 1}}, {"x-a": [{"a": {key: 1}}]}, {"meta": {key: 1}}):
            for peer in (client, stranger):
                with room.case(f"{fields}"):
                    peer.send_raw(pack_header("submit" if peer is client else "heartbeat", fields))
                    expect_error(peer.get(), "bad_request")


@rule("Messages")
def keys_come_once(room):
    """No key appears twice in one map, at any depth and in unknown fields too."""
    client, stranger = room.client(), room.stranger()
    twice = Raw(b"\x82\xa1a\x01\xa1a\x02")
    long_form = Raw(b"\x82\xa1a\x01\xd9\x01a\x02")  # the same key in another format
    for fields in (
        [("service", room.service), ("service", room.service)],
        [("unknown", 1), ("unknown", 1)],
        [("x-a", 1), ("x-a", 1)],
        [("service", None), ("service", room.service)],
        {"meta": twice},
        {"x-a": twice},
        {"unknown": Raw(b"\x91\x91" + twice)},
        {"unknown": long_form},
        {"cost": Raw(b"\x82\xacinput_tokens\x01\xacinput_tokens\x01")},
    ):
        for peer in (client, stranger):
            with room.case(f"{fields}"):
                base = [] if isinstance(fields, list) else [("service", room.service)]
                pairs = [*base, *(fields if isinstance(fields, list) else fields.items())]
                if peer is stranger:
                    pairs = [("services", [room.service]), ("capacity", 1), *pairs]
                peer.send_raw(pack_header("submit" if peer is client else "ready", pairs))
                expect_error(peer.get(), "bad_request")


@rule("Messages")
def texts_are_utf8(room):
    """Every str is UTF-8, at any depth and in unknown fields too."""
    client, stranger = room.client(), room.stranger()
    for bad in (b"\xff", b"\xc3", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80"):
        text = Raw(bytes([0xA0 | len(bad)]) + bad)
        for fields in ({"service": text}, {"unknown": text}, {"x-a": Raw(b"\x91" + text)}, [(text, 1)],
                       {"meta": Raw(b"\x81" + text + b"\x01")}, {"ref": text}):  # fmt: skip
            for peer in (client, stranger):
                with room.case(f"{bad!r} in {fields}"):
                    peer.send_raw(pack_header("submit" if peer is client else "heartbeat", fields))
                    expect_error(peer.get(), "bad_request")


# ---- Broken messages ----------------------------------------------------------------------------------------


@rule("Messages")
def broken_messages_are_answered_once_and_change_nothing(room):
    """What cannot be read changes nothing and is answered once."""
    client, worker = room.client(), room.worker()
    client.send_raw(packb(["LMQ1", "submit", {"service": room.service, "id": room.id("a"), "timeout_ms": "soon"}]))
    client.send_raw(PING + b"\x00")
    client.send_raw(b"")
    client.send_raw(b"no message")
    answers = client.fence()
    expect([message.op for message in answers], ["error"] * 4, "the answers")
    client.send("status", {"id": room.id("a")})
    expect(client.get("status").fields["state"], "unknown", "the state of a job whose submit was broken")
    worker.jobs(0)


@rule("Messages")
def broken_messages_say_id_and_ref(room):
    """The answer's message names the field and the limit; id and ref are there where they could be read, in
    front of the fault or behind it."""
    client = room.client()
    good = [("service", room.service), ("id", room.id("a")), ("ref", 77)]
    for what, header in {
        "a field behind": pack_header("submit", [*good, ("attempts_max", 1001)]),
        "a field in front": pack_header("submit", [("attempts_max", 1001), *good]),
    }.items():
        with room.case(what):
            client.send_raw(header)
            answer = expect_error(client.get(), "bad_request", "attempts_max", 1000)
            expect((answer.fields.get("id"), answer.fields.get("ref")), (room.id("a"), 77), "id and ref")
    client.send_raw(packb(["LMQ1", "no-such-op", {"ref": "r", "id": "i"}]))
    answer = expect_error(client.get(), "bad_request", "no-such-op")
    expect((answer.fields.get("id"), answer.fields.get("ref")), ("i", "r"), "id and ref beside an unknown op")


@rule("Messages")
def broken_messages_bring_their_envelope_back(room):
    """The envelope comes back where a header was found behind it; without a header there is none."""
    client, stranger = room.client(), room.stranger()
    for peer in (client, stranger):
        peer.send_raw(packb(["LMQ1", "no-such-op", {}]), envelope=[b"hop", b""])
        expect(expect_error(peer.get(), "bad_request").envelope, [b"hop", b""], "the envelope")
        peer.send_raw(b"no header", envelope=[b"hop"])
        expect(expect_error(peer.get(), "bad_request").envelope, [], "the envelope without a header")


@rule("Messages")
def unknown_ops_are_broken_messages(room):
    """An unknown op is a broken message, also one that belongs to the other socket or the other direction."""
    client, stranger = room.client(), room.stranger()
    for peer, ops in ((client, ("", "Ping", "ready", "heartbeat", "accepted", "pong", "x" * 1000)),
                      (stranger, ("", "Ready", "submit", "ping", "welcome", "job"))):  # fmt: skip
        for op in ops:
            with room.case(op[:20]):
                peer.send(op, {"service": "x", "job": 1, "id": "x"})
                expect_error(peer.get(), "bad_request")


@rule("Messages", slow=True)
def broken_messages_are_signs_of_life(room):
    """On the workers' socket the answer is an error too, and a broken message counts as a sign of life."""
    client, worker = room.client(), room.worker(heartbeats=False)
    job = room.running(worker, client)
    for _ in range(8):  # four intervals
        worker.send("no-such-op")
        expect_error(worker.get(), "bad_request")
        room.keep_alive(worker.interval / 2)
    worker.echo(job)
    expect(client.get("result").fields.get("attempts", 1), 1, "the attempts of a job whose worker was never lost")


# ---- Limits -------------------------------------------------------------------------------------------------


def padded_ping(size):
    header = packb(["LMQ1", "ping", {"ref": 1, "unknown": ""}])
    room = size - len(header) - 2  # the text's length takes three bytes in the place of one
    return packb(["LMQ1", "ping", {"ref": 1, "unknown": "x" * room}])


@rule("Limits")
def header_has_16384_bytes(room):
    """A header, its body not counted, has at most 16384 bytes (header_bytes_max); too_large where it is
    over."""
    client, stranger = room.client(), room.stranger()
    expect(len(padded_ping(HEADER_BYTES_MAX)), HEADER_BYTES_MAX, "the kit's own header")
    client.send_raw(padded_ping(HEADER_BYTES_MAX))
    expect(client.get().op, "pong", "the answer to a header of the largest size")
    client.send_raw(padded_ping(HEADER_BYTES_MAX + 1))
    expect_error(client.get(), "too_large", "header_bytes_max", HEADER_BYTES_MAX)
    stranger.send_raw(packb(["LMQ1", "heartbeat", {"unknown": "x" * HEADER_BYTES_MAX}]))
    expect_error(stranger.get(), "too_large", HEADER_BYTES_MAX)
    client.send_raw(packb(["LMQ1", "submit", {"service": room.service, "reply": "accepted"}, bytes(100_000)]))
    expect(client.get().op, "accepted", "the answer where only the body inside is large")


@rule("Limits")
def header_nests_8_deep(room):
    """A header nests at most 8 deep, its own array being depth 1 (header_depth_max)."""
    client = room.client()
    for opening, closing in ((b"\x91", b"\x90"), (b"\x81\xa1k", b"\x80")):
        for depth in (8, 9):  # the array is 1 and the fields are 2; the innermost is one more
            client.send_raw(pack_header("ping", {"unknown": Raw(opening * (depth - 3) + closing)}))
            if depth == 8:
                expect(client.get().op, "pong", "the answer to 8 levels")
            else:
                expect_error(client.get(), "bad_request", 8)


@rule("Limits")
def maps_have_64_entries(room):
    """A map has at most 64 entries (map_entries_max), at any depth."""
    client = room.client()
    entries = lambda count: {f"k{i}": i for i in range(count)}
    for fields in (entries(64), {"unknown": entries(64)}, {"unknown": [entries(64)] * 2}):
        client.send("ping", fields)
        expect(client.get().op, "pong", "the answer to maps of 64")
    for fields in (entries(65), {"unknown": entries(65)}, {"unknown": [{"k": entries(65)}]}):
        client.send("ping", fields)
        expect_error(client.get(), "bad_request", 64)


@rule("Limits")
def refs_are_64_bytes_or_64_bits(room):
    """A ref is a text of up to 64 bytes, or any integer of 64 bits."""
    client = room.client()
    for ref in ("", "é" * 32, 0, -(2**63), 2**64 - 1, INT_MAX):
        expect(client.ask("ping", {"ref": ref}, expect="pong").fields.get("ref"), ref, "the ref that comes back")
    expect_error(client.ask("ping", {"ref": "x" * 65}), "bad_request", "ref", 64)


@rule("Limits")
def bodies_have_their_limit(room):
    """A body has at most the body_bytes_max that welcome says; a larger one is too_large."""
    client, worker = room.client(), room.worker(welcome=False)
    largest = worker.get("welcome").fields["body_bytes_max"]
    if largest > 128 << 20:
        skip(f"body_bytes_max is {largest}: too large to send here")
    client.submit(bytes(largest))
    job = worker.get("job")
    expect(len(job.body), largest, "the size of the job's body")
    worker.hand_in(job, body=job.body)
    expect(len(client.get("result").body), largest, "the size of the result's body")
    for inside in (True, False):
        fields = {"service": room.service, "id": room.id("big"), "ref": 1}
        client.send("submit", fields, bytes(largest + 1), inside=inside)
        refused = expect_error(client.get(), "too_large", "body_bytes_max", largest)
        expect((refused.fields.get("id"), refused.fields.get("ref")), (room.id("big"), 1), "its id and ref")


@rule("Limits")
def far_too_large_frames_end_the_connection(room):
    """A frame that is more than 1 MiB larger than the largest body ends the connection without an answer."""
    worker = room.worker(welcome=False)
    largest = worker.get("welcome").fields["body_bytes_max"]
    if largest > 128 << 20:
        skip(f"body_bytes_max is {largest}: too large to send here")
    client = room.client()
    client.ask("ping", expect="pong")
    monitor = client.socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
    client.send_frames(packb(["LMQ1", "submit", {"service": room.service}]), bytes(largest + (1 << 20) + 1))
    room.pump(lambda: monitor.poll(10), "the end of the connection")
    expect(recv_monitor_message(monitor)["event"], zmq.EVENT_DISCONNECTED, "what happened to the connection")
    client.socket.disable_monitor()
    expect(client.fence(), [], "what the client got")  # by then it is connected again
